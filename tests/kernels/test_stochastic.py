"""Stochastic-gradient kernels: which of them are exact, and what the others converge to."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nnghmc.kernels import (
    SGHMCKernel,
    Tuning,
    metropolis_sghmc,
    naive_sghmc,
    sghmc,
    sgld,
)
from support import KNOWN_TARGETS, assert_invariant, ends_of_chains, repeat


def noisy(target, size):
    """The true gradient with noise as a mini-batch makes it: known by the key, large or small."""
    gradient = jax.grad(target.potential)

    def batch_gradient(key, position):
        return gradient(position) + size * jax.random.normal(key, position.shape)

    return batch_gradient


@pytest.mark.parametrize("noise", [0.3, 2.0])
@pytest.mark.parametrize("name", KNOWN_TARGETS)
def test_metropolis_test_makes_it_exact(name, noise):
    target = KNOWN_TARGETS[name]
    dim = target.exact_draws(1, seed=0).shape[1]
    size = noise * (20.0 if name == "banana" else 1.0)  # in units of the gradient
    algorithm = metropolis_sghmc(
        target.potential,
        noisy(target, size),
        target.step_size,
        (1, target.num_steps),
        jnp.linspace(0.5, 1.0, dim),
    )
    assert_invariant(target, algorithm, chains=40_000)


def test_metropolis_test_follows_the_batches_it_was_given():
    """Each point of a trajectory has its own batch, the start among them."""
    seen = []

    def batch_gradient(key, position):
        jax.debug.callback(lambda data: seen.append(tuple(data.tolist())), jax.random.key_data(key))
        return position

    algorithm = metropolis_sghmc(lambda q: 0.5 * jnp.sum(q**2), batch_gradient, 0.3, 4, jnp.ones(2))
    state = algorithm.init(jnp.ones(2))
    algorithm.step(jax.random.key(0), state)
    jax.effects_barrier()
    assert len(seen) == len(set(seen)) == 5


def variance_after(algorithm, chains=20_000, transitions=60):
    states = jax.vmap(algorithm.init)(jnp.zeros((chains, 1)))
    ends = repeat(algorithm.step, states, jax.random.key(5), transitions)
    return float(np.var(np.asarray(ends.position)))


def gaussian_gradient(noise):
    def batch_gradient(key, position):
        return position + noise * jax.random.normal(key, position.shape)

    return batch_gradient


@pytest.mark.parametrize("noise", [0.0, 1.5])
def test_sgld_converges_to_what_its_recursion_says(noise):
    """On N(0, 1): q' = (1 - h) q + h noise + √(2h) n, so the variance is (2h + h²s²)/(2h - h²)."""
    h = 0.4
    expected = (2 * h + (h * noise) ** 2) / (2 * h - h**2)
    found = variance_after(sgld(gaussian_gradient(noise), h, 2))
    assert found == pytest.approx(expected, rel=4 * np.sqrt(2 / 20_000))


STEP_SIZE, NUM_STEPS = 0.3, 5


def variance_of_recursion(friction, injected):
    """The variance that SGHMC's linear recursion has on N(0, 1), with the momentum drawn anew."""
    kept = 1 - friction * STEP_SIZE - STEP_SIZE**2  # p' = (1 - α h) p - h q', q' = q + h p
    matrix = np.array([[1.0, STEP_SIZE], [-STEP_SIZE, kept]])
    spread = np.diag([1.0, 1.0])
    for _ in range(300):  # draws: the position keeps its variance, the momentum is drawn anew
        spread = np.diag([spread[0, 0], 1.0])
        for _ in range(NUM_STEPS):
            spread = matrix @ spread @ matrix.T + np.diag([0.0, injected])
    return spread[0, 0]


@pytest.mark.parametrize(("friction", "noise"), [(0.5, 0.0), (2.0, 0.0), (2.0, 4.0)])
def test_sghmc_converges_to_what_its_recursion_says(friction, noise):
    injected = STEP_SIZE * 2 * friction + (STEP_SIZE * noise) ** 2
    algorithm = sghmc(gaussian_gradient(noise), STEP_SIZE, NUM_STEPS, friction=friction)
    expected = variance_of_recursion(friction, injected)
    assert variance_after(algorithm) == pytest.approx(expected, rel=4 * np.sqrt(2 / 20_000))


def test_sghmc_injects_less_by_the_noise_that_the_gradient_is_known_to_have():
    """A known variance of it is made up for, as if the gradient had no noise."""
    friction, noise = 2.0, 3.0
    tuning = Tuning.checked(STEP_SIZE, NUM_STEPS, None, 1)
    kernel = SGHMCKernel(gaussian_gradient(noise), tuning, friction, noise**2)
    expected = variance_of_recursion(friction, STEP_SIZE * 2 * friction)
    assert variance_after(kernel) == pytest.approx(expected, rel=4 * np.sqrt(2 / 20_000))


def test_naive_leapfrog_is_biased_by_the_noise_and_exact_without_it_at_small_steps():
    small = variance_after(naive_sghmc(gaussian_gradient(0.0), 0.05, 20, jnp.ones(1)))
    biased = variance_after(naive_sghmc(gaussian_gradient(4.0), 0.3, 5, jnp.ones(1)))
    assert small == pytest.approx(1.0, rel=4 * np.sqrt(2 / 20_000))
    assert biased > 2.0


def test_a_position_that_is_lost_is_said_to_be():
    algorithm = sgld(lambda key, q: jnp.full_like(q, jnp.nan), 0.1, 1)
    _, info = algorithm.step(jax.random.key(0), algorithm.init(jnp.zeros(2)))
    assert bool(info.is_nonfinite)
    assert bool(info.is_divergent)


@pytest.mark.parametrize("make", [sgld, naive_sghmc], ids=["sgld", "naive"])
def test_uncorrected_kernels_say_nothing_about_acceptance(make):
    target = KNOWN_TARGETS["gaussian"]
    algorithm = make(noisy(target, 0.1), 0.1, 2, jnp.ones(3))
    _, info = algorithm.step(jax.random.key(0), algorithm.init(jnp.zeros(3)))
    assert np.isnan(info.acceptance_rate)
    ends, starts = ends_of_chains(target, algorithm, 10)
    assert (ends != starts).all()
