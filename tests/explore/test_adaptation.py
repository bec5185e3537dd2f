from types import SimpleNamespace

import numpy as np
import pytest

from nnghmc import GradientData
from nnghmc.explore.adaptation import (
    DRAWS_PER_DIMENSION,
    MOST_STEPS,
    Adaptation,
    fisher_inverse_mass_matrix,
    refined_inverse_mass_matrix,
)
from nnghmc.kernels.nuts import ACCEPTANCE_LEAD


def gaussian_data(number, covariance, seed=0):
    positions = np.random.default_rng(seed).multivariate_normal(
        np.zeros(len(covariance)), covariance, number
    )
    return GradientData.of_points(positions, positions @ np.linalg.inv(covariance))


COVARIANCE = np.array([[4.0, 1.2, 0.0], [1.2, 1.0, 0.05], [0.0, 0.05, 0.01]])


def whitened(found, covariance):
    """Return the eigenvalues of one matrix in units of the other; all are 1 if they agree."""
    return np.linalg.eigvals(np.linalg.solve(covariance, found)).real


def test_positions_and_gradients_of_a_gaussian_give_its_covariance_from_few_points():
    found = np.diag(np.diag(COVARIANCE))
    for seed in range(4):
        found = refined_inverse_mass_matrix(found, gaussian_data(12, COVARIANCE, seed))
    np.testing.assert_allclose(whitened(found, COVARIANCE), 1, rtol=0.05)


def test_a_diagonal_matrix_finds_the_scale_of_each_coordinate():
    scales = np.geomspace(0.1, 10, 6)
    found = np.ones(6)
    for seed in range(6):
        found = refined_inverse_mass_matrix(found, gaussian_data(15, np.diag(scales**2), seed))
    np.testing.assert_allclose(found, scales**2, rtol=0.05)


def test_the_current_matrix_stays_in_directions_without_data():
    data = gaussian_data(5, np.eye(20))  # five points span four directions
    found = refined_inverse_mass_matrix(3.0 * np.eye(20), data)
    values = np.sort(np.linalg.eigvalsh(found))
    np.testing.assert_allclose(values[4:], 3.0, rtol=1e-6)
    assert (values[:4] < 1.5).all()


def round_with(acceptance):
    """Return the history of a round with this acceptance."""
    return SimpleNamespace(stats={"acceptance_rate": np.full((2, 3), acceptance)}, length=3)


@pytest.mark.parametrize("first", [1e-3, 30.0])
def test_step_size_settles_where_acceptance_is_near_its_target(first):
    adaptation = Adaptation(first, np.eye(2))

    def acceptance(step):
        return 1 / (1 + (step / 0.8) ** 3)

    for _ in range(25):
        adaptation.after(round_with(acceptance(adaptation.step_size)))
    assert acceptance(adaptation.step_size) == pytest.approx(0.8, abs=0.03)


def test_trajectories_are_a_quarter_of_a_period_and_never_too_many_steps():
    tuning = Adaptation(0.4, np.eye(2)).tuning
    assert [int(number) for number in tuning.num_steps] == [2, 4]
    assert Adaptation(0.001, np.eye(2)).tuning.most_steps == MOST_STEPS


def test_one_chain_that_accepts_nothing_shortens_the_steps_of_all():
    rates = np.full((8, 20), 0.9)
    rates[3] = 0.0
    adaptation = Adaptation(0.5, np.ones(2))
    seen = adaptation.after(SimpleNamespace(stats={"acceptance_rate": rates}, length=20))
    assert seen == pytest.approx(ACCEPTANCE_LEAD)
    assert adaptation.step_size < 0.5


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
