"""NUTS in the words of this package: the same sampler as BlackJAX's."""

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nnghmc.kernels import nuts
from nnghmc.kernels.nuts import beside_resonance
from support import KNOWN_TARGETS


def of(target, step_size):
    dim = target.exact_draws(1, seed=0).shape[1]
    return nuts(jax.value_and_grad(target.potential), step_size, 1, jnp.ones(dim))


def test_draws_are_those_of_blackjax():
    target = KNOWN_TARGETS["gaussian"]
    ours = of(target, 0.3)
    theirs = blackjax.nuts(lambda q: -target.potential(q), 0.3, jnp.ones(3))
    position = jnp.asarray([0.3, -0.2, 1.0])
    state, other = ours.init(position), theirs.init(position)
    for number in range(5):
        key = jax.random.key(number)
        state, info = jax.jit(ours.step)(key, state)
        other, found = jax.jit(theirs.step)(key, other)
        np.testing.assert_allclose(state.position, other.position, rtol=1e-10)
        np.testing.assert_allclose(state.potential, -other.logdensity, rtol=1e-10)
        np.testing.assert_allclose(state.gradient, -other.logdensity_grad, rtol=1e-10)
        assert info.num_integration_steps == found.num_integration_steps
        np.testing.assert_allclose(info.acceptance_rate, found.acceptance_rate, rtol=1e-10)


@pytest.mark.parametrize(("step_size", "diverges"), [(0.3, False), (50.0, True)])
def test_a_trajectory_that_diverges_is_said_to(step_size, diverges):
    algorithm = of(KNOWN_TARGETS["gaussian"], step_size)
    state = algorithm.init(jnp.asarray([0.3, -0.2, 1.0]))
    _, info = jax.jit(algorithm.step)(jax.random.key(0), state)
    assert bool(info.is_divergent) is diverges


@pytest.mark.parametrize("doublings", [3, 4, 5])
def test_no_trajectory_spans_the_period_of_a_standard_normal(doublings):
    """Its ends would be the same, without a U-turn between them, and it would double on and on."""
    positions = 2**doublings
    step_size = 2 * np.pi / (positions - 1)
    field = jax.value_and_grad(lambda q: 0.5 * q @ q)
    sampler = nuts(field, step_size, 1, jnp.ones(60))
    starts = jax.vmap(sampler.init)(jax.random.normal(jax.random.key(0), (50, 60)))
    _, info = jax.vmap(sampler.step)(jax.random.split(jax.random.key(1), 50), starts)
    assert info.num_integration_steps.mean() < positions
    np.testing.assert_allclose(info.step_size, 1.08 * step_size)
    for size in (0.9 * step_size, 1.09 * step_size):
        assert beside_resonance(size) == size
