"""Probing makes the draws of HMC along a learned gradient, and reports every proposal."""

import jax
import jax.numpy as jnp
import numpy as np

from nnghmc.kernels import hmc, probing_hmc


def potential(q):
    return jnp.sum(jnp.exp(q) - 2 * q)


def learned(q):
    return 0.8 * (jnp.exp(q) - 2) + 0.1


def test_draws_are_those_of_hmc_and_the_path_is_the_proposal():
    tuning = (0.9, (1, 6), jnp.ones(2))
    plain = hmc(potential, learned, *tuning)
    probing = probing_hmc(jax.value_and_grad(potential), learned, *tuning)
    state = plain.init(jnp.zeros(2))
    assert jax.tree.all(jax.tree.map(jnp.array_equal, state, probing.init(jnp.zeros(2))))
    rejected = 0
    for number in range(40):
        key = jax.random.key(number)
        after, info = jax.jit(plain.step)(key, state)
        same, probe = jax.jit(probing.step)(key, state)
        np.testing.assert_allclose(after.position, same.position, rtol=1e-12)
        np.testing.assert_allclose(info.acceptance_rate, probe.acceptance_rate, rtol=1e-9)
        proposal = probe.path.positions[0]
        np.testing.assert_allclose(probe.path.potentials[0], potential(proposal))
        np.testing.assert_allclose(probe.path.gradients[0], jax.grad(potential)(proposal))
        if probe.is_accepted:
            np.testing.assert_array_equal(proposal, same.position)
        else:
            rejected += 1
            assert not np.allclose(proposal, same.position)
        state = after
    assert rejected > 3
