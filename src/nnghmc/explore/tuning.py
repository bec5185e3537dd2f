"""Chooses step size and trajectory length on the learned dynamics, without true evaluations.

Trajectories along the learned gradient are simulated from positions in the typical set. They show
how large the energy error of the integrator is, and how fast the correlation with the start decays.
The step size maximises the squared acceptance relative to the cost of a draw. The trajectory length
maximises the product of the ESS of means and the ESS of squares, subject to an ESS of squares of
at least 2/3 of its best.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray
from scipy.stats import norm

from nnghmc.explore.adaptation import as_tuning
from nnghmc.kernels.dynamics import Stops, follow_trajectory
from nnghmc.kernels.tuning import Tuning
from nnghmc.platform.compilation import compiled
from nnghmc.surrogates import Learned, SurrogatePosterior

STEP_COST = 0.01
"""Cost of a learned step relative to the rest of a draw. It is fixed rather than measured, so that
the same seed gives the same draws. It would matter only for a potential as cheap as a few learned
steps."""
SIMULATIONS = 256
"""Number of simulated trajectories."""
QUARTER_PERIOD = np.pi / 2
"""Trajectory length after which a standard normal has forgotten its start."""
STOPS = 48
"""Number of stops at which a simulated trajectory is compared with its start."""
LONGEST_TRAJECTORY = 3.6
"""Length of the simulated trajectories, on the scale of `QUARTER_PERIOD`."""
STOP_INTERVAL = LONGEST_TRAJECTORY / STOPS
"""Length of a trajectory from one stop to the next."""
TIMES = LONGEST_TRAJECTORY * (1 + np.arange(STOPS)) / STOPS
"""Length of a trajectory up to each stop."""
SHORTEST_FRACTION = 0.6
"""Trajectory lengths vary between this fraction of the longest and the longest itself."""
LEAST_ESS_OF_SQUARES = 2 / 3
"""Smallest acceptable ESS of squares, as a fraction of the best over all trajectory lengths."""
ENERGY_ERROR_BOUND = 50.0
"""Energy errors are clipped to this size, so that one outlier does not decide on the step."""


class LearnedTuning(NamedTuple):
    """The chosen tuning, its longest trajectory length and its acceptance under learned energy."""

    tuning: Tuning
    length: float
    integration_acceptance: float


def tune_on_learned(
    learned: Learned | SurrogatePosterior,
    positions: np.ndarray,
    inverse_mass_matrix: np.ndarray,
    key: PRNGKeyArray,
    *,
    step_cost: float = STEP_COST,
) -> LearnedTuning:
    """Choose step size and numbers of steps for trajectories along a learned gradient.

    `positions` are rows from the typical set. `step_cost` is the cost of one step relative to the
    rest of a draw. Where most simulations diverge, the tuning is a cautious default.
    """
    steps_between = max(1, round(STOP_INTERVAL / (0.5 * positions.shape[1] ** -0.25)))
    trial_step = STOP_INTERVAL / steps_between
    chosen = np.random.default_rng(0).integers(0, len(positions), SIMULATIONS)
    starts = jnp.asarray(positions[chosen])
    stops = _simulate_all(
        learned,
        starts,
        jnp.asarray(inverse_mass_matrix, float),
        jnp.asarray(trial_step, float),
        jnp.asarray(steps_between),
        key,
        quick=True,
    )
    paths, errors = np.asarray(stops.positions), np.asarray(stops.energy_errors)
    usable = np.isfinite(errors).all(axis=1)
    if usable.sum() < SIMULATIONS // 2:
        return _cautious_tuning(trial_step, inverse_mass_matrix)
    length = _best_length(np.asarray(starts)[usable], paths[usable])
    error = _root_mean_square(errors[usable, int(np.argmin(np.abs(TIMES - length)))])
    steps = int(np.ceil(length / _best_step(trial_step, error, length, step_cost)))
    low = int(np.ceil(SHORTEST_FRACTION * steps))
    tuning = as_tuning(length / steps, (low, steps), inverse_mass_matrix)
    acceptance = _acceptance(error * (length / steps / trial_step) ** 2)
    return LearnedTuning(tuning, length, float(acceptance))


def _cautious_tuning(step_size: float, inverse_mass_matrix: np.ndarray) -> LearnedTuning:
    """Return a tuning with this step size and trajectories of about a quarter of a period."""
    steps = int(np.ceil(QUARTER_PERIOD / step_size))
    tuning = as_tuning(step_size, (steps // 2, steps), inverse_mass_matrix)
    return LearnedTuning(tuning, QUARTER_PERIOD, float("nan"))


def _root_mean_square(errors: np.ndarray) -> float:
    """Return the root mean square of energy errors, with outliers clipped."""
    clipped = np.clip(errors, -ENERGY_ERROR_BOUND, ENERGY_ERROR_BOUND)
    return float(np.sqrt(np.mean(clipped**2)))


def _acceptance(energy_error: np.ndarray | float) -> np.ndarray:
    """Return the mean acceptance for an energy error of this root mean square σ.

    Energy errors are assumed to be normal with mean σ²/2 and variance σ².
    """
    return np.asarray(2 * norm.cdf(-energy_error / 2))


def _best_step(trial: float, energy_error: float, length: float, step_cost: float) -> float:
    """Choose the step with the largest squared acceptance relative to its cost.

    `energy_error` is that of the trial step; it grows with the square of the step.
    """
    steps = trial * np.geomspace(0.1, 2.0, 60)
    acceptance = _acceptance(energy_error * (steps / trial) ** 2)
    cost = 1 + step_cost * np.ceil(length / steps)
    return float(steps[np.argmax(acceptance**2 / cost)])


def _best_length(starts: np.ndarray, paths: np.ndarray) -> float:
    """Choose the longest trajectory length by the ESS of means and of squares it gives."""
    ends = np.swapaxes(paths, 0, 1)
    centre = starts.mean(axis=0)
    means = _effective_draws_per_draw(starts, ends)
    squares = _effective_draws_per_draw((starts - centre) ** 2, (ends - centre) ** 2)
    allowed = squares >= LEAST_ESS_OF_SQUARES * squares.max()
    return float(TIMES[np.argmax(np.where(allowed, means * squares, 0.0))])


def _effective_draws_per_draw(starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Return the ESS per draw for each longest trajectory length, for the worst tenth of columns.

    It is (1 - ρ) / (1 + ρ) with the correlation ρ of start and end, averaged over the lengths that
    a trajectory may have. `ends` has the shape (stops, simulations, columns).
    """
    starts = starts - starts.mean(axis=0)
    ends = ends - ends.mean(axis=1, keepdims=True)
    size = np.sqrt((starts**2).mean(axis=0) * (ends**2).mean(axis=1))
    correlations = np.mean(starts * ends, axis=1) / np.maximum(size, 1e-300)
    times = TIMES
    averaged = [
        correlations[(times >= SHORTEST_FRACTION * longest) & (times <= longest)].mean(axis=0)
        for longest in times
    ]
    worst = np.clip(np.quantile(averaged, 0.9, axis=1), -0.9, 0.999)
    return np.asarray((1 - worst) / (1 + worst))


@compiled
def _simulate_all(
    learned: Learned | SurrogatePosterior,
    starts: Array,
    inverse_mass_matrix: Array,
    step_size: Array,
    steps_between: Array,
    key: PRNGKeyArray,
) -> Stops:
    """Follow one learned trajectory from every start, with the same stops for all."""

    def from_start(key: PRNGKeyArray, position: Array) -> Stops:
        return follow_trajectory(
            learned.gradient,
            position,
            key,
            inverse_mass_matrix,
            step_size,
            steps_between,
            num_stops=STOPS,
            potential=learned.potential if learned.conservative else None,
        )

    return jax.vmap(from_start)(jax.random.split(key, len(starts)), starts)
