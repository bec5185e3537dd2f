"""Predicts the acceptance of a learned gradient before it is used for a single draw.

The energy error of a learned trajectory has two parts. First, leapfrog does not conserve the
learned energy exactly. Simulations show this part; they need learned gradients only. Second, the
learned energy is not the true one. This part is the change of their difference from start to end,
and held-out trajectories of the true dynamics show it. They give the difference to first order
only. Reversibility gives the second order: an error with variance σ² has the mean σ²/2.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray
from scipy import stats

from nnghmc.errors import GradientDataError
from nnghmc.kernels.dynamics import follow_trajectory
from nnghmc.kernels.tuning import Tuning
from nnghmc.platform.compilation import compiled
from nnghmc.surrogates import GradientData, Learned, Surrogate
from nnghmc.surrogates.fit import relative_error
from nnghmc.surrogates.learned import all_gradients

SIMULATIONS = 1000
"""Number of learned trajectories that are simulated for the integration error."""
DEGREES_OF_FREEDOM = (1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 15.0, 50.0)
"""Degrees of freedom tried for the Student's t distribution of the energy errors."""
QUANTILES = (np.arange(64) + 0.5) / 64
"""Quantiles of the mixing distribution that represent a Student's t as a mixture of normals."""
NEGLIGIBLE_WORK = 1e-9
"""Energy errors below this size have no effect on acceptance."""


@dataclass(frozen=True)
class Assessment:
    """The quality of a learned gradient, measured on held-out trajectories.

    Attributes:
        relative_error: size of the error of the gradient, relative to the size of the gradient.
        predicted_acceptance: predicted mean acceptance probability.
        integration_acceptance: mean acceptance probability if the learned energy were the true one.
        energy_error: root mean square, over the trajectories, of the change in the difference
            between learned and true energy from start to end.
        trajectories: number of held-out trajectories of at least 2 points.
    """

    relative_error: float
    predicted_acceptance: float
    integration_acceptance: float
    energy_error: float
    trajectories: int

    def __str__(self) -> str:
        return (
            f"predicted acceptance {self.predicted_acceptance:.2f}, gradient error "
            f"{self.relative_error:.2g} on {self.trajectories} held-out trajectories"
        )


def assess(
    surrogate: Surrogate,
    step_size: Any,
    num_steps: Any,
    inverse_mass_matrix: Any = None,
    *,
    held_out: GradientData | None = None,
    seed: int = 0,
) -> Assessment:
    """Predict the acceptance of a surrogate under a tuning, from trajectories held out of its fit.

    The prediction holds for trajectories about as long as the held-out ones.

    Args:
        surrogate: the surrogate to assess.
        step_size: leapfrog step size, or a pair (low, high) to draw it from.
        num_steps: leapfrog steps per trajectory, or a pair (low, high).
        inverse_mass_matrix: matrix or diagonal; None is the identity.
        held_out: gradient data to use instead of those the surrogate keeps. A surrogate that was
            loaded from a file or moved to another prior keeps none.
        seed: seed of the simulated trajectories.
    """
    data = surrogate.held_out if held_out is None else held_out
    if data is None:
        raise GradientDataError(
            "an assessment needs held-out gradient data, and this surrogate has none. Fit it with "
            "Training(held_out=0.1), or pass gradient data as held_out=."
        )
    tuning = Tuning.checked(step_size, num_steps, inverse_mass_matrix, surrogate.dim)
    return assess_tuning(surrogate.learned, data.finite(), tuning, jax.random.key(seed))


def assess_tuning(
    learned: Learned, held_out: GradientData, tuning: Tuning, key: PRNGKeyArray
) -> Assessment:
    """Assess a learned gradient under a tuning that has been checked."""
    works = _work_of_gradient_error(learned, held_out)
    if not len(works):
        raise GradientDataError(
            "an assessment needs held-out trajectories of at least 2 points, got none. Hold out "
            "gradient data that were recorded along trajectories."
        )
    integration = _integration_errors(learned, held_out, tuning, key)
    scales = _mixture_scales(works)
    predicted = _expected_acceptance(integration[:, np.newaxis] + scales**2 / 2, scales)
    return Assessment(
        relative_error=relative_error(learned, held_out),
        predicted_acceptance=float(predicted.mean()),
        integration_acceptance=float(np.minimum(1.0, np.exp(-integration)).mean()),
        energy_error=float(np.sqrt(np.mean(works**2))),
        trajectories=len(works),
    )


def _work_of_gradient_error(learned: Learned, held_out: GradientData) -> np.ndarray:
    """Integrate (∇U - g)·dq along each held-out trajectory by the trapezoidal rule."""
    errors = held_out.gradients - all_gradients(learned, held_out.positions)
    works = []
    for rows in held_out.by_trajectory():
        if len(rows) > 1:
            between = 0.5 * (errors[rows[1:]] + errors[rows[:-1]])
            works.append(np.sum(between * np.diff(held_out.positions[rows], axis=0)))
    return np.array(works)


def _integration_errors(
    learned: Learned, held_out: GradientData, tuning: Tuning, key: PRNGKeyArray
) -> np.ndarray:
    """Simulate how much the learned energy changes along learned trajectories.

    The trajectories start where the held-out ones do: at states of the chains.
    """
    starts = held_out.positions[held_out.steps == held_out.steps.min()]
    positions = jnp.asarray(starts[np.arange(SIMULATIONS) % len(starts)])
    errors = np.asarray(_simulate_all(learned, tuning, key, positions, quick=True))
    return np.where(np.isfinite(errors), errors, np.inf)


@compiled
def _simulate_all(learned: Learned, tuning: Tuning, key: PRNGKeyArray, positions: Array) -> Array:
    """Return the energy error at the end of one learned trajectory from each position."""

    def energy_error(key: PRNGKeyArray, position: Array) -> Array:
        momentum_key, length_key = jax.random.split(key)
        step_size, num_steps = tuning.drawn_length(length_key)
        stops = follow_trajectory(
            learned.gradient,
            position,
            momentum_key,
            tuning.inverse_mass_matrix,
            step_size,
            num_steps,
            potential=learned.potential if learned.conservative else None,
        )
        return stops.energy_errors[0]

    return jax.vmap(energy_error)(jax.random.split(key, len(positions)), positions)


def _mixture_scales(works: np.ndarray) -> np.ndarray:
    """Describe the works as a mixture of normals, by a Student's t, and return its scales.

    One normal is not enough: some regions are learned worse than others, so the errors differ
    widely in size.
    """
    if np.max(np.abs(works)) < NEGLIGIBLE_WORK:
        return np.zeros(1)
    candidates = [_fit_student_t(works, freedom) for freedom in DEGREES_OF_FREEDOM]
    freedom, scale, _ = max(candidates, key=lambda candidate: candidate[2])
    return scale * np.sqrt(freedom / stats.chi2.ppf(QUANTILES, freedom))


def _fit_student_t(works: np.ndarray, freedom: float) -> tuple[float, float, float]:
    """Fit the scale of a Student's t around zero by maximum likelihood.

    Returns degrees of freedom, scale and log likelihood.
    """
    square = np.mean(works**2)
    for _ in range(100):
        square = np.mean((freedom + 1) * works**2 / (freedom + works**2 / square))
    scale = float(np.sqrt(square))
    return freedom, scale, float(stats.t.logpdf(works, freedom, scale=scale).sum())


def _expected_acceptance(mean: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Compute E[min(1, exp(-X))] for X normal with this mean and standard deviation."""
    scale = np.maximum(scale, NEGLIGIBLE_WORK)
    with np.errstate(over="ignore", invalid="ignore"):
        log_positive_part = stats.norm.logcdf((mean - scale**2) / scale) + scale**2 / 2 - mean
        values = stats.norm.cdf(-mean / scale) + np.exp(log_positive_part)
    return np.where(np.isfinite(mean), np.minimum(values, 1.0), 0.0)
