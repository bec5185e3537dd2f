"""Trajectories that lead out of what was explored."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nnghmc import Session, from_log_density
from nnghmc.explore.nuts_warmup import coloured, whitened
from nnghmc.explore.rounds.outward import (
    ENERGY,
    HIGH_RISE,
    MOST_DIMENSIONS_OF_RIDGES,
    MOST_STEPS,
    RISE_THAT_MATTERS,
    TOLERATED_SHARE,
    are_closed_off,
    follow_outward,
    matters,
    outermost,
    outward_noise,
    walks_outward,
)
from nnghmc.explore.rounds.truth import Evaluated, Truth
from nnghmc.explore.rounds.walks import Trajectories


def test_the_outermost_rows_are_far_out_and_far_from_each_other():
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(500, 2))
    rows[[7, 70, 170]] = [[9.0, 0.0], [9.1, 0.0], [-6.0, 0.0]]
    chosen = outermost(rows, 4).tolist()
    assert chosen[:2] == [70, 170]
    assert 7 not in chosen[:3]
    assert len(outermost(rows[:3], 8)) == 3


@pytest.mark.parametrize("diagonal", [True, False])
def test_trajectories_follow_the_true_dynamics(diagonal):
    """By leapfrog, in any metric, and all their points are kept."""
    covariance = np.array([4.0, 0.25]) if diagonal else np.array([[4.0, 0.6], [0.6, 0.25]])
    dense = np.diag(covariance) if diagonal else covariance
    precision = jnp.asarray(np.linalg.inv(dense))
    posterior = from_log_density(lambda q: -0.5 * q @ precision @ q, np.zeros(2))
    truth = Truth(posterior.split(), Session(0, "outward"), counts_calls=False)
    starts, velocities = np.random.default_rng(0).normal(size=(2, 8, 2))
    middle = np.array([0.3, -0.1])
    walks = (Trajectories(starts, velocities, 0.2, MOST_STEPS),)
    found = follow_outward(truth, walks, middle, covariance)
    steps = len(found.positions) // 8
    assert steps == 1 + MOST_STEPS
    np.testing.assert_allclose(found.positions[:8], middle + coloured(starts, covariance))
    np.testing.assert_array_equal(truth.all.positions, found.positions)
    rows = found.positions.reshape(steps, 8, 2)
    # Leapfrog: the middle of three points moves by -step² Σ ∇U.
    second = rows[2:] - 2 * rows[1:-1] + rows[:-2]
    gradients = np.asarray(jax.vmap(jax.vmap(posterior.gradient))(jnp.asarray(rows[1:-1])))
    np.testing.assert_allclose(second, -(0.2**2) * gradients @ dense, atol=1e-10)
    forces = (rows[0] @ np.asarray(precision)) @ dense
    first = rows[0] + 0.2 * (coloured(velocities, covariance) - 0.1 * forces)
    np.testing.assert_allclose(rows[1], first, atol=1e-10)


@pytest.mark.parametrize(("dim", "kinds"), [(3, 2), (MOST_DIMENSIONS_OF_RIDGES + 1, 1)])
def test_every_other_walk_follows_a_ridge_unless_there_are_many_dimensions(dim, kinds):
    generator = np.random.default_rng(0)
    draws = generator.normal(size=(200, dim))
    walks = walks_outward(generator, draws, draws[:6], 0.5, 2.0)
    assert len(walks) == kinds
    assert sorted(map(tuple, np.concatenate([walk.positions for walk in walks]))) == sorted(
        map(tuple, draws[:6])
    )


def test_walks_that_have_ended_are_not_evaluated():
    posterior = from_log_density(lambda q: -0.5 * q @ q, np.zeros(2))
    truth = Truth(posterior.split(), Session(0, "outward"), counts_calls=False)
    rows = np.random.default_rng(0).normal(size=(6, 2))
    walks = (Trajectories(rows[:4], rows[:4], 0.5, 1), Trajectories(rows[4:], rows[4:], 0.5, 3))
    found = follow_outward(truth, walks, np.zeros(2), np.ones(2))
    assert len(found.positions) == 2 * 6 + 2 * 2


def test_momenta_point_outward_and_every_other_one_leads_away_with_much_energy():
    generator = np.random.default_rng(0)
    away = generator.normal(size=(4000, 3))
    noise = outward_noise(generator, away, 2.0)
    assert (np.sum(noise * away, axis=1) > 0).all()
    straight = noise[1::2]
    cosines = np.sum(straight * away[1::2], axis=1) / np.linalg.norm(away[1::2], axis=1)
    np.testing.assert_allclose(0.5 * cosines**2, ENERGY)
    across = np.sum(straight**2, axis=1) - cosines**2
    assert np.mean(across) == pytest.approx(2.0, rel=0.05)  # two coordinates, temperature 1
    assert np.mean(noise[::2] ** 2) == pytest.approx(2.0, rel=0.05)
    nowhere = outward_noise(generator, np.zeros((2, 3)), 1.0)
    assert np.isfinite(nowhere).all()


@pytest.mark.parametrize("diagonal", [True, False])
def test_whitened_rows_are_coloured_back(diagonal):
    covariance = np.array([4.0, 0.25]) if diagonal else np.array([[4.0, 0.6], [0.6, 0.25]])
    rows = np.random.default_rng(0).normal(size=(5, 2))
    np.testing.assert_allclose(whitened(coloured(rows, covariance), covariance), rows)


def found_with(potentials):
    zeros = np.zeros((len(potentials), 2))
    return Evaluated(zeros, zeros, np.zeros(len(potentials)), np.asarray(potentials), zeros)


def test_only_places_with_mass_where_the_surrogate_is_too_high_count():
    found = found_with([1.0, 2.0, 3.0, 500.0])
    level = 10.0
    assert not are_closed_off(found, np.full(4, level), level, 1.0, 1.0).any()
    too_high = np.array([level, level - 2, level, level - 100])  # the last has no mass
    assert are_closed_off(found, too_high, level, 1.0, 1.0).tolist() == [False, True, False, False]
    assert not are_closed_off(found, too_high, level, 1.0, 3.0).any()
    too_low = np.full(4, level + 50.0)
    assert not are_closed_off(found, too_low, level, 1.0, 1.0).any()


def test_far_up_the_posterior_small_relative_errors_close_nothing_off():
    """In a thousand dimensions, a place with mass may lie 28 above the typical set."""
    zeros = np.zeros((2, 1000))
    rise = 25.0
    found = Evaluated(zeros, zeros, np.zeros(2), np.full(2, rise), zeros)
    tolerated = 1 + TOLERATED_SHARE * (rise - HIGH_RISE)
    excess = -np.array([tolerated - 0.1, tolerated + 0.1])
    assert are_closed_off(found, excess, 0.0, 0.0, 1.0).tolist() == [False, True]


def test_places_matter_up_to_a_standard_deviation_of_the_potential_and_a_rise():
    edge = 5.0 + 2.0 + RISE_THAT_MATTERS
    assert matters(np.array([0.0, edge - 0.1, edge + 0.1]), 5.0, 8).tolist() == [True, True, False]


def test_walks_end_early_once_they_have_shown_enough():
    posterior = from_log_density(lambda q: -0.5 * q @ q, np.zeros(2))
    starts, velocities = np.random.default_rng(0).normal(size=(2, 4, 2))

    def followed(**options):
        truth = Truth(posterior.split(), Session(0, "outward"), counts_calls=False)
        walks = (Trajectories(starts, velocities, 0.2, 5),)
        return follow_outward(truth, walks, np.zeros(2), np.ones(2), **options).positions

    short = followed(is_enough=lambda points: len(points.positions) >= 12)
    np.testing.assert_array_equal(short, followed()[:12])
