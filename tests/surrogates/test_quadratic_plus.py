from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nnghmc import GradientData, GradientMLP, PotentialNet, Quadratic, QuadraticPlus, Training, fit
from nnghmc.errors import SettingsError
from nnghmc.surrogates.learned import Whitened
from nnghmc.surrogates.models.quadratic import QuadraticPotential
from nnghmc.surrogates.models.quadratic_plus import Sum
from nnghmc.surrogates.parts.whitening import Whitening
from nnghmc.surrogates.training import Lesson

ROOT = np.array([[2.0, 0.0, 0.0], [0.7, 1.0, 0.0], [0.1, -0.2, 0.05]])
HESSIAN = ROOT @ ROOT.T


def noisy_gaussian(noise, number=600, dim=3, seed=0):
    """Return gradients of a Gaussian with noise that no model can learn."""
    generator = np.random.default_rng(seed)
    positions = generator.multivariate_normal(np.ones(dim), np.linalg.inv(HESSIAN), size=number)
    gradients = (positions - 1) @ HESSIAN
    spread = gradients.std(axis=0)
    return GradientData.of_points(
        positions, gradients + noise * spread * generator.normal(size=positions.shape)
    )


def test_a_network_that_does_not_help_is_dropped_and_the_report_says_so():
    surrogate = fit(QuadraticPlus(), noisy_gaussian(0.1), jax.random.key(0))
    assert isinstance(surrogate.learned, QuadraticPotential)
    assert "network dropped" in str(surrogate.report)
    np.testing.assert_allclose(surrogate.learned.hessian, HESSIAN, rtol=0.1)


def test_a_remainder_of_rounding_errors_is_not_learned():
    surrogate = fit(QuadraticPlus(quadratic=Quadratic(1e-12)), noisy_gaussian(0), jax.random.key(0))
    assert isinstance(surrogate.learned, QuadraticPotential)
    assert "nothing to learn" in str(surrogate.report)
    assert len(surrogate.report.losses) == 0


def test_a_network_that_helps_is_kept():
    data = noisy_gaussian(0.0)
    data.gradients[:, 0] += 3 * np.tanh(data.positions[:, 0] - 1)
    surrogate = fit(QuadraticPlus(), data, jax.random.key(0))
    alone = fit(Quadratic(), data, jax.random.key(0))
    assert isinstance(surrogate.learned, Sum)
    assert surrogate.report.remarks == ()
    assert surrogate.report.held_out_error < 0.5 * alone.report.held_out_error


def test_early_stopping_returns_the_best_weights():
    """A network far too large for its few noisy points gets worse on held-out points."""
    generator = np.random.default_rng(0)
    positions = generator.normal(size=(80, 3))
    gradients = positions**2 + 0.5 * generator.normal(size=positions.shape)
    data = GradientData.of_points(positions, gradients)
    training = Training(epochs=300, patience=20, held_out=0.25)
    surrogate = fit(GradientMLP(200), data, jax.random.key(0), training)
    report, unseen = surrogate.report, surrogate.held_out
    best = int(np.argmin(report.held_out_losses))
    assert len(report.losses) == len(report.held_out_losses) == best + 1 + 20
    assert report.held_out_losses[-1] > report.held_out_losses[best]
    seen = data.select(~np.isin(data.trajectories, unseen.trajectories))
    errors = jax.jit(jax.vmap(surrogate.gradient))(jnp.asarray(unseen.positions)) - unseen.gradients
    loss = np.mean((errors / seen.gradients.std(axis=0)) ** 2)
    assert loss == pytest.approx(report.held_out_losses[best], rel=1e-4)


def test_training_without_held_out_points_runs_all_epochs():
    training = Training(epochs=40, patience=3, held_out=0.0)
    report = fit(GradientMLP(5), noisy_gaussian(0.1), jax.random.key(0), training).report
    assert len(report.losses) == 40
    assert len(report.held_out_losses) == 0


WHITENINGS = ("gradients", "draws", "metric", "diagonal")


@cache
def whitenings():
    draws = noisy_gaussian(0.0, number=5000).positions
    return {
        "gradients": Quadratic(1e-12).fit(noisy_gaussian(0.0)).whitening.on_host(),
        "draws": Whitening.of_draws(draws),
        "metric": Whitening.of_metric(np.ones(3), np.linalg.inv(HESSIAN)),
        "diagonal": Whitening.of_metric(np.ones(3), np.diag(np.linalg.inv(HESSIAN))),
    }


@pytest.mark.parametrize("source", WHITENINGS)
def test_whitened_coordinates_are_close_to_standard_normal(source):
    whitening = whitenings()[source]
    white = whitening.apply(noisy_gaussian(0.0, number=20_000, seed=1).positions)
    covariance = np.cov(white, rowvar=False)
    if source == "diagonal":
        np.testing.assert_allclose(np.diag(covariance), 1.0, atol=0.05)
    else:
        np.testing.assert_allclose(covariance, np.eye(3), atol=0.08)


@pytest.mark.parametrize("source", WHITENINGS)
def test_gradients_follow_the_chain_rule(source):
    whitening = whitenings()[source]
    generator = np.random.default_rng(0)
    slopes = generator.normal(size=(4, 3))
    np.testing.assert_allclose(whitening.push(whitening.pull(slopes)), slopes, rtol=1e-10)
    function = lambda q: jnp.sum(jnp.sin(whitening.on_device().apply(q)))  # noqa: E731
    position = generator.normal(size=3)
    white = whitening.apply(position)
    np.testing.assert_allclose(jax.grad(function)(position), whitening.pull(np.cos(white)))


@pytest.mark.parametrize(
    "model", [GradientMLP(5), GradientMLP((5, 4)), PotentialNet(6), PotentialNet((5, 4), "tanh")]
)
def test_networks_absorb_the_whitening(model):
    """The absorbed map gives the same gradient as the chain rule."""
    training = Training(epochs=2)
    learned = model.learn(Lesson(noisy_gaussian(0.3), None, jax.random.key(0), training)).learned
    whitening = whitenings()["metric"].on_device()
    folded, wrapped = learned.under(whitening), Whitened(learned, whitening)
    positions = jnp.asarray(np.random.default_rng(1).normal(size=(4, 3)))
    found, expected = (jax.jit(jax.vmap(part.gradient))(positions) for part in (folded, wrapped))
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_bad_coordinates_raise_a_clear_error():
    with pytest.raises(SettingsError, match="'potentials'"):
        QuadraticPlus(coordinates="potentials")
    model = QuadraticPlus(coordinates=np.ones(5))
    with pytest.raises(SettingsError, match=r"shape \(3,\) or \(3, 3\).*got \(5,\)"):
        fit(model, noisy_gaussian(0.1), jax.random.key(0))
    for wrong in (np.array([1.0, -1.0, 1.0]), np.zeros((3, 3)), np.triu(np.ones((3, 3)))):
        with pytest.raises(SettingsError, match="coordinates must be finite, symmetric"):
            fit(QuadraticPlus(coordinates=wrong), noisy_gaussian(0.1), jax.random.key(0))


def test_a_constant_gradient_is_learned():
    positions = np.random.default_rng(0).normal(size=(50, 2))
    data = GradientData.of_points(positions, np.tile([1.0, -2.0], (50, 1)))
    for training in (None, Training(held_out=0.0)):
        learned = fit(QuadraticPlus(), data, jax.random.key(0), training).learned
        np.testing.assert_allclose(learned.gradient(jnp.zeros(2)), [1.0, -2.0], atol=0.05)
