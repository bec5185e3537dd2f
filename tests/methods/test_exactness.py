"""What methods add to their kernels must not cost exactness: hand-over, streams of randomness."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nnghmc import HMC, GradientMLP, NNgHMC, TrainingSchedule, from_log_density, sample
from nnghmc.kernels import LearnedGradientHMC, TrueGradientHMC
from support import KNOWN_TARGETS, assert_same_distribution
from support_sessions import watched_run

CHAINS = 4000


def method_for(target, name):
    tuning = {"step_size": target.step_size, "num_steps": (1, target.num_steps), "warmup": 2}
    if name == "hmc":
        return HMC(**tuning)
    schedule = TrainingSchedule.once(2, tolerance=1.0, probe_draws=30)
    return NNgHMC(**tuning, network=GradientMLP(2), epochs=1, schedule=schedule)


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
        method=method_for(target, method),
        initial_positions=target.exact_draws(CHAINS, seed=1),
        progress=False,
    )
    assert run.handed_over is (method == "nnghmc")
    moved = np.any(run.draws[:, -1] != run.draws[:, 0], axis=1)
    assert moved.mean() > 0.3
    assert_same_distribution(run.draws[:, -1], target.exact_draws(40_000, seed=3))


STANDARD = HMC(0.1, 3, warmup=5)


def learning(tolerance=1.0):
    schedule = TrainingSchedule(4, 12, 4, tolerance=tolerance, probe_draws=5)
    return NNgHMC(0.1, 3, warmup=5, network=GradientMLP(3), epochs=1, schedule=schedule)


@pytest.mark.parametrize("tolerance", [0.0, 1.0])
def test_every_phase_starts_from_a_state_that_is_true_to_its_kernel(logistic, tolerance):
    run, phases = watched_run(logistic, 6, 2, learning(tolerance))
    assert run.handed_over is (tolerance == 1.0)
    for phase in phases:
        kernel, states = phase.kernel, phase.states
        assert isinstance(kernel, LearnedGradientHMC | TrueGradientHMC)
        learned = isinstance(kernel, LearnedGradientHMC)
        gradient = kernel.gradient if learned else logistic.gradient
        positions = jnp.asarray(states.position)
        potentials = jax.vmap(logistic.potential)(positions)
        np.testing.assert_allclose(states.potential, potentials, rtol=1e-10)
        np.testing.assert_allclose(states.gradient, jax.vmap(gradient)(positions), rtol=1e-8)
    learned = [isinstance(phase.kernel, LearnedGradientHMC) for phase in phases]
    assert learned == [False, *[False, True] * len(run.decisions), run.handed_over]
    assert len(run.decisions) >= (1 if run.handed_over else 3)


def test_no_draw_of_any_phase_shares_its_randomness_with_another(logistic):
    """Within a run of three trainings, and with other runs of the same seed.

    These are standard HMC, and a run that uses what the first has learned.
    """
    _, by_hmc = watched_run(logistic, 6, 2, STANDARD)
    run, by_learning = watched_run(logistic, 6, 2, learning(tolerance=0.0))
    reusing = replace(learning(), surrogate=run.surrogate)
    _, by_reusing = watched_run(logistic, 6, 2, reusing)
    used = [
        (tuple(jax.random.key_data(phase.key).tolist()), number)
        for phase in (*by_hmc, *by_learning, *by_reusing)
        for number in phase.numbers
    ]
    assert len(used) == (5 + 6) + (5 + 12 + 3 * 5 + 6) + (5 + 5 + 6)
    assert len(set(used)) == len(used)


def test_a_watched_run_is_the_one_that_sample_makes(logistic):
    run, phases = watched_run(logistic, 6, 2, learning())
    same = sample(logistic, 6, 2, method=learning(), progress=False)
    np.testing.assert_array_equal(run.draws, same.draws)
    np.testing.assert_array_equal(run.warmup_draws, same.warmup_draws)
    rounds = ["collect", "train"] * len(run.decisions)
    assert [phase.name for phase in phases] == ["warmup", *rounds, "sample"]
