"""The paper's banana: ε = 0.1, L = 5, 5,000 draws; h = 100, 50 epochs, gradients of 1,000 draws."""

import numpy as np
import pytest
from scipy import stats

from nnghmc import diagnostics
from nnghmc.paper.banana import CHAINS, COLLECTED_DRAWS, NUM_STEPS, run_banana
from nnghmc.paper.targets import Banana

FALSE_ALARMS = 1e-3  # for all comparisons of one test together


@pytest.fixture(scope="module")
def experiment():
    return run_banana(draws=5000, seed=0, progress=False)


def test_standard_hmc_accepts_near_the_paper(experiment):
    assert experiment.standard.acceptance == pytest.approx(0.58, abs=0.03)


def test_learned_gradient_accepts_as_often_as_the_true_one(experiment):
    assert experiment.learned.handed_over
    assert abs(experiment.learned.acceptance - experiment.standard.acceptance) < 0.03


def test_only_the_gradients_of_the_first_draws_were_used(experiment):
    points = experiment.learned.gradient_data.without_starts()
    assert len(points) == COLLECTED_DRAWS * NUM_STEPS
    assert experiment.learned.draws.shape == (CHAINS, 5000, 2)


def functionals(draws):
    """Functions whose means are the means, variances and the correlation of x₁² with x₂."""
    truth = Banana()
    x1, x2 = np.moveaxis(draws - truth.mean, -1, 0)
    square = (draws[..., 0] ** 2 - truth.variance[0]) / (np.sqrt(2) * truth.variance[0])
    product = square * x2 / np.sqrt(truth.variance[1])
    return {"m1": x1, "m2": x2, "v1": x1**2, "v2": x2**2, "product": product}


def mean_and_error(draws):
    values = functionals(draws)
    errors = diagnostics.standard_errors(np.stack(list(values.values()), axis=-1))
    return {name: (values[name].mean(), error) for name, error in zip(values, errors, strict=True)}


def assert_within_error(differences, errors):
    z = np.array(differences) / np.array(errors)
    bound = stats.norm.isf(FALSE_ALARMS / 2 / len(z))
    assert np.abs(z).max() < bound, f"z = {np.round(z, 2)}, bound {bound:.2f}"


def test_both_sets_of_draws_agree(experiment):
    first, second = (mean_and_error(run.draws) for run in (experiment.standard, experiment.learned))
    assert_within_error(
        [first[name][0] - second[name][0] for name in first],
        [np.hypot(first[name][1], second[name][1]) for name in first],
    )


@pytest.mark.parametrize("which", ["standard", "learned"])
def test_draws_have_the_true_moments(experiment, which):
    truth = Banana()
    expected = [0.0, 0.0, *truth.variance, truth.correlation]
    found = mean_and_error(getattr(experiment, which).draws).values()
    assert_within_error(
        [mean - value for (mean, _), value in zip(found, expected, strict=True)],
        [error for _, error in found],
    )
