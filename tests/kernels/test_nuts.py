"""NUTS in the words of this package: the same sampler as BlackJAX's."""

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nnghmc.kernels import nuts
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
