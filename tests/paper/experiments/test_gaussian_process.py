"""The Gaussian process: its likelihood against SciPy's, and what it predicts."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from nnghmc import plots
from nnghmc.paper.experiments import gaussian_process as gp
from nnghmc.paper.race import PAPER_TRAINING, STANDARD, race

POINTS = 24


@pytest.fixture(scope="module")
def seen():
    return gp.simulate_data(points=POINTS)


def test_the_likelihood_is_that_of_a_multivariate_normal(seen):
    posterior = gp.gaussian_process(seen)
    found = []
    for length_scale, variance in ((2.0, 1.0), (0.7, 3.0)):
        apart = np.sqrt(3) * gp.distances(seen.places, seen.places) / length_scale
        covariance = variance * (1 + apart) * np.exp(-apart) + gp.NOISE * np.eye(POINTS)
        expected = stats.multivariate_normal(cov=covariance).logpdf(seen.values)
        parameters = {"length_scale": jnp.log(length_scale), "variance": jnp.log(variance)}
        found.append(posterior.log_likelihood(parameters, posterior.data) - expected)
    np.testing.assert_allclose(found[0], found[1], rtol=1e-9)  # up to a constant


@pytest.fixture(scope="module")
def found(seen):
    course = replace(
        gp.COURSE, draws=50, collected=80, quick=None, training=replace(PAPER_TRAINING, epochs=20)
    )
    return race(gp.gaussian_process(seen), course, full=True, progress=False)


def test_the_race_is_run_by_all_three(found):
    assert [run.acceptance > 0.6 for run in found.runs] == [True] * 3
    means = [run.posterior.variables(run.draws)["variance"].mean() for run in found.runs]
    assert max(means) < 1.5 * min(means)


def test_predictions_follow_the_values_and_widen_away_from_them(seen, found, tmp_path):
    run = found[STANDARD]
    mean, spread = gp.prediction(seen, seen.places, run)
    assert np.corrcoef(mean, seen.values)[0, 1] > 0.9
    _, far = gp.prediction(seen, seen.places + 20, run)
    assert far.min() > spread.max()
    variances = run.posterior.variables(run.draws)["variance"]
    assert far.mean() == pytest.approx(np.sqrt(variances.mean()), rel=0.05)
    plots.save(gp.prediction_figure(seen, run, run), tmp_path / "bands.png")
    assert (tmp_path / "bands.png").stat().st_size > 10_000
