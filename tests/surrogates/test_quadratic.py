import jax
import jax.numpy as jnp
import numpy as np
import pytest

import nnghmc
from nnghmc import GradientData, Posterior, Quadratic, TrainingSchedule, fit
from nnghmc.errors import GradientDataError, SettingsError
from nnghmc.methods.schedule import Decision
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


def test_curvature_is_never_negative():
    positions = np.random.default_rng(2).normal(size=(300, 3))
    data = GradientData.of_points(positions, positions * [1.0, 2.0, -0.5])
    learned = fit(Quadratic(), data, jax.random.key(0)).learned
    assert np.linalg.eigvalsh(learned.hessian).min() > 0


def test_too_few_points_and_bad_settings_raise_an_error():
    with pytest.raises(GradientDataError, match="more than 5 points, got 4"):
        fit(Quadratic(), GradientData.of_points(np.eye(5), np.eye(5)), jax.random.key(0))
    with pytest.raises(SettingsError, match="ridge"):
        Quadratic(ridge=0.0)


def test_serves_where_the_plain_network_fails():
    """With tall data in many dimensions the posterior is nearly Gaussian, and one fit is enough."""
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
    schedule = TrainingSchedule.once(40)
    method = nnghmc.NNgHMC(0.03, (5, 15), warmup=30, network=Quadratic(), schedule=schedule)
    run = nnghmc.sample(posterior, 50, 4, method=method, progress=False)
    (decision,) = (event for event in run.events if isinstance(event, Decision))
    assert decision.hand_over
    assert run.acceptance > decision.true_acceptance - 0.1
    assert run.acceptance > 0.5


def gaussian_of(precision, number, seed):
    dim = len(precision)
    positions = np.random.default_rng(seed).multivariate_normal(
        np.zeros(dim), np.linalg.inv(precision), size=number
    )
    return GradientData.of_points(positions, positions @ precision)


@pytest.mark.parametrize("condition", [1e2, 1e6, 1e9])
def test_narrow_and_wide_directions_are_found_alike(condition):
    """The error in whitened units must not grow with the ratio of the widths."""
    axes, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(20, 20)))
    precision = (axes * np.logspace(0, np.log10(condition), 20)) @ axes.T
    learned = Quadratic().fit(gaussian_of(precision, 200, seed=1))
    root = np.linalg.cholesky(np.linalg.inv(precision))
    np.testing.assert_allclose(root.T @ learned.hessian @ root, np.eye(20), atol=0.02)


@pytest.mark.parametrize("stiffness", [-0.99, 20.0])
def test_beyond_a_thousand_dimensions_a_diagonal_and_some_directions_are_found(stiffness):
    """In 1,100 dimensions, five directions are far wider or narrower than the diagonal says."""
    generator = np.random.default_rng(0)
    dim = 1100
    directions, _ = np.linalg.qr(generator.normal(size=(dim, 5)))
    scale = np.exp(0.5 * generator.normal(size=dim))

    def data(number, seed):
        white = np.random.default_rng(seed).normal(size=(number, dim))
        stretched = white @ directions * ((1 + stiffness) ** -0.5 - 1) @ directions.T
        scaled = white + stretched
        gradients = scaled + stiffness * (scaled @ directions) @ directions.T
        return GradientData.of_points(scaled * scale, gradients / scale)

    model = Quadratic(rank=20)
    learned = model.fit(data(3000, seed=1))
    assert learned.hessian is None
    unseen = data(200, seed=2)
    found = np.asarray(jax.vmap(learned.gradient)(jnp.asarray(unseen.positions)))
    error = np.linalg.norm((found - unseen.gradients) * scale)
    diagonal = np.linalg.norm(unseen.positions / scale - unseen.gradients * scale)
    assert error < 0.15 * np.linalg.norm(unseen.gradients * scale)
    assert error < 0.6 * diagonal
    position = jnp.asarray(unseen.positions[0])
    np.testing.assert_allclose(
        jax.grad(learned.potential)(position), learned.gradient(position), rtol=1e-7, atol=1e-9
    )
