"""Warms up NUTS: a way downhill, then windows of draws that adapt step size and mass matrix.

All chains share step size and mass matrix. The step size is adapted after every draw, by dual
averaging; the mass matrix after every window but the last ones, from positions and gradients of
the latest draws.
"""

from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np

from nnghmc.engine.history import Draws, History
from nnghmc.engine.session import Session
from nnghmc.engine.statistics import split_rhat
from nnghmc.explore.adaptation import (
    as_tuning,
    fisher_inverse_mass_matrix,
    with_usable_gradients,
)
from nnghmc.explore.descent import Arrival, descend
from nnghmc.kernels import HMCState, NoUTurn, Tuning
from nnghmc.kernels.nuts import NoUTurnState
from nnghmc.model.posterior import PotentialAndGradientFn
from nnghmc.surrogates.data import GradientData

WINDOWS = (5, 5, 10, 15, 25, 50, 80, 100)
"""Draws per chain of each window."""
FURTHER_WINDOWS = (50,) * 6
"""Draws per chain of each window that follows while the chains disagree."""
CHAINS_TO_POOL = 4
"""Number of chains below which windows are longer, so that each has about as many draws in all."""
LARGEST_RHAT = 1.05
"""R-hat below which the warm-up may end."""
MOST_DENSE_DIMENSIONS = 300
"""Number of dimensions up to which the mass matrix is dense."""
LEAST_DRAWS = 8
"""Number of different draws below which the mass matrix stays as it is."""
DRAWS_TO_SETTLE = 10
"""Number of draws of a window in which the step size is not settled."""
FIRST_STEP_SIZE = 0.3
"""Step size at the start, where the mass matrix fits, times the fourth root of the dimensions."""
SHORTENINGS = 8
"""Largest number of times that a start moves halfway back to where a chain arrived."""


@dataclass
class NutsWarmup:
    """Chains of NUTS with their tuning, and the draws of all windows.

    Attributes:
        states: where the chains are.
        step_size: step size that all chains share.
        inverse_mass_matrix: matrix, or its diagonal.
        histories: draws of each window.
        windows: positions and gradients of the draws of each window.
        restarts: number of chains restarted because they ended in a negligible local mode.
    """

    states: HMCState | NoUTurnState
    step_size: float
    inverse_mass_matrix: np.ndarray
    histories: list[History] = field(default_factory=list)
    windows: list[GradientData] = field(default_factory=list)
    restarts: int = 0

    @property
    def tuning(self) -> Tuning:
        """The tuning for the next window; NUTS chooses the number of steps itself."""
        return as_tuning(self.step_size, (1, 1), self.inverse_mass_matrix)

    @property
    def later_draws(self) -> np.ndarray:
        """Draws of the later half of the windows, shape (chains, draws, dim)."""
        later = self.histories[len(self.histories) // 2 :]
        return np.concatenate([history.draws for history in later], axis=1)

    @property
    def converged(self) -> bool:
        """Whether split R-hat is small for all coordinates."""
        return bool(split_rhat(self.later_draws).max() < LARGEST_RHAT)

    @property
    def diverged(self) -> bool:
        """Whether a trajectory diverged in the last window, after its first draws.

        The dual averaging begins each window with steps that are too long.
        """
        return bool(self.histories[-1].stats["diverging"][:, DRAWS_TO_SETTLE:].any())

    def adapt_matrix(self) -> None:
        """Estimate the mass matrix from the different draws of the later half of the windows."""
        data = GradientData.concatenate(self.windows[len(self.windows) // 2 :])
        data = with_usable_gradients(data)
        data = data.select(np.unique(data.positions, axis=0, return_index=True)[1])
        if len(data) >= LEAST_DRAWS:
            self.inverse_mass_matrix = fisher_inverse_mass_matrix(self.inverse_mass_matrix, data)


def approach(
    session: Session,
    potential_and_gradient: PotentialAndGradientFn,
    states: HMCState,
    arrival: Arrival | None = None,
) -> NutsWarmup:
    """Take the chains downhill, unless they have arrived, and spread them around that place."""

    def evaluate(positions: np.ndarray) -> tuple[np.ndarray, ...]:
        with session.timed("warmup") as cost:
            cost.true_gradients += len(positions)
            return session.evaluate("approach", potential_and_gradient, positions)

    if arrival is None:
        arrival = descend(evaluate, states)
    matrix = usable_matrix(arrival.inverse_mass_matrix)
    states = _spread(arrival, matrix, evaluate, session)
    step_size = FIRST_STEP_SIZE * states.position.shape[1] ** -0.25
    return NutsWarmup(states, step_size, matrix, restarts=arrival.restarts)


def usable_matrix(matrix: np.ndarray) -> np.ndarray:
    """Return a dense matrix that is safely positive definite, or the diagonal of a large one."""
    if matrix.ndim == 1:
        return matrix
    diagonal = np.diag(matrix).copy()
    if len(matrix) > MOST_DENSE_DIMENSIONS:
        return diagonal
    return matrix + 1e-10 * np.diag(diagonal)


def coloured(noise: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """Turn rows of standard normal noise into rows with this covariance, or these variances."""
    if covariance.ndim == 1:
        return np.asarray(noise * np.sqrt(covariance))
    return np.asarray(noise @ np.linalg.cholesky(covariance).T)


def coloured_transposed(rows: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """Turn rows of gradients into those with respect to coordinates that `coloured` colours."""
    if covariance.ndim == 1:
        return np.asarray(rows * np.sqrt(covariance))
    return np.asarray(rows @ np.linalg.cholesky(covariance))


def whitened(rows: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """Turn rows with this covariance, or these variances, into rows of unit covariance."""
    if covariance.ndim == 1:
        return np.asarray(rows / np.sqrt(covariance))
    return np.asarray(np.linalg.solve(np.linalg.cholesky(covariance), rows.T).T)


def _spread(arrival: Arrival, matrix: np.ndarray, evaluate: Any, session: Session) -> HMCState:
    """Draw a start for each chain from the normal approximation around where it arrived.

    A start where the potential is far above that of the typical set moves halfway back, some times.
    If one is still too high then, all chains start where they arrived.
    """
    ends = np.asarray(arrival.states.position)
    dim = ends.shape[1]
    away = coloured(session.generator("approach").normal(size=ends.shape), matrix)
    highest = np.asarray(arrival.states.potential) + 2 * dim + 10
    for _ in range(SHORTENINGS):
        potentials, gradients = evaluate(ends + away)
        usable = (potentials < highest) & np.isfinite(gradients).all(axis=1)
        if usable.all():
            return HMCState(*map(jnp.asarray, (ends + away, potentials, gradients)))
        away = np.where(usable[:, np.newaxis], away, away / 2)
    return arrival.states


def warm_up_nuts(
    session: Session,
    potential_and_gradient: PotentialAndGradientFn,
    warmup: NutsWarmup,
    target_acceptance: float,
    careful_acceptance: float,
    *,
    quick: bool,
) -> NutsWarmup:
    """Make windows of NUTS, and adapt to each of them.

    The step size is adapted to `target_acceptance`, and to `careful_acceptance` once a trajectory
    has diverged in the later half of the windows. The last of `WINDOWS` and all
    further ones adapt the step size alone.
    """
    longer = -(-CHAINS_TO_POOL // len(warmup.states.position))
    session.reporter.begin("warmup", longer * sum(WINDOWS))
    first, target, next_target = 0, target_acceptance, target_acceptance
    for number, size in enumerate((*WINDOWS, *FURTHER_WINDOWS)):
        settled = target == next_target
        if session.stopped or (number >= len(WINDOWS) and settled and warmup.converged):
            break
        target = next_target
        kernel = NoUTurn(potential_and_gradient, warmup.tuning, target)
        _make_window(session, kernel, warmup, range(first, first + longer * size), quick)
        first += longer * size
        if 2 * number >= len(WINDOWS) and warmup.diverged:
            next_target = max(target, careful_acceptance)
        if number < len(WINDOWS) - 1:
            warmup.adapt_matrix()
    return warmup


def _make_window(
    session: Session, kernel: NoUTurn, warmup: NutsWarmup, numbers: range, quick: bool
) -> None:
    """Make draws with these numbers, and take over the step size they have adapted."""
    parts: list[GradientData] = []

    def keep(_: int, chunk: Draws) -> None:
        parts.append(GradientData.of_draws(*chunk.recorded))

    states, history = session.advance(
        "warmup",
        kernel,
        kernel.restart(warmup.states),
        numbers,
        stream=f"NUTS from draw {numbers.start}",
        label="",
        on_chunk=keep,
        quick=quick,
    )
    warmup.states, warmup.step_size = states, kernel.settled_step_size(states)
    warmup.histories.append(history)
    warmup.windows.append(GradientData.concatenate(parts))
