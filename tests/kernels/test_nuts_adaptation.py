"""NUTS that adapts its step size: all chains reach the target together."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nnghmc.kernels import NoUTurn, Tuning

SCALES = jnp.geomspace(0.1, 10, 5)
CHAINS = 6


def potential_and_gradient(q):
    return jax.value_and_grad(lambda q: 0.5 * jnp.sum((q / SCALES) ** 2))(q)


def adapted(first_step_size, target=0.9, draws=150):
    """Return the kernel, the states after some draws, and the information on every draw."""
    tuning = Tuning.checked(first_step_size, 1, np.asarray(SCALES**2), 5)
    kernel = NoUTurn(potential_and_gradient, tuning, target)
    starts = SCALES * jax.random.normal(jax.random.key(0), (CHAINS, 5))
    states = jax.vmap(kernel.init)(starts)
    step = kernel.all_chains()
    keys = jax.random.split(jax.random.key(1), draws)
    states, info = jax.jit(
        lambda states: jax.lax.scan(lambda states, key: step(key, states), states, keys)
    )(states)
    return kernel, states, info


@pytest.mark.parametrize("first_step_size", [1e-3, 1.0, 50.0])
def test_the_step_size_settles_where_acceptance_is_near_its_target(first_step_size):
    kernel, states, info = adapted(first_step_size)
    assert info.acceptance_rate[75:].mean() == pytest.approx(0.9, abs=0.05)
    assert 0.5 < kernel.settled_step_size(states) < 1.5


def test_a_higher_target_gives_a_shorter_step():
    careful, usual = (adapted(1.0, target) for target in (0.98, 0.8))
    assert careful[0].settled_step_size(careful[1]) < usual[0].settled_step_size(usual[1])


def test_all_chains_share_the_step_size_of_every_draw():
    _, states, info = adapted(1.0, draws=20)
    assert np.ptp(info.step_size, axis=1).max() == 0
    assert len(np.unique(info.step_size)) == 20
    assert all(np.ptp(part) == 0 for part in states.averaging)


def test_draws_are_recorded_with_their_potential_and_gradient():
    kernel, states, info = adapted(1.0, draws=20)
    positions, potentials, gradients = kernel.recorded(info)
    np.testing.assert_array_equal(positions[-1, :, 0], states.position)
    expected = jax.vmap(jax.vmap(jax.vmap(potential_and_gradient)))(positions)
    np.testing.assert_allclose(potentials, expected[0], rtol=1e-10)
    np.testing.assert_allclose(gradients, expected[1], rtol=1e-10)


def test_without_a_target_the_step_size_stays_as_tuned():
    kernel, states, info = adapted(1.0, target=float("nan"), draws=20)
    assert (np.asarray(info.step_size) == 1.0).all()
    assert all((part == part[0]).all() for part in states.averaging)
    assert kernel.settled_step_size(states) == pytest.approx(1.0)


def test_a_restart_forgets_what_was_averaged_and_keeps_where_the_chains_are():
    kernel, states, _ = adapted(1.0, draws=20)
    begun = kernel.restart(states)
    np.testing.assert_array_equal(begun.position, states.position)
    np.testing.assert_array_equal(begun.gradient, states.gradient)
    first = jax.vmap(kernel.init)(states.position)
    for part, other in zip(begun.averaging, first.averaging, strict=True):
        np.testing.assert_allclose(part, other)
        assert part.dtype == other.dtype


def test_one_chain_adapts_as_one_of_many_does():
    kernel, states, _ = adapted(1.0, draws=3)
    alone = jax.tree.map(lambda part: part[0], states)
    after, info = kernel.step(jax.random.key(3), alone)
    assert after.averaging.step == alone.averaging.step + 1
    assert info.step_size == pytest.approx(float(jnp.exp(alone.averaging.log_step_size)))
