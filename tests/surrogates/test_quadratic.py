import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nnghmc import GradientData, Posterior, Quadratic, TrainingSchedule, fit, sample
from nnghmc.errors import GradientDataError, SettingsError
from nnghmc.surrogates.quadratic import _symmetric_fit
from support import logistic_log_likelihood, logistic_log_prior


def test_a_quadratic_is_found_exactly():
    generator = np.random.default_rng(0)
    root = generator.normal(size=(6, 6))
    hessian, minimum = root @ root.T + np.eye(6), generator.normal(size=6)
    positions = generator.normal(size=(100, 6)) * np.logspace(-1, 1, 6)
    data = GradientData.of_points(positions, (positions - minimum) @ hessian)
    learned = Quadratic(ridge=1e-12).fit(data)
    np.testing.assert_allclose(learned.hessian, hessian, rtol=1e-6)
    np.testing.assert_allclose(learned.gradient(jnp.asarray(minimum)), 0, atol=1e-6)


def test_the_symmetric_fit_is_the_least_squares_one():
    """No symmetric matrix nearby does better, though the data come from an asymmetric one."""
    generator = np.random.default_rng(1)
    x = generator.normal(size=(200, 4)) @ generator.normal(size=(4, 4))
    y = x @ generator.normal(size=(4, 4))
    x, y = x - x.mean(axis=0), y - y.mean(axis=0)
    best = _symmetric_fit(x, y, ridge=0.0)
    np.testing.assert_allclose(best, best.T, atol=1e-10)

    def loss(matrix):
        return np.sum((y - x @ matrix) ** 2)

    for _ in range(50):
        change = generator.normal(size=(4, 4))
        assert loss(best + 1e-3 * (change + change.T)) > loss(best)


def test_curvature_is_never_negative():
    positions = np.random.default_rng(2).normal(size=(300, 3))
    data = GradientData.of_points(positions, positions * [1.0, 2.0, -0.5])
    learned = fit(Quadratic(), data, jax.random.key(0)).learned
    assert np.linalg.eigvalsh(learned.hessian).min() > 0


def test_too_few_points_and_bad_settings_are_told():
    with pytest.raises(GradientDataError, match="more than 5 points, got 4"):
        fit(Quadratic(), GradientData.of_points(np.eye(5), np.eye(5)), jax.random.key(0))
    with pytest.raises(SettingsError, match="ridge"):
        Quadratic(ridge=0.0)


def test_serves_where_the_plain_network_fails():
    """Tall data in many dimensions: the posterior is nearly Gaussian, and one fit is enough."""
    generator = np.random.default_rng(0)
    features = generator.normal(size=(4000, 60))
    beta = 0.3 * generator.normal(size=60)
    labels = generator.random(4000) < 1 / (1 + np.exp(-features @ beta))
    posterior = Posterior(
        logistic_log_likelihood,
        logistic_log_prior,
        {"features": features, "labels": labels},
        {"beta": beta},
    )
    run = sample(
        posterior,
        50,
        4,
        step_size=0.03,
        num_steps=(5, 15),
        warmup=30,
        network=Quadratic(),
        schedule=TrainingSchedule.once(40),
        progress=False,
    )
    assert run.handed_over
    assert run.acceptance > run.decisions[0].true_acceptance - 0.1
    assert run.acceptance > 0.5
