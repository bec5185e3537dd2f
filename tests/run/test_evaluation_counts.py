"""The headline promise, seen from inside the user's own function.

Every call of the log density is counted by a host callback in it: plain evaluations and
differentiated ones apart. `run.cost` must tell the same. All tests share one posterior, so that its
code is compiled once: code with host callbacks is not kept from run to run.
"""

from collections import Counter
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nnghmc import HMC, GradientMLP, NNgHMC, TrainingSchedule, from_log_density, sample

CHAINS, DRAWS = 3, 40
COUNTS = Counter()


@cache
def counting_posterior():
    """A Gaussian that counts its evaluations, and whether each was differentiated."""

    @jax.custom_vjp
    def seen(x):
        jax.debug.callback(lambda _: COUNTS.update(potentials=1), x)
        return x

    def forward(x):
        jax.debug.callback(lambda _: COUNTS.update(gradients=1), x)
        return x, None

    seen.defvjp(forward, lambda _, slope: (slope,))
    return from_log_density(lambda x: -0.5 * jnp.sum(seen(x) ** 2), np.full(3, 0.1))


def method_of(name, num_steps):
    if name == "hmc":
        return HMC(0.3, num_steps, warmup=4)
    schedule = TrainingSchedule.once(10, tolerance=1.0, probe_draws=6)
    network = GradientMLP(8)
    return NNgHMC(0.3, num_steps, warmup=4, network=network, epochs=3, schedule=schedule)


def counted_run(name, num_steps, draws):
    """A run, and how often it has evaluated the log density."""
    COUNTS.clear()
    method = method_of(name, num_steps)
    run = sample(counting_posterior(), draws, CHAINS, method=method, progress=False)
    jax.effects_barrier()
    return run, Counter(COUNTS)


@pytest.mark.parametrize("num_steps", [1, 10, 50])
def test_one_true_potential_and_no_true_gradient_per_kept_draw(num_steps):
    few, before = counted_run("nnghmc", num_steps, draws=1)
    many, counts = counted_run("nnghmc", num_steps, draws=1 + DRAWS)
    assert few.handed_over
    assert many.handed_over
    assert counts["potentials"] - before["potentials"] == DRAWS * CHAINS
    assert counts["gradients"] == before["gradients"]


@pytest.mark.parametrize("method", ["hmc", "nnghmc"])
@pytest.mark.parametrize("num_steps", [1, 10, (1, 12)])
def test_run_cost_agrees_with_the_count(method, num_steps):
    run, counts = counted_run(method, num_steps, DRAWS)
    total = run.cost.total
    assert (total.true_potentials, total.true_gradients) == (
        counts["potentials"],
        counts["gradients"],
    )
    if method == "hmc":
        assert run.cost.sample.true_gradients == run.stats["n_steps"].sum()
        assert total.true_potentials == total.learned_gradients == 0
    else:
        assert run.cost.sample.true_potentials == DRAWS * CHAINS
        assert run.cost.sample.true_gradients == 0
        assert run.cost.sample.learned_gradients == run.stats["n_steps"].sum()
        assert run.cost.train.true_potentials == 6 * CHAINS
