import numpy as np
import pytest

from nnghmc.surrogates.parts.regression import coordinate_slopes, symmetric_regression


def asymmetric_data(seed=1):
    """Return centred positions and the linear image of them under an asymmetric matrix."""
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(200, 4)) @ generator.normal(size=(4, 4))
    y = x @ generator.normal(size=(4, 4))
    return x - x.mean(axis=0), y - y.mean(axis=0)


@pytest.mark.parametrize("ridge", [0.0, 0.3])
@pytest.mark.parametrize("diagonal", [np.zeros(4), np.array([1.0, -2.0, 0.5, 3.0])])
def test_the_symmetric_regression_is_the_minimum(ridge, diagonal):
    """No symmetric matrix nearby is better, though the data come from an asymmetric one."""
    x, y = asymmetric_data()
    best = symmetric_regression(x, y, ridge, diagonal)
    np.testing.assert_allclose(best, best.T, atol=1e-10)

    def loss(matrix):
        penalty = ridge * np.sum((matrix - np.diag(diagonal)) ** 2)
        return np.sum((y - x @ matrix) ** 2) / len(x) + penalty

    generator = np.random.default_rng(2)
    for _ in range(50):
        change = generator.normal(size=(4, 4))
        assert loss(best + 1e-3 * (change + change.T)) > loss(best)


def test_a_large_ridge_gives_the_diagonal_and_directions_without_data_keep_it():
    x, y = asymmetric_data()
    diagonal = np.array([1.0, 2.0, 3.0, 4.0])
    np.testing.assert_allclose(
        symmetric_regression(x, y, 1e12, diagonal), np.diag(diagonal), atol=1e-8
    )
    x[:, 2:] = 0.0
    found = symmetric_regression(x, y, 0.1, diagonal)
    np.testing.assert_allclose(found[2:, 2:], np.diag(diagonal[2:]), atol=1e-12)


def test_slopes_are_those_of_each_coordinate_alone():
    x, y = asymmetric_data()
    expected = [np.polyfit(x[:, column], y[:, column], 1)[0] for column in range(4)]
    np.testing.assert_allclose(coordinate_slopes(x, y), expected, rtol=1e-9)
