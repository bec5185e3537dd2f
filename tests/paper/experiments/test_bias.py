"""SGHMC without a Metropolis test has the wrong scales, in units of Monte Carlo error."""

import numpy as np
import pytest
from scipy import stats

from nnghmc import plots
from nnghmc.paper.experiment import z_of_spreads
from nnghmc.paper.experiments import bias

FALSE_ALARMS = 1e-3
STEP_SIZES = (0.004, 0.01, 0.025)


@pytest.fixture(scope="module")
def truth():
    return bias.exact_marginals(bias.small_regression())


@pytest.fixture(scope="module")
def runs():
    """With larger steps than the experiment's: trajectories of equal length have fewer of them."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(bias, "STEP_SIZES", STEP_SIZES)
        return bias.all_runs(bias.small_regression(), 500, seed=1, progress=False)


def test_the_grid_is_fine_and_wide_enough(truth):
    """One that is wider and much coarser gives the same."""
    other = bias.exact_marginals(bias.small_regression(), points=151, width=1.0)
    np.testing.assert_allclose(other.spreads, truth.spreads, rtol=1e-6)


def test_exact_methods_agree_with_the_grid(runs, truth):
    exact = [run for run in runs.values() if run.exact]
    assert len(exact) == 3
    z = np.array([z_of_spreads(run.draws, truth.spreads) for run in exact])
    assert np.abs(z).max() < stats.norm.isf(FALSE_ALARMS / 2 / z.size)


def test_sghmc_does_not_and_the_less_the_larger_its_step(runs, truth):
    spreads = [
        runs[f"SGHMC, step {step:g}"].draws.std(axis=(0, 1)) / truth.spreads for step in STEP_SIZES
    ]
    assert (np.diff(spreads, axis=0) > 0).all()
    z = z_of_spreads(runs[f"SGHMC, step {STEP_SIZES[-1]:g}"].draws, truth.spreads)
    assert (z > 10).all()


def test_the_figure_can_be_drawn(runs, truth, tmp_path):
    plots.save(bias.figure(runs, truth), tmp_path / "bias.png")
    assert (tmp_path / "bias.png").stat().st_size > 10_000
