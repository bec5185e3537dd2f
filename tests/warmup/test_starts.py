"""Where the chains of an automatic run begin."""

import jax
import jax.numpy as jnp
import numpy as np

from nnghmc.warmup import spread_starts


def test_starts_are_spread_around_the_initial_point():
    both = jax.value_and_grad(lambda q: 0.5 * jnp.sum(q**2))
    states = spread_starts(both, jnp.full(50, 3.0), None, 8, jax.random.key(0))
    away = np.asarray(states.position) - 3.0
    assert np.abs(away).max() < 1
    assert np.abs(away.std(axis=1) - 1 / np.sqrt(3)).max() < 0.2
    assert len(np.unique(away)) == 400


def test_only_a_chain_that_finds_no_finite_place_starts_at_the_initial_point():
    """Each halves its distance some times; here one coordinate must be what it is to the last."""

    def potential(q):
        return jnp.where((q[0] > 0.5) | (q[0] == 0.0), 0.5 * jnp.sum(q**2), jnp.inf)

    initial = jnp.zeros(2)
    states = spread_starts(jax.value_and_grad(potential), initial, None, 8, jax.random.key(0))
    at_initial = (np.asarray(states.position) == 0).all(axis=1)
    assert 0 < at_initial.sum() < 8
    assert np.isfinite(states.potential).all()
    assert (np.asarray(states.position)[~at_initial, 0] > 0.5).all()
