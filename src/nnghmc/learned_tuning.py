"""Tuning on the learned dynamics, where steps are nearly free and no true evaluation is needed.

Trajectories along the learned gradient are simulated from places in the bulk. They tell how the
error of the integrator grows with the step, and how soon a trajectory forgets where it began. The
step is then small enough that what is lost to integration pays beside what a step costs; the
trajectory is as long as serves the means best while the spreads do not suffer.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from blackjax.mcmc.integrators import IntegratorState
from blackjax.mcmc.metrics import default_metric
from jaxtyping import Array, PRNGKeyArray
from scipy.stats import norm

from nnghmc.compilation import compiled
from nnghmc.kernels.leapfrog import gradient_alone, leapfrog
from nnghmc.kernels.tuning import Tuning
from nnghmc.surrogates import Learned
from nnghmc.warmup.adaptation import as_tuning

STEP_COST = 0.01
"""Not measured, so that the same seed gives the same draws: it takes a potential as cheap as a few
learned steps to make a difference."""
SIMULATIONS = 256
QUARTER = np.pi / 2
POINTS = 48
LONGEST = 3.6
"""Of the trajectories simulated, in units in which a quarter of a period is about 1.6."""
SHORTEST_SHARE = 0.6
"""Lengths are drawn between this share of the longest and the longest itself."""
SPREADS_AT_LEAST = 2 / 3
"""Of the best efficiency for squares that any length has."""


class LearnedTuning(NamedTuple):
    """The tuning chosen, and what its simulation says."""

    tuning: Tuning
    length: float
    integration_acceptance: float


def tune_on_learned(
    learned: Learned,
    positions: np.ndarray,
    inverse_mass_matrix: np.ndarray,
    key: PRNGKeyArray,
    *,
    step_cost: float = STEP_COST,
) -> LearnedTuning:
    """Step size and number of steps; a step costs this share of what a draw costs besides."""
    dim = positions.shape[1]
    trial_step = 0.5 * dim**-0.25
    chosen = np.random.default_rng(0).integers(0, len(positions), SIMULATIONS)
    steps_between = max(1, round(LONGEST / POINTS / trial_step))
    trial_step = LONGEST / POINTS / steps_between
    starts = jnp.asarray(positions[chosen])
    matrix = jnp.asarray(inverse_mass_matrix, float)
    paths, errors = _simulated(
        learned,
        starts,
        matrix,
        jnp.asarray(trial_step, float),
        jnp.asarray(steps_between),
        key,
        quick=True,
    )
    paths, errors = np.asarray(paths), np.asarray(errors)
    times = LONGEST * (1 + np.arange(POINTS)) / POINTS
    usable = np.isfinite(errors).all(axis=1)
    if usable.sum() < SIMULATIONS // 2:
        steps = int(np.ceil(QUARTER / trial_step))
        tuning = as_tuning(trial_step, (steps // 2, steps), inverse_mass_matrix)
        return LearnedTuning(tuning, QUARTER, float("nan"))
    length = _best_length(np.asarray(starts)[usable], paths[usable], times)
    row = int(np.argmin(np.abs(times - length)))
    spread = float(np.sqrt(np.mean(np.clip(errors[usable, row], -50, 50) ** 2)))
    step = _best_step(trial_step, spread, length, step_cost)
    steps = int(np.ceil(length / step))
    low = int(np.ceil(SHORTEST_SHARE * steps))
    tuning = as_tuning(length / steps, (low, steps), inverse_mass_matrix)
    return LearnedTuning(tuning, length, _acceptance(spread * (length / steps / trial_step) ** 2))


def _acceptance(spread: float) -> float:
    """Of an energy error of this root mean square."""
    return float(2 * norm.cdf(-spread / 2))


def _best_step(trial: float, spread: float, length: float, step_cost: float) -> float:
    """The step with the most acceptance for its cost; the error grows with its square."""
    steps = trial * np.geomspace(0.1, 2.0, 60)
    gain = 2 * norm.cdf(-spread * (steps / trial) ** 2 / 2)
    cost = 1 + step_cost * np.ceil(length / steps)
    return float(steps[np.argmax(gain**2 / cost)])


def _best_length(starts: np.ndarray, paths: np.ndarray, times: np.ndarray) -> float:
    """The longest length of a draw, lengths varying below it, by how much it forgets."""

    def forgotten(of: np.ndarray, later: np.ndarray) -> np.ndarray:
        """Effective draws a draw, for each longest length, of the tenth that does worst."""
        away = of - of.mean(axis=0)
        later = later - later.mean(axis=1, keepdims=True)
        size = np.sqrt((away**2).mean(axis=0) * (later**2).mean(axis=1))
        kept = np.mean(away * later, axis=1) / np.maximum(size, 1e-300)
        averaged = np.stack(
            [
                kept[(times >= SHORTEST_SHARE * time) & (times <= time)].mean(axis=0)
                for time in times
            ]
        )
        worst = np.clip(np.quantile(averaged, 0.9, axis=1), -0.9, 0.999)
        return (1 - worst) / (1 + worst)

    moved = np.swapaxes(paths, 0, 1)
    means = forgotten(starts, moved)
    spreads = forgotten((starts - starts.mean(axis=0)) ** 2, (moved - starts.mean(axis=0)) ** 2)
    allowed = spreads >= SPREADS_AT_LEAST * spreads.max()
    return float(times[np.argmax(np.where(allowed, means * spreads, 0.0))])


def _simulate(
    learned: Learned,
    starts: Array,
    inverse_mass_matrix: Array,
    step_size: Array,
    steps_between: Array,
    key: PRNGKeyArray,
) -> tuple[Array, Array]:
    """Positions at regular times along learned trajectories, and the work of the integrator.

    The change of energy is that of the learned energy: kinetic, and the learned gradient summed up
    along the way by the trapezoidal rule, which is exact to the order of the integrator.
    """
    metric = default_metric(inverse_mass_matrix)
    step = leapfrog(gradient_alone(learned.gradient), metric.kinetic_energy)

    def one_step(_: Array, carry: tuple[IntegratorState, Array]) -> tuple[IntegratorState, Array]:
        state, work = carry
        after = step(state, step_size)
        mean = -0.5 * (state.logdensity_grad + after.logdensity_grad)
        return after, work + mean @ (after.position - state.position)

    def one(key: PRNGKeyArray, position: Array) -> tuple[Array, Array]:
        momentum = metric.sample_momentum(key, position)
        unknown = jnp.asarray(jnp.nan, position.dtype)
        state = IntegratorState(position, momentum, unknown, -learned.gradient(position))
        start_energy = metric.kinetic_energy(momentum)

        def stretch(carry: tuple, _: None) -> tuple:
            carry = jax.lax.fori_loop(0, steps_between, one_step, carry)
            state, work = carry
            error = metric.kinetic_energy(state.momentum) + work - start_energy
            if learned.conservative:
                rise = learned.potential(state.position) - learned.potential(position)
                error = metric.kinetic_energy(state.momentum) + rise - start_energy
            return carry, (state.position, error)

        first = (state, jnp.zeros((), position.dtype))
        return jax.lax.scan(stretch, first, None, length=POINTS)[1]

    return jax.vmap(one)(jax.random.split(key, len(starts)), starts)


_simulated = compiled(_simulate)
