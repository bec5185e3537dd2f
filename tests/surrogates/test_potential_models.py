"""Properties that only models of potentials have."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from nnghmc import GaussianProcess, GradientData, GradientMLP, PotentialNet, RandomBases, fit
from nnghmc.errors import SettingsError
from nnghmc.surrogates.models.gaussian_process import _best_hyperparameters, _minus_log_likelihood
from nnghmc.surrogates.models.random_bases import _ridge_regression


def bumpy_data(number=120, seed=0, noise=0.0):
    generator = np.random.default_rng(seed)
    positions = generator.normal(size=(number, 2))
    values = np.sin(2 * positions[:, 0]) + positions[:, 1] ** 2
    gradients = np.stack([2 * np.cos(2 * positions[:, 0]), 2 * positions[:, 1]], axis=1)
    return GradientData.of_points(
        positions, gradients, values + noise * generator.normal(size=number)
    )


def test_marginal_likelihood_is_that_of_a_normal_vector():
    data = bumpy_data(30)
    points, targets = jnp.asarray(data.positions), jnp.asarray(data.potentials)
    value, _ = _minus_log_likelihood(jnp.log(jnp.array([0.7, 0.01])), points, targets)
    distances = np.sum((points[:, None] - points) ** 2, axis=-1)
    covariance = np.exp(-0.5 * distances / 0.7**2) + 0.01 * np.eye(30)
    signal = float(targets @ np.linalg.solve(covariance, targets)) / 30
    expected = -stats.multivariate_normal(np.zeros(30), signal * covariance).logpdf(targets)
    assert 30 * value == pytest.approx(expected - 15 * (1 + np.log(2 * np.pi)), rel=1e-8)


def test_hyperparameters_are_at_the_top():
    data = bumpy_data(150, noise=0.1)
    points, targets = jnp.asarray(data.positions), jnp.asarray(data.potentials)
    best = np.log(np.array([float(part) for part in _best_hyperparameters(points, targets)]))
    height, slope = _minus_log_likelihood(jnp.asarray(best), points, targets)
    np.testing.assert_allclose(slope, 0, atol=1e-3)
    for change in np.random.default_rng(0).normal(size=(10, 2)):
        other, _ = _minus_log_likelihood(jnp.asarray(best + 0.5 * change), points, targets)
        assert other > height
    assert np.sqrt(np.exp(best[1])) == pytest.approx(0.1, rel=1.0)  # relative to a signal near 1


def test_process_goes_through_its_points_where_there_is_no_noise():
    data = bumpy_data(120)
    learned = fit(GaussianProcess(), data, jax.random.key(0)).learned
    found = jax.vmap(learned.potential)(jnp.asarray(data.positions))
    np.testing.assert_allclose(
        found - found.mean(), data.potentials - data.potentials.mean(), atol=0.05
    )


def test_a_process_of_more_points_than_memory_allows_is_refused():
    data = bumpy_data(10)
    many = data.select(np.zeros(300_000, int))
    many.positions[:] += np.random.default_rng(0).normal(size=many.positions.shape)
    with pytest.raises(SettingsError, match=r"process of 300,000 points needs.*GaussianProcess"):
        fit(GaussianProcess(points=None), many, jax.random.key(0))


@pytest.mark.parametrize(
    "model", [GradientMLP(10**10), PotentialNet((10**6, 10**6)), RandomBases(10**10)]
)
def test_a_network_that_exceeds_memory_is_refused(model):
    with pytest.raises(SettingsError, match=r"needs about .* GiB of memory.*fewer hidden units"):
        fit(model, bumpy_data(), jax.random.key(0))


def test_cross_validation_does_not_always_take_noise_for_a_curve():
    """With more bases than points, any noise can be fitted exactly.

    Estimating the mean uses up one degree of freedom. If that were not counted, an exact fit would
    always have the lowest validation error. As it is, an exact fit of noise wins in about half of
    the cases.
    """
    explained = []
    for seed in range(40):
        generator = np.random.default_rng(seed)
        x, y = generator.normal(size=(30, 100)), generator.normal(size=30)
        x, y = x - x.mean(axis=0), y - y.mean()
        fitted = x @ _ridge_regression(x, y, ridge=None)
        explained.append(np.sum(fitted**2) / np.sum(y**2))
    assert np.mean(np.array(explained) > 0.99) < 0.8


def test_ridge_regression_is_the_minimum():
    generator = np.random.default_rng(0)
    x, y = generator.normal(size=(40, 6)), generator.normal(size=40)
    weights = _ridge_regression(x, y, ridge=0.1)
    penalty = 0.1 * np.linalg.norm(x, 2) ** 2
    expected = np.linalg.solve(x.T @ x + penalty * np.eye(6), x.T @ y)
    np.testing.assert_allclose(weights, expected)


def test_cross_validation_finds_a_good_ridge():
    """There are more bases than points, and noise, which a tiny ridge would fit."""
    generator = np.random.default_rng(1)
    x = generator.normal(size=(60, 100))
    truth = np.zeros(100)
    truth[:3] = 1.0
    y = x @ truth + generator.normal(size=60)
    x, y = x - x.mean(axis=0), y - y.mean()
    new = generator.normal(size=(2000, 100))
    errors = {
        ridge: np.mean((new @ (_ridge_regression(x, y, ridge) - truth)) ** 2)
        for ridge in (None, 1e-10, 10.0)
    }
    assert errors[None] < 1.1 * min(errors[1e-10], errors[10.0])


def test_points_of_a_process_are_spread_over_all():
    data = bumpy_data(100).thinned(10)
    assert len(data) == 10
    assert data.trajectories[0] == 0
    assert data.trajectories[-1] == 99
    assert len(bumpy_data(5).thinned(10)) == 5
    assert len(bumpy_data(50).thinned(None)) == 50


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: PotentialNet(learns="hessians"), ["learns", "potentials", "'hessians'"]),
        (lambda: PotentialNet(()), ["at least one layer"]),
        (lambda: PotentialNet((10, 0)), ["hidden", "0"]),
        (lambda: GaussianProcess(points=0), ["points", "0"]),
        (lambda: RandomBases(ridge=-1.0), ["ridge", "-1.0"]),
    ],
)
def test_bad_settings_raise_a_clear_error(make, words):
    with pytest.raises(SettingsError) as caught:
        make()
    assert all(word in str(caught.value) for word in words)
