"""Where the chains of a run start."""

import jax.numpy as jnp
import numpy as np
import pytest

from nnghmc import Session, from_log_density
from nnghmc.errors import PosteriorError
from nnghmc.explore.starts import HIGHEST, ChainStarts


def spread(log_density, initial, chains=8):
    session = Session(0, "starts")
    return ChainStarts(from_log_density(log_density, initial), chains).spread(session), session


def test_starts_are_spread_around_the_initial_point():
    states, session = spread(lambda q: -0.5 * jnp.sum(q**2), np.full(50, 3.0))
    away = np.asarray(states.position) - 3.0
    assert np.abs(away).max() < 1
    assert np.abs(away.std(axis=1) - 1 / np.sqrt(3)).max() < 0.2
    assert len(np.unique(away)) == 400
    assert session.cost.warmup.true_gradients == 8


def test_only_a_chain_that_finds_no_finite_place_starts_at_the_initial_point():
    """Each halves its distance some times; here one coordinate must be what it is to the last."""

    def log_density(q):
        return jnp.where((q[0] > 0.5) | (q[0] == 0.0), -0.5 * jnp.sum(q**2), -jnp.inf)

    states, _ = spread(log_density, np.zeros(2))
    at_initial = (np.asarray(states.position) == 0).all(axis=1)
    assert 0 < at_initial.sum() < 8
    assert np.isfinite(states.potential).all()
    assert (np.asarray(states.position)[~at_initial, 0] > 0.5).all()


def test_starts_up_an_exponential_wall_move_inward():
    states, _ = spread(lambda q: -jnp.sum(jnp.cosh(500 * q)), np.zeros(2))
    away = np.abs(np.asarray(states.position)).max(axis=1)
    assert (np.asarray(states.potential) < HIGHEST).all()
    assert (away > 0.02).all()  # no further than that takes


def test_a_high_potential_that_is_no_wall_is_as_good_as_any():
    """Such as that of many rows on raw scales, at parameters that are far off."""
    states, _ = spread(lambda q: -1e12 * jnp.sum((q - 3) ** 2), np.zeros(2))
    assert 0.2 < np.abs(np.asarray(states.position)).max() <= 0.5
    assert len(np.unique(np.asarray(states.position))) == 16


def test_given_starts_are_used_as_they_are():
    posterior = from_log_density(lambda q: -0.5 * jnp.sum(q**2), np.zeros(2))
    given = np.array([[1.0, 2.0], [-3.0, 0.5]])
    for states in (
        ChainStarts(posterior, 2, given).spread(Session(0, "starts")),
        ChainStarts(posterior, 2, given).at_initial(Session(0, "starts")),
    ):
        np.testing.assert_array_equal(states.position, given)
        np.testing.assert_allclose(states.potential, 0.5 * (given**2).sum(axis=1))
        np.testing.assert_allclose(states.gradient, given)


def test_a_given_start_without_a_density_is_refused():
    posterior = from_log_density(lambda q: jnp.log(q[0]) - q[1] ** 2, np.ones(2))
    starts = ChainStarts(posterior, 2, np.array([[1.0, 0.0], [-1.0, 0.0]]))
    with pytest.raises(PosteriorError, match="must be finite where chains start"):
        starts.spread(Session(0, "starts"))
