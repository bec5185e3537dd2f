"""The predicted acceptance is the one that sampling then has."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import nnghmc
from nnghmc import (
    GradientData,
    GradientMLP,
    Quadratic,
    QuadraticPlus,
    Training,
    TrainingSchedule,
    assess,
    fit,
    from_log_density,
)
from nnghmc.errors import GradientDataError
from nnghmc.explore.assessment import _expected_acceptance, _mixture_scales
from nnghmc.methods.schedule import Decision
from nnghmc.paper.targets import banana, gaussian


def skewed():
    """Logarithms of gamma variables along rotated axes."""
    rotation, _ = np.linalg.qr(np.random.default_rng(3).normal(size=(8, 8)))
    shapes = np.linspace(0.8, 3.0, 8)
    return from_log_density(
        lambda q: jnp.sum(shapes * (rotation @ q) - jnp.exp(rotation @ q)), np.zeros(8)
    )


TARGETS = {
    "banana": (banana, {"step_size": 0.1, "num_steps": 5}),
    "gaussian": (gaussian, {"step_size": 0.5, "num_steps": (1, 60)}),
    "skewed": (skewed, {"step_size": 0.35, "num_steps": (3, 9)}),
}


@pytest.mark.parametrize(
    ("name", "network"),
    [
        *((name, QuadraticPlus()) for name in TARGETS),
        ("skewed", Quadratic()),  # a poor model, with an acceptance far below that of standard HMC
    ],
)
def test_predicted_acceptance_is_what_sampling_then_has(name, network):
    make, tuning = TARGETS[name]
    schedule = TrainingSchedule.once(100, tolerance=1.0)
    method = nnghmc.NNgHMC(**tuning, network=network, schedule=schedule)
    run = nnghmc.sample(make(), 1000, 4, method=method, progress=False)
    decision = next(event for event in run.events if isinstance(event, Decision))
    assert decision.predicted_acceptance == pytest.approx(run.acceptance, abs=0.05)


def trajectories(error=0.0, number=60, seed=0):
    """Held-out trajectories of N(0, I) in 5 dimensions, with gradients scaled by 1 + `error`."""
    generator = np.random.default_rng(seed)
    angles = np.linspace(0, 1.5, 16)
    starts, momenta = generator.normal(size=(2, number, 1, 5))
    points = starts * np.cos(angles)[:, None] + momenta * np.sin(angles)[:, None]
    shape = (number, 1, 16)
    return GradientData.from_paths(
        points[:, None],
        np.zeros(shape),
        (1 + error) * points[:, None],
        np.full((number, 1), 15),
        first_trajectory=0,
    )


def test_a_perfect_gradient_is_limited_by_the_integrator_alone():
    surrogate = fit(Quadratic(1e-12), trajectories(), jax.random.key(0))
    found = assess(surrogate, 0.1, 15)
    assert found.relative_error < 1e-6
    assert found.energy_error < 1e-6
    assert found.predicted_acceptance == pytest.approx(found.integration_acceptance, abs=1e-3)
    assert found.predicted_acceptance > 0.99
    assert "60" not in str(found)
    assert f"{found.trajectories} held-out trajectories" in str(found)


def test_an_error_of_the_gradient_is_detected():
    """An error of 30 % of the gradient does the work 0.15 (|q₁|² - |q₀|²) from start to end."""
    surrogate = fit(Quadratic(1e-12), trajectories(), jax.random.key(0))
    unseen = trajectories(error=0.3, number=400, seed=1)
    found = assess(surrogate, 0.1, 15, held_out=unseen)
    ends = [unseen.positions[rows[[0, -1]]] for rows in unseen.by_trajectory()]
    works = [0.15 * (np.sum(end**2) - np.sum(start**2)) for start, end in ends]
    assert found.energy_error == pytest.approx(np.std(works), rel=0.02)
    assert found.relative_error == pytest.approx(0.3 / 1.3, rel=1e-6)
    assert found.predicted_acceptance == pytest.approx(
        2 * stats.norm.cdf(-found.energy_error / 2), abs=0.03
    )


def test_expected_acceptance_of_a_normal_energy_error():
    draws = np.random.default_rng(0).normal(size=400_000)
    for mean, spread in [(0.0, 0.5), (0.7, 1.2), (-1.0, 0.3), (4.0, 2.0), (50.0, 1.0)]:
        seen = np.minimum(1, np.exp(-(mean + spread * draws))).mean()
        found = _expected_acceptance(np.array([mean]), np.array([spread]))
        assert found == pytest.approx(seen, abs=3e-3)
    assert _expected_acceptance(np.array([np.inf]), np.array([1.0])) == 0
    assert _expected_acceptance(np.array([0.0]), np.array([0.0])) == pytest.approx(1.0)


@pytest.mark.parametrize("freedom", [1.5, 3.0, 1e6])
def test_a_mixture_of_normals_describes_works_of_very_different_size(freedom):
    works = stats.t(freedom, scale=0.4).rvs(20_000, random_state=1)
    scales = _mixture_scales(works)
    mixed = np.random.default_rng(2).normal(size=(2000, len(scales))) * scales
    for probability in (0.5, 0.9):
        assert np.quantile(np.abs(mixed), probability) == pytest.approx(
            np.quantile(np.abs(works), probability), rel=0.06
        )
    np.testing.assert_array_equal(_mixture_scales(np.zeros(5)), [0.0])


def test_an_assessment_without_held_out_data_raises_an_error():
    surrogate = fit(
        GradientMLP(5), trajectories(), jax.random.key(0), Training(epochs=1, held_out=0.0)
    )
    with pytest.raises(GradientDataError, match=r"held_out=0\.1"):
        assess(surrogate, 0.1, 5)
    points = GradientData.of_points(np.random.default_rng(0).normal(size=(20, 5)), np.ones((20, 5)))
    with pytest.raises(GradientDataError, match="at least 2 points"):
        assess(surrogate, 0.1, 5, held_out=points)
