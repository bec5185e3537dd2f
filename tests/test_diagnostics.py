import numpy as np
import pytest

from nnghmc.diagnostics import bulk_ess, paper_ess, rhat


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


def test_a_chain_that_never_moved_has_no_infinite_ess():
    assert np.isfinite(paper_ess(np.zeros((2, 50, 1)))).all()
