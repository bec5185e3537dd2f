"""How good a learned gradient is, before a single draw is made with it.

The energy error of a learned trajectory has two parts. Leapfrog does not conserve the learned
energy exactly: that part is simulated, which costs learned gradients alone. And the learned energy
is not the true one: that part is the change, from start to end, of the difference between the two,
and held-out trajectories of the true dynamics show it. Where the difference is known to first
order only, reversibility gives the second: an error of variance σ² has the mean σ²/2.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from blackjax.mcmc.integrators import IntegratorState
from blackjax.mcmc.metrics import default_metric
from jaxtyping import Array, Float, PRNGKeyArray
from scipy import stats

from nnghmc.compilation import compiled
from nnghmc.errors import GradientDataError
from nnghmc.kernels.leapfrog import gradient_alone, leapfrog
from nnghmc.kernels.tuning import Tuning
from nnghmc.surrogates import GradientData, Learned, Surrogate
from nnghmc.surrogates.fit import relative_error
from nnghmc.surrogates.learned import all_gradients

SIMULATIONS = 1000
DEGREES_OF_FREEDOM = (1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 15.0, 50.0)
QUANTILES = (np.arange(64) + 0.5) / 64


@dataclass(frozen=True)
class Assessment:
    """What held-out trajectories say about a learned gradient.

    Attributes:
        relative_error: the size of the gradient's error relative to the gradient's.
        predicted_acceptance: the mean acceptance probability to expect of it.
        integration_acceptance: what it would be if the learned energy were the true one.
        energy_error: the root mean square change of the difference between learned and true
            energy along a trajectory.
        trajectories: the number of held-out trajectories.
    """

    relative_error: float
    predicted_acceptance: float
    integration_acceptance: float
    energy_error: float
    trajectories: int

    def __str__(self) -> str:
        return (
            f"predicted acceptance {self.predicted_acceptance:.2f}, gradient error "
            f"{self.relative_error:.2g} on {self.trajectories} trajectories held out"
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

    The prediction is for trajectories about as long as those held out. `held_out` takes the place
    of those the surrogate remembers, for one that was loaded or moved to another prior.
    """
    unseen = surrogate.held_out if held_out is None else held_out
    if unseen is None:
        raise GradientDataError(
            "an assessment needs gradient data that were held out, and this surrogate has none. "
            "Fit with Training(held_out=0.1), or give held_out=."
        )
    tuning = Tuning.checked(step_size, num_steps, inverse_mass_matrix, surrogate.dim)
    return assess_tuning(surrogate.learned, unseen.finite(), tuning, jax.random.key(seed))


def assess_tuning(
    learned: Learned, held_out: GradientData, tuning: Tuning, key: PRNGKeyArray
) -> Assessment:
    """The assessment for a tuning that has been checked."""
    works = _work_of_the_error(learned, held_out)
    if not len(works):
        raise GradientDataError(
            "an assessment needs held-out trajectories of at least 2 points, and there is none."
        )
    integration = _integration_errors(learned, held_out, tuning, key)
    spreads = _spreads(works)
    predicted = _acceptance(integration[:, np.newaxis] + spreads**2 / 2, spreads)
    return Assessment(
        relative_error=relative_error(learned, held_out),
        predicted_acceptance=float(predicted.mean()),
        integration_acceptance=float(np.minimum(1.0, np.exp(-integration)).mean()),
        energy_error=float(np.sqrt(np.mean(works**2))),
        trajectories=len(works),
    )


def _work_of_the_error(learned: Learned, held_out: GradientData) -> np.ndarray:
    """∫ (∇U - g)·dq along each held-out trajectory, by the trapezium rule."""
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
    """How much the learned energy changes along learned trajectories from states of the chains."""
    starts = held_out.positions[held_out.steps == held_out.steps.min()]
    positions = jnp.asarray(starts[np.arange(SIMULATIONS) % len(starts)])
    errors = np.asarray(_simulated(learned, tuning, key, positions, quick=True))
    return np.where(np.isfinite(errors), errors, np.inf)


class _Simulation(NamedTuple):
    state: IntegratorState
    work: Float[Array, ""]


@compiled
def _simulated(learned: Learned, tuning: Tuning, key: PRNGKeyArray, positions: Array) -> Array:
    metric = default_metric(tuning.inverse_mass_matrix)
    step = leapfrog(gradient_alone(learned.gradient), metric.kinetic_energy)

    def energy_change(key: PRNGKeyArray, position: Array) -> Array:
        momentum_key, length_key = jax.random.split(key)
        step_size, num_steps = tuning.drawn_length(length_key)
        momentum = metric.sample_momentum(momentum_key, position)
        unknown = jnp.asarray(jnp.nan, position.dtype)
        start = IntegratorState(position, momentum, unknown, -learned.gradient(position))

        def body(_: Array, now: _Simulation) -> _Simulation:
            state = step(now.state, step_size)
            force = 0.5 * (state.logdensity_grad + now.state.logdensity_grad)
            return _Simulation(state, now.work - force @ (state.position - now.state.position))

        nothing = jnp.zeros((), position.dtype)
        end, work = jax.lax.fori_loop(0, num_steps, body, _Simulation(start, nothing))
        if learned.conservative:
            work = learned.potential(end.position) - learned.potential(position)
        return metric.kinetic_energy(end.momentum) - metric.kinetic_energy(momentum) + work

    return jax.vmap(energy_change)(jax.random.split(key, len(positions)), positions)


def _spreads(works: np.ndarray) -> np.ndarray:
    """Standard deviations whose mixture of normals is like the works: a Student's t.

    Some regions are learned worse than others, so that errors are of very different size.
    """
    if np.max(np.abs(works)) < 1e-9:
        return np.zeros(1)
    candidates = [_student(works, freedom) for freedom in DEGREES_OF_FREEDOM]
    freedom, scale, _ = max(candidates, key=lambda candidate: candidate[2])
    return scale * np.sqrt(freedom / stats.chi2.ppf(QUANTILES, freedom))


def _student(works: np.ndarray, freedom: float) -> tuple[float, float, float]:
    """Degrees of freedom, the most likely scale of a Student's t around zero, its likelihood."""
    square = np.mean(works**2)
    for _ in range(100):
        square = np.mean((freedom + 1) * works**2 / (freedom + works**2 / square))
    scale = float(np.sqrt(square))
    return freedom, scale, float(stats.t.logpdf(works, freedom, scale=scale).sum())


def _acceptance(mean: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """E[min(1, exp(-X))] of a normal X."""
    spread = np.maximum(spread, 1e-9)
    with np.errstate(over="ignore", invalid="ignore"):
        falling = stats.norm.logcdf((mean - spread**2) / spread) + spread**2 / 2 - mean
        values = stats.norm.cdf(-mean / spread) + np.exp(falling)
    return np.where(np.isfinite(mean), np.minimum(values, 1.0), 0.0)
