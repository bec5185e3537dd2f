"""What `sample` adds to its kernels must not cost exactness: hand-over, streams of randomness."""

import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import nnghmc.sampler
from nnghmc import GradientMLP, TrainingSchedule, from_log_density, sample
from nnghmc.kernels import hmc
from support import KNOWN_TARGETS, assert_same_distribution

CHAINS = 4000


@pytest.mark.parametrize("name", ["gaussian", "skewed"])
@pytest.mark.parametrize("method", ["hmc", "nnghmc"])
def test_kept_draws_are_from_the_target(name, method):
    """Chains that start from exact draws end in exact draws, with a network that learned little."""
    target = KNOWN_TARGETS[name]
    posterior = from_log_density(lambda q: -target.potential(q), target.exact_draws(1, seed=0)[0])
    run = sample(
        posterior,
        4,
        CHAINS,
        method=method,
        step_size=target.step_size,
        num_steps=(1, target.num_steps),
        warmup=2,
        network=GradientMLP(2),
        epochs=1,
        schedule=TrainingSchedule.once(2, tolerance=1.0, probe_draws=30),
        initial_positions=target.exact_draws(CHAINS, seed=1),
        progress=False,
    )
    assert run.handed_over is (method == "nnghmc")
    moved = np.any(run.draws[:, -1] != run.draws[:, 0], axis=1)
    assert moved.mean() > 0.3
    assert_same_distribution(run.draws[:, -1], target.exact_draws(40_000, seed=3))


@pytest.fixture
def phases(monkeypatch):
    """What every phase of every run was started with."""
    seen = []
    original = nnghmc.record.run_chains

    def spy(algorithm, tuning, key, states, draw_numbers, *rest, **options):
        seen.append((algorithm, key, states, draw_numbers))
        return original(algorithm, tuning, key, states, draw_numbers, *rest, **options)

    monkeypatch.setattr(nnghmc.record, "run_chains", spy)
    monkeypatch.setattr(sys.modules["nnghmc.warmup.collect"], "run_chains", spy)
    return seen


def short_run(posterior, method, tolerance=1.0):
    return sample(
        posterior,
        6,
        2,
        method=method,
        step_size=0.1,
        num_steps=3,
        warmup=5,
        network=GradientMLP(3),
        epochs=1,
        schedule=TrainingSchedule(4, 12, 4, tolerance=tolerance, probe_draws=5),
        progress=False,
    )


@pytest.mark.parametrize("tolerance", [0.0, 1.0])
def test_every_phase_starts_from_a_state_that_is_true_to_its_kernel(phases, logistic, tolerance):
    run = short_run(logistic, "nnghmc", tolerance)
    assert run.handed_over is (tolerance == 1.0)
    for move, _, states, _ in phases:
        (algorithm,) = move.args
        assert isinstance(algorithm, eqx.Partial)
        gradient = algorithm.args[1] if algorithm.func is hmc else logistic.gradient
        positions = jnp.asarray(states.position)
        potentials = jax.vmap(logistic.potential)(positions)
        np.testing.assert_allclose(states.potential, potentials, rtol=1e-10)
        np.testing.assert_allclose(states.gradient, jax.vmap(gradient)(positions), rtol=1e-8)
    learned = [move.args[0].func is hmc for move, *_ in phases]
    assert learned == [False, *[False, True] * len(run.decisions), run.handed_over]
    assert len(run.decisions) >= (1 if run.handed_over else 3)


def test_no_draw_of_any_phase_shares_its_randomness_with_another(phases, logistic):
    """Neither within a run of three trainings, nor with standard HMC of the same seed."""
    short_run(logistic, "hmc")
    short_run(logistic, "nnghmc", tolerance=0.0)
    used = [
        (tuple(jax.random.key_data(key).tolist()), number)
        for _, key, _, numbers in phases
        for number in numbers
    ]
    assert len(used) == (5 + 6) + (5 + 12 + 3 * 5 + 6)
    assert len(set(used)) == len(used)
