"""Statistics of draws: ArviZ's and the paper's, and none where chains never moved."""

import numpy as np
import pytest

from nnghmc.engine.statistics import (
    bfmi,
    bulk_ess,
    longest_stay,
    paper_ess,
    rhat,
    split_rhat,
    standard_errors,
    tail_ess,
)


def autoregression(correlation, chains=4, length=20_000, seed=0):
    noise = np.random.default_rng(seed).normal(size=(chains, length, 1))
    draws = np.empty_like(noise)
    draws[:, 0] = noise[:, 0] / np.sqrt(1 - correlation**2)
    for t in range(1, length):
        draws[:, t] = correlation * draws[:, t - 1] + noise[:, t]
    return draws


@pytest.mark.parametrize("ess", [bulk_ess, paper_ess])
@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.8])
def test_ess_of_an_autoregression(ess, correlation):
    """The integrated autocorrelation time is (1 + φ) / (1 - φ)."""
    draws = autoregression(correlation)
    expected = draws.shape[0] * draws.shape[1] * (1 - correlation) / (1 + correlation)
    assert ess(draws)[0] == pytest.approx(expected, rel=0.1)


def test_a_value_for_each_coordinate():
    draws = np.random.default_rng(0).normal(size=(3, 100, 5))
    assert bulk_ess(draws).shape == paper_ess(draws).shape == rhat(draws).shape == (5,)


def test_only_bulk_ess_sees_chains_that_sit_apart():
    draws = np.random.default_rng(0).normal(size=(2, 1000, 1)) + np.array([0.0, 9.0])[:, None, None]
    assert bulk_ess(draws)[0] < 10
    assert paper_ess(draws)[0] > 1000
    assert rhat(draws)[0] > 1.5


@pytest.mark.parametrize("ess", [bulk_ess, tail_ess, paper_ess])
def test_chains_that_never_moved_have_no_ess(ess):
    draws = np.random.default_rng(0).normal(size=(2, 50, 2))
    draws[..., 1] = 0.1
    moving, still = ess(draws)
    assert moving > 0
    assert np.isnan(still)


def test_split_rhat_sees_chains_apart_and_drifts():
    draws = np.random.default_rng(0).normal(size=(4, 200, 3))
    assert np.abs(split_rhat(draws) - 1).max() < 0.03
    draws[0, :, 1] += 3
    draws[:, :, 2] += np.linspace(0, 4, 200)
    found = split_rhat(draws)
    assert found[0] < 1.03
    assert found[1:].min() > 1.2
    np.testing.assert_allclose(found[0], rhat(draws)[0], atol=0.02)


def test_arviz_keeps_its_remarks_to_itself(capfd):
    assert np.isnan(rhat(np.arange(5.0).reshape(1, 5, 1))).all()
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("correlation", [-0.6, 0.0, 0.8])
def test_errors_of_a_mean_and_a_standard_deviation(correlation):
    """Squares of an autoregression have the autocorrelation φ², also where φ is negative."""
    draws = autoregression(correlation)
    number, variance = draws[..., 0].size, 1 / (1 - correlation**2)
    times = [(1 + power) / (1 - power) for power in (correlation, correlation**2)]
    expected = np.sqrt(variance * np.array([times[0], times[1] / 2]) / number)
    found = [standard_errors(draws, of)[0] for of in ("mean", "std")]
    np.testing.assert_allclose(found, expected, rtol=0.1)


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.8])
def test_missing_information_of_autocorrelated_energies(correlation):
    """E-BFMI is 2 (1 - φ) for energies of autocorrelation φ."""
    energies = autoregression(correlation, length=1000)[..., 0]
    assert bfmi(energies).mean() == pytest.approx(2 * (1 - correlation), rel=0.05)


def test_the_longest_stay_of_any_chain():
    log_densities = np.random.default_rng(0).normal(size=(4, 1000))
    assert longest_stay(log_densities) == 1
    log_densities[2, 300:450] = log_densities[2, 300]
    assert longest_stay(log_densities) == 150
