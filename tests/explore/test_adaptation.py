import numpy as np
import pytest

from nnghmc import GradientData
from nnghmc.explore.adaptation import (
    DRAWS_PER_DIMENSION,
    fisher_inverse_mass_matrix,
    with_usable_gradients,
)


def gaussian_data(number, covariance, seed=0):
    positions = np.random.default_rng(seed).multivariate_normal(
        np.zeros(len(covariance)), covariance, number
    )
    return GradientData.of_points(positions, positions @ np.linalg.inv(covariance))


COVARIANCE = np.array([[4.0, 1.2, 0.0], [1.2, 1.0, 0.05], [0.0, 0.05, 0.01]])


def whitened(found, covariance):
    """Return the eigenvalues of one matrix in units of the other; all are 1 if they agree."""
    return np.linalg.eigvals(np.linalg.solve(covariance, found)).real


@pytest.mark.parametrize("dense", [True, False])
def test_the_fisher_estimate_of_a_gaussian_is_its_covariance_from_few_draws(dense):
    """The sample covariance of 30 draws would be off by a third."""
    covariance = COVARIANCE if dense else np.diag(np.diag(COVARIANCE))
    found = np.eye(3) if dense else np.ones(3)
    for seed in range(6):
        found = fisher_inverse_mass_matrix(found, gaussian_data(30, covariance, seed))
    found = found if dense else np.diag(found)
    np.testing.assert_allclose(whitened(found, covariance), 1, rtol=0.05)


def test_the_fisher_estimate_keeps_correlations_until_there_are_enough_draws():
    few = DRAWS_PER_DIMENSION * 3 - 1
    found = fisher_inverse_mass_matrix(COVARIANCE, gaussian_data(few, np.eye(3)))
    scales = np.sqrt(np.diag(found))
    before = np.sqrt(np.diag(COVARIANCE))
    assert np.abs(found / np.outer(scales, scales)).max() <= 1 + 1e-9
    root = np.linalg.solve(np.linalg.cholesky(COVARIANCE), np.linalg.cholesky(found))
    np.testing.assert_allclose(root, np.diag(np.diag(root)), atol=1e-9)
    assert not np.allclose(scales, before)


@pytest.mark.parametrize("number", [8, 50])
def test_the_fisher_estimate_is_positive_definite_whatever_the_gradients(number):
    generator = np.random.default_rng(0)
    positions = generator.normal(size=(number, 20)) * np.geomspace(1e-3, 1e3, 20)
    data = GradientData.of_points(positions, generator.standard_cauchy(size=(number, 20)))
    found = fisher_inverse_mass_matrix(np.eye(20), data)
    np.testing.assert_allclose(found, found.T)
    assert np.linalg.eigvalsh(found).min() > 0


def test_gradients_whose_squares_overflow_are_left_out():
    data = gaussian_data(30, COVARIANCE)
    absurd = data.gradients.copy()
    absurd[3], absurd[5, 1], absurd[7, 0] = 1e200, np.nan, -np.inf
    usable = with_usable_gradients(GradientData.of_points(data.positions, absurd))
    left = np.setdiff1d(np.arange(30), [3, 5, 7])
    np.testing.assert_array_equal(usable.gradients, data.gradients[left])
