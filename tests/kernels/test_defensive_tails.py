"""Learned potentials with heavier tails."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from nnghmc.explore.rounds.examination import middle_and_spread
from nnghmc.kernels import DefensiveTails, SurrogateTransition, Tuning
from nnghmc.kernels.defensive_tails import FEW_DIMENSIONS, Tails


def potential_and_gradient(position):
    return 0.5 * position @ position, position


def test_the_potential_is_flattened_above_the_level_alone_and_restored():
    tails = Tails(jnp.asarray(3.0), jnp.asarray(4.0))
    potentials = jnp.asarray([-2.0, 2.9, 3.1, 30.0, 1e5])
    flattened = tails.flattened(potentials)
    np.testing.assert_array_equal(flattened[:2], potentials[:2])
    np.testing.assert_allclose(flattened[3], 3 + 4 * np.log(1 + 27 / 4))
    np.testing.assert_allclose(tails.restored(flattened), potentials, rtol=1e-10)
    slopes = jax.vmap(jax.grad(tails.flattened))(potentials)
    np.testing.assert_allclose(tails.slope(potentials), slopes)


def test_an_infinite_potential_stays_infinite():
    for level in (3.0, jnp.inf):
        tails = Tails(jnp.asarray(level), jnp.asarray(4.0))
        assert tails.flattened(jnp.inf) == tails.restored(jnp.inf) == jnp.inf


def test_the_gradient_is_that_of_the_flattened_potential():
    field = Tails(jnp.asarray(3.0), jnp.asarray(4.0)).on(potential_and_gradient)
    for position in (jnp.asarray([1.0, 0.5]), jnp.asarray([4.0, -2.0])):
        value, gradient = field(position)
        expected = jax.value_and_grad(lambda q: field(q)[0])(position)
        np.testing.assert_allclose(value, expected[0])
        np.testing.assert_allclose(gradient, expected[1])


def test_a_share_of_the_proposals_has_the_tails():
    keys = jax.random.split(jax.random.key(0), 4000)
    levels = jax.vmap(DefensiveTails(3.0, 4.0, 0.25).drawn)(keys).level
    assert np.isfinite(levels).mean() == pytest.approx(0.25, abs=0.03)
    assert np.isinf(jax.vmap(DefensiveTails().drawn)(keys).level).all()


def test_the_tails_begin_a_standard_deviation_above_the_middle():
    potentials = np.random.default_rng(0).normal(7.0, 2.0, 100_000)
    tails = DefensiveTails.beyond(*middle_and_spread(potentials), dim=10, share=0.5)
    assert float(tails.level) == pytest.approx(9.0, abs=0.1)
    assert (float(tails.scale), float(tails.share)) == (7.0, 0.5)


@pytest.mark.parametrize("dim", [FEW_DIMENSIONS, FEW_DIMENSIONS + 1])
def test_in_many_dimensions_a_proposal_with_the_tails_takes_one_transition(dim):
    """The number is seen in the steps: without a U-turn they are all of a trajectory."""
    tuning = Tuning.checked(0.5, 1, np.ones(dim), dim)
    steps = {}
    for share in (0.0, 1.0):
        tails = DefensiveTails(0.5 * dim, 0.5 * dim + 2, share)
        kernel = SurrogateTransition(
            lambda q: 0.5 * q @ q, potential_and_gradient, tuning, 10, tails
        )
        states = jax.vmap(kernel.init)(jnp.ones((50, dim)))
        infos = kernel.all_chains()(jax.random.key(1), states)[1]
        steps[share] = float(jnp.mean(infos.num_integration_steps))
    if dim <= FEW_DIMENSIONS:
        assert steps[1.0] > 0.8 * steps[0.0]
    else:
        assert 0.05 < steps[1.0] / steps[0.0] < 0.2


def far_out(share):
    """Return how often each chain is beyond 5. The truth is a Student, the surrogate is normal."""

    def potential(q):
        return 2 * jnp.log1p(q[0] ** 2 / 3)

    tuning = Tuning.checked(0.8, 1, np.ones(1), 1)
    kernel = SurrogateTransition(
        potential, potential_and_gradient, tuning, 2, DefensiveTails(1.0, 2.0, share)
    )
    states = jax.vmap(kernel.init)(jnp.zeros((1000, 1)))
    step = kernel.all_chains()

    def one(states, key):
        states, _ = step(key, states)
        return states, jnp.abs(states.position[:, 0]) > 5

    keys = jax.random.split(jax.random.key(0), 300)
    return np.asarray(jax.lax.scan(one, states, keys)[1])[100:].mean(axis=0)


def test_light_tails_of_a_surrogate_are_made_up_for():
    """A chain comes to places that it would hardly ever visit."""
    expected = 2 * stats.t.sf(5, 3)
    assert far_out(0.0).mean() < 0.2 * expected
    found = far_out(0.25)
    error = found.std() / np.sqrt(len(found))
    assert error < 0.1 * expected
    assert abs(found.mean() - expected) < 4 * error


def test_draws_are_exact_in_many_dimensions_too():
    """The surrogate is too narrow; a chi-squared variable has its mean and variance."""
    dim = FEW_DIMENSIONS + 2

    def narrow(q):
        return 0.6 * q @ q, 1.2 * q

    tuning = Tuning.checked(0.6, 1, np.ones(dim), dim)
    kernel = SurrogateTransition(
        lambda q: 0.5 * q @ q, narrow, tuning, 3, DefensiveTails(8.0, 0.5 * dim + 2, 0.5)
    )
    starts = jax.random.normal(jax.random.key(0), (150, dim))
    step = kernel.all_chains()

    def one(states, key):
        states, _ = step(key, states)
        return states, 2 * states.potential

    keys = jax.random.split(jax.random.key(1), 60)
    squares = np.asarray(jax.lax.scan(one, jax.vmap(kernel.init)(starts), keys)[1])[10:]
    for found, expected in ((squares, dim), ((squares - dim) ** 2, 2 * dim)):
        by_chain = found.mean(axis=0)
        error = by_chain.std() / np.sqrt(len(by_chain))
        assert abs(by_chain.mean() - expected) < 4 * error
        assert error < 0.05 * expected
