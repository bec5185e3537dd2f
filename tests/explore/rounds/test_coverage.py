"""How much mass lies where the surrogate is wrong, against what is known exactly."""

import numpy as np
import pytest
from scipy import stats

from nnghmc.explore.rounds.coverage import (
    Coverage,
    hot_temperature,
    importance_weights,
    tolerance_for,
)


def hot_normal(dim, number=20_000):
    """Draws of a standard normal at the temperature for so many dimensions, and potentials."""
    temperature = hot_temperature(dim)
    draws = np.random.default_rng(0).normal(size=(number, dim)) * np.sqrt(temperature)
    return draws, 0.5 * (draws**2).sum(axis=1), temperature


@pytest.mark.parametrize("dim", [1, 5, 100])
def test_weighted_draws_have_the_moments_of_the_true_posterior(dim):
    """The truth is normal with mean 0.1 and standard deviation 1.1 in the first coordinate."""
    draws, learned, temperature = hot_normal(dim)
    first = draws[:, 0]
    excess = 0.5 * ((first - 0.1) / 1.1) ** 2 - 0.5 * first**2
    weights = importance_weights(excess, learned, temperature)
    assert weights.sum() == pytest.approx(1)
    assert 1 / (weights**2).sum() > 0.05 * len(first)
    assert weights @ first == pytest.approx(0.1, abs=0.07)
    assert np.sqrt(weights @ (first - weights @ first) ** 2) == pytest.approx(1.1, rel=0.05)


@pytest.mark.parametrize("dim", [1, 5])
def test_the_mass_where_the_surrogate_is_wrong_is_found(dim):
    """The truth has eight times the mass beyond two standard deviations."""
    draws, learned, temperature = hot_normal(dim)
    beyond = draws[:, 0] > 2
    excess = np.where(beyond, -np.log(8), 0.0)
    cover = Coverage.of(excess, learned, 0.0, temperature)
    tail = 8 * stats.norm.sf(2)
    expected = tail / (tail + stats.norm.cdf(2))
    assert cover.mass == pytest.approx(expected, abs=4 * cover.error)
    assert 0 < cover.error < 0.02
    assert cover.mass < cover.bound


def test_a_constant_difference_is_none_and_one_is_wrong_that_is_not_finite():
    draws, learned, temperature = hot_normal(2, 100)
    right = Coverage.of(np.full(100, 7.0), learned, 7.0, temperature)
    assert (right.mass, right.error) == (0.0, 0.0)
    assert right.bound == pytest.approx(1 / 100)
    nowhere = Coverage.of(np.full(100, np.nan), learned, 0.0, temperature)
    assert nowhere.mass == 1.0
    assert len(draws) == nowhere.points


def test_the_temperature_falls_with_the_dimensions_so_that_weights_stay_even():
    temperatures = [hot_temperature(dim) for dim in (1, 4, 100)]
    assert temperatures == pytest.approx([3.0, 2.0, 1.2])


def test_a_difference_that_is_large_everywhere_is_tolerated():
    assert tolerance_for(0.1) == 1.0
    assert tolerance_for(1.0) == 3.0
