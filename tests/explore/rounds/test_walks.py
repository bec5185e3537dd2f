"""Walks along the true potential: by its dynamics, and along its ridges."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nnghmc.explore.rounds.walks import STEEPEST, Ridges, Trajectories, covariances_around


def followed(walks, potential, number, highest=np.inf):
    """All positions of some walks, shape (steps, walks, dim); those that ended stay."""
    found = []
    for _ in range(number):
        found.append(walks.positions)
        values, gradients = jax.vmap(jax.value_and_grad(potential))(jnp.asarray(walks.positions))
        walks.advance(np.asarray(gradients), np.asarray(values) < highest)
    return np.array(found)


def test_trajectories_are_those_of_leapfrog_and_end_after_their_steps():
    starts, velocities = np.random.default_rng(0).normal(size=(2, 5, 3))
    walks = Trajectories(starts, velocities, 0.3, 4)
    rows = followed(walks, lambda q: 0.25 * jnp.sum(q**4), 6)
    np.testing.assert_allclose(rows[1], starts + 0.3 * (velocities - 0.15 * starts**3))
    second = rows[2:5] - 2 * rows[1:4] + rows[:3]
    np.testing.assert_allclose(second, -0.09 * rows[1:4] ** 3, atol=1e-12)
    np.testing.assert_array_equal(rows[5], rows[4])
    assert not walks.are_going.any()


def test_a_trajectory_that_leaves_all_bounds_ends():
    walks = Trajectories(np.ones((1, 2)), np.full((1, 2), 1e300), 1e10, 4)
    walks.advance(np.ones((1, 2)), np.array([True]))
    assert not walks.are_going.any()
    np.testing.assert_array_equal(walks.positions, np.ones((1, 2)))


def bent(q):
    """A ridge along y = x² / 2 that is a tenth as wide as it is long."""
    return 0.5 * q[0] ** 2 / 9 + 50 * (q[1] - q[0] ** 2 / 2) ** 2


def on_the_ridge(x):
    return np.stack([x, x**2 / 2], axis=1)


def test_ridges_are_followed_round_their_bends_to_where_there_is_no_mass():
    along, across = np.random.default_rng(0).normal(size=(2, 4000))
    draws = on_the_ridge(3 * along) + 0.1 * np.stack([0 * across, across], axis=1)
    draws = draws[np.abs(along) < 2 / 3]
    starts = on_the_ridge(np.array([-1.9, 1.9]))
    walks = Ridges(starts, covariances_around(starts, draws))
    rows = followed(walks, bent, 40, highest=8.0)
    assert (np.abs(rows[:, :, 0]).max(axis=0) > 6.0).all()  # straight on, it would be 80 wide of it
    assert (rows[:, 0, 0] < 0).all()
    potentials = np.asarray(jax.vmap(jax.vmap(bent))(jnp.asarray(rows)))
    assert (potentials < 8.0).mean() > 0.7


def test_where_there_is_no_ridge_a_walk_leads_straight_out_and_ends_without_mass():
    starts = np.array([[2.0, 0.0], [0.0, -2.0], [1.5, 1.5]])
    walks = Ridges(starts, np.tile(np.eye(2), (3, 1, 1)))
    rows = followed(walks, lambda q: 0.5 * q @ q, 12, highest=8.0)
    assert not walks.are_going.any()
    outward = rows / np.linalg.norm(rows, axis=2, keepdims=True)
    np.testing.assert_allclose(outward, np.broadcast_to(outward[:1], outward.shape), atol=1e-9)
    assert (np.linalg.norm(rows, axis=2).max(axis=0) > 4.0).all()


def test_a_barrier_lower_than_what_matters_is_crossed():
    def two_modes(q):
        near, far = 0.5 * q @ q, 0.5 * jnp.sum((q - jnp.array([6.0, 0.0])) ** 2) + 3
        return -jnp.logaddexp(-near, -far)

    starts = np.array([[2.5, 0.5]])
    walks = Ridges(starts, np.eye(2)[np.newaxis])
    rows = followed(walks, two_modes, 9, highest=8.0)
    assert np.linalg.norm(rows - np.array([6.0, 0.0]), axis=2).min() < 2.0


def test_slopes_beyond_all_bounds_lead_nowhere():
    walks = Ridges(np.ones((2, 2)), np.tile(np.eye(2), (2, 1, 1)))
    for size in (1.0, 10 * STEEPEST, 1e308):
        walks.advance(np.full((2, 2), size), np.array([True, True]))
        assert np.isfinite(walks.positions).all()


@pytest.mark.parametrize("dim", [1, 3])
def test_covariances_are_those_of_the_draws_nearby(dim):
    generator = np.random.default_rng(0)
    narrow = 0.1 * generator.normal(size=(1000, dim))
    wide = 50 + generator.normal(size=(1000, dim))
    starts = np.stack([np.zeros(dim), np.full(dim, 50.0)])
    found = covariances_around(starts, np.concatenate([narrow, wide]))
    assert found.shape == (2, dim, dim)
    assert (np.linalg.eigvalsh(found) > 0).all()
    assert 30 < np.trace(found[1]) / np.trace(found[0]) < 300
