"""Takes all chains downhill at once by L-BFGS, from wherever they start.

Each evaluation serves all chains: a chain moves to its trial point if the potential falls enough,
and tries a shorter step otherwise. A descent ends when further steps gain little compared with how
far the typical set lies above the mode. It does not go on to the mode, which in many dimensions is
far from the typical set. Only the gradient is compiled, and every gradient is kept.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from nnghmc.kernels.hmc import HMCState
from nnghmc.surrogates.data import GradientData
from nnghmc.surrogates.models.quadratic import MOST_DENSE_DIMENSIONS

MEMORY = 20
"""Number of past moves that L-BFGS builds its curvature from."""
MOST_EVALUATIONS = 200
"""Largest number of evaluations of all chains together."""
SUFFICIENT_DECREASE = 1e-4
"""Least decrease of the potential, relative to the one that the gradient predicts."""
BACKTRACKING = 0.3
"""Factor that shortens a step after a rejected trial."""
SHORTEST_STEP = 1e-12
"""Step below which a descent ends, relative to the quasi-Newton step."""
LOOK_BACK = 5
"""Number of moves over which a descent measures what it gains."""

Evaluate = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
"""Positions of all chains -> their potentials and gradients."""


@dataclass
class _Descent:
    """The descent of one chain, with the moves that its curvature is estimated from.

    Attributes:
        position: current position.
        potential: potential at the current position.
        gradient: gradient at the current position.
        moves: changes of the position in the last moves.
        changes: changes of the gradient in the same moves.
        potentials: potentials after all moves.
        step: length of the next trial, relative to the quasi-Newton step.
        done: whether the descent has ended.
    """

    position: np.ndarray
    potential: float
    gradient: np.ndarray
    moves: list[np.ndarray] = field(default_factory=list)
    changes: list[np.ndarray] = field(default_factory=list)
    potentials: list[float] = field(default_factory=list)
    step: float = 1.0
    done: bool = False

    def __post_init__(self) -> None:
        self.direction = self._downhill_direction()

    def trial(self) -> np.ndarray:
        """Return the position to evaluate next; a descent that has ended stays where it is."""
        return self.position if self.done else self.position + self.step * self.direction

    def judge(self, position: np.ndarray, potential: float, gradient: np.ndarray) -> None:
        """Move to the trial if the potential falls enough, or shorten the step."""
        if self.done:
            return
        allowed = SUFFICIENT_DECREASE * self.step * float(self.gradient @ self.direction)
        if not (potential <= self.potential + allowed and np.isfinite(gradient).all()):
            self.step *= BACKTRACKING
            self.done = self.step < SHORTEST_STEP
            return
        move, change = position - self.position, gradient - self.gradient
        if move @ change > 1e-10 * np.linalg.norm(move) * np.linalg.norm(change):
            self.moves = [*self.moves, move][-MEMORY:]
            self.changes = [*self.changes, change][-MEMORY:]
        self.position, self.potential, self.gradient = position, float(potential), gradient
        self.direction, self.step = self._downhill_direction(), 1.0
        self.potentials.append(self.potential)
        if len(self.potentials) > LOOK_BACK:
            gained = self.potentials[-1 - LOOK_BACK] - self.potentials[-1]
            self.done = gained < 0.5 + 0.02 * len(position)

    def covariance_times(self, vectors: np.ndarray) -> np.ndarray:
        """Apply the inverse of the curvature to a vector, or to each row of a matrix."""
        rest, weights = np.array(vectors, float), []
        for move, change in zip(self.moves[::-1], self.changes[::-1], strict=True):
            weights.append((rest @ move) / (move @ change))
            rest -= np.multiply.outer(weights[-1], change)
        if self.moves:
            rest *= self._scale()
        for move, change, weight in zip(self.moves, self.changes, weights[::-1], strict=True):
            rest += np.multiply.outer(weight - (rest @ change) / (move @ change), move)
        return rest

    def _scale(self) -> float:
        """Return the inverse curvature along the last change of the gradient."""
        move, change = self.moves[-1], self.changes[-1]
        return float((move @ change) / (change @ change))

    def log_volume(self) -> float:
        """Return half the log determinant of the covariance; 0 above `MOST_DENSE_DIMENSIONS`."""
        dim = len(self.position)
        if dim > MOST_DENSE_DIMENSIONS:
            return 0.0
        covariance = self.covariance_times(np.eye(dim))
        return 0.5 * float(np.linalg.slogdet(covariance)[1])

    def _downhill_direction(self) -> np.ndarray:
        """Return the quasi-Newton direction, or the steepest one if that does not lead down."""
        if self.moves:
            direction = -self.covariance_times(self.gradient)
            if direction @ self.gradient <= 0:  # 0 at the mode itself
                return direction
            self.moves, self.changes = [], []
        return -self.gradient / max(float(np.linalg.norm(self.gradient)), 1.0)


class Arrival(NamedTuple):
    """The result of a descent.

    Attributes:
        states: where the chains arrived.
        inverse_mass_matrix: estimate of the posterior covariance, or its diagonal.
        gradient_data: every point that was evaluated.
        evaluations: number of evaluations of all chains together.
        restarts: number of chains that were moved to where another chain arrived.
    """

    states: HMCState
    inverse_mass_matrix: np.ndarray
    gradient_data: GradientData
    evaluations: int
    restarts: int


def descend(evaluate: Evaluate, states: HMCState) -> Arrival:
    """Take all chains downhill, and restart those that end in a negligible local mode."""
    descents = [
        _Descent(np.array(position, float), float(potential), np.array(gradient, float))
        for position, potential, gradient in zip(*states, strict=True)
    ]
    evaluated, evaluations = [], 0
    while evaluations < MOST_EVALUATIONS and not all(descent.done for descent in descents):
        trials = np.stack([descent.trial() for descent in descents])
        potentials, gradients = (np.asarray(part, float) for part in evaluate(trials))
        evaluations += 1
        evaluated.append(GradientData.of_points(trials, gradients, potentials))
        for descent, *results in zip(descents, trials, potentials, gradients, strict=True):
            descent.judge(*results)
    low = _in_relevant_modes(descents)
    restarts = len(descents) - len(low)
    ends = [*low, *(low[number % len(low)] for number in range(restarts))]
    parts = ([getattr(end, part) for end in ends] for part in HMCState._fields)
    states = HMCState(*(jnp.asarray(np.stack(part)) for part in parts))
    gradient_data = GradientData.concatenate(evaluated)
    return Arrival(states, _pooled_covariance(low), gradient_data, evaluations, restarts)


def _in_relevant_modes(descents: list[_Descent]) -> list[_Descent]:
    """Return the descents that did not end in a local mode with negligible probability mass.

    The depth of a mode is known, but its volume depends on the estimated curvature. A mode is
    therefore negligible only if it is so both by its depth alone and by its depth and volume.
    """
    negligible = 10 + len(descents[0].position)
    depths = np.array([-descent.potential for descent in descents])
    log_masses = depths + [descent.log_volume() for descent in descents]
    keep = (depths >= depths.max() - negligible) | (log_masses >= log_masses.max() - negligible)
    return [descent for descent, relevant in zip(descents, keep, strict=True) if relevant]


def _pooled_covariance(descents: list[_Descent]) -> np.ndarray:
    """Return the mean inverse curvature over chains, or its diagonal in too many dimensions."""
    dim = len(descents[0].position)
    if dim > MOST_DENSE_DIMENSIONS:
        scales = [descent._scale() for descent in descents if descent.moves]
        return np.full(dim, np.mean(scales) if scales else 1.0)
    pooled = np.mean([descent.covariance_times(np.eye(dim)) for descent in descents], axis=0)
    return (pooled + pooled.T) / 2
