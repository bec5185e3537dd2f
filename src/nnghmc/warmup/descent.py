"""Downhill from wherever the chains start, all of them at once: L-BFGS, driven from the host.

Each evaluation serves all chains: one that likes its trial takes it, one that does not tries a
shorter step. It ends where going on gains little beside what the potential varies by in the bulk,
and not at the mode, which in many dimensions is far from it. Nothing is compiled but the gradient
itself, and every gradient is kept.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from nnghmc.kernels.hmc import HMCState
from nnghmc.surrogates.gradient_data import GradientData
from nnghmc.surrogates.quadratic import MOST_DENSE_DIMENSIONS

MEMORY = 20
MOST_EVALUATIONS = 200
SUFFICIENT_DECREASE = 1e-4
SHORTER = 0.3
SHORTEST = 1e-12
LOOK_BACK = 5

Evaluate = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
"""Positions of all chains -> their potentials and gradients."""


@dataclass
class _Descent:
    """One chain on its way down."""

    position: np.ndarray
    potential: float
    gradient: np.ndarray
    moves: list[np.ndarray] = field(default_factory=list)
    bends: list[np.ndarray] = field(default_factory=list)
    potentials: list[float] = field(default_factory=list)
    step: float = 1.0
    done: bool = False

    def __post_init__(self) -> None:
        self.direction = self._downhill()

    def trial(self) -> np.ndarray:
        return self.position if self.done else self.position + self.step * self.direction

    def judge(self, position: np.ndarray, potential: float, gradient: np.ndarray) -> None:
        """Take the trial where the potential falls enough, or try a shorter step."""
        if self.done:
            return
        allowed = SUFFICIENT_DECREASE * self.step * float(self.gradient @ self.direction)
        if not (potential <= self.potential + allowed and np.isfinite(gradient).all()):
            self.step *= SHORTER
            self.done = self.step < SHORTEST
            return
        move, bend = position - self.position, gradient - self.gradient
        if move @ bend > 1e-10 * np.linalg.norm(move) * np.linalg.norm(bend):
            self.moves, self.bends = [*self.moves, move][-MEMORY:], [*self.bends, bend][-MEMORY:]
        self.position, self.potential, self.gradient = position, float(potential), gradient
        self.direction, self.step = self._downhill(), 1.0
        self.potentials.append(self.potential)
        if len(self.potentials) > LOOK_BACK:
            gained = self.potentials[-1 - LOOK_BACK] - self.potentials[-1]
            self.done = gained < 0.5 + 0.02 * len(position)

    def covariance_times(self, vectors: np.ndarray) -> np.ndarray:
        """The inverse of the curvature met so far, applied to a vector, or to rows of them."""
        rest, shares = np.array(vectors, float), []
        for move, bend in zip(self.moves[::-1], self.bends[::-1], strict=True):
            shares.append((rest @ move) / (move @ bend))
            rest -= np.multiply.outer(shares[-1], bend)
        if self.moves:
            rest *= (self.moves[-1] @ self.bends[-1]) / (self.bends[-1] @ self.bends[-1])
        for move, bend, share in zip(self.moves, self.bends, shares[::-1], strict=True):
            rest += np.multiply.outer(share - (rest @ bend) / (move @ bend), move)
        return rest

    def log_width(self) -> float:
        """The logarithm of the volume that the curvature met so far speaks of."""
        dim = len(self.position)
        if dim > MOST_DENSE_DIMENSIONS:
            return 0.0
        covariance = self.covariance_times(np.eye(dim))
        return 0.5 * float(np.linalg.slogdet(covariance)[1])

    def _downhill(self) -> np.ndarray:
        """The quasi-Newton direction, or the steepest one where that does not lead down."""
        if self.moves:
            direction = -self.covariance_times(self.gradient)
            if direction @ self.gradient <= 0:  # 0 at the very bottom
                return direction
            self.moves, self.bends = [], []
        return -self.gradient / max(float(np.linalg.norm(self.gradient)), 1.0)


class Arrival(NamedTuple):
    """Where the chains arrive, what they met on the way, and what it says of the curvature."""

    states: HMCState
    inverse_mass_matrix: np.ndarray
    met: GradientData
    evaluations: int
    moved: int


def descend(evaluate: Evaluate, states: HMCState) -> Arrival:
    """Take all chains downhill."""
    descents = [
        _Descent(np.array(position, float), float(potential), np.array(gradient, float))
        for position, potential, gradient in zip(*states, strict=True)
    ]
    met, evaluations = [], 0
    while evaluations < MOST_EVALUATIONS and not all(descent.done for descent in descents):
        trials = np.stack([descent.trial() for descent in descents])
        potentials, gradients = (np.asarray(part, float) for part in evaluate(trials))
        evaluations += 1
        met.append(GradientData.of_points(trials, gradients, potentials))
        for descent, *found in zip(descents, trials, potentials, gradients, strict=True):
            descent.judge(*found)
    low = _low_enough(descents)
    moved = len(descents) - len(low)
    ends = [*low, *(low[number % len(low)] for number in range(moved))]
    parts = ([getattr(end, part) for end in ends] for part in HMCState._fields)
    states = HMCState(*(jnp.asarray(np.stack(part)) for part in parts))
    gradient_data = GradientData.concatenate(met)
    return Arrival(states, _pooled_covariance(low), gradient_data, evaluations, moved)


def _low_enough(descents: list[_Descent]) -> list[_Descent]:
    """Those that did not end in a hollow far above the others that is no wider to make up for it.

    Depth is known, and width no better than the curvature met on the way tells it: both must agree.
    """
    negligible = 10 + len(descents[0].position)
    depths = np.array([-descent.potential for descent in descents])
    contents = depths + [descent.log_width() for descent in descents]
    keep = (depths >= depths.max() - negligible) | (contents >= contents.max() - negligible)
    return [descent for descent, low in zip(descents, keep, strict=True) if low]


def _pooled_covariance(descents: list[_Descent]) -> np.ndarray:
    """The mean over chains of the inverse curvature; beyond a thousand dimensions its diagonal."""
    dim = len(descents[0].position)
    if dim > MOST_DENSE_DIMENSIONS:
        scales = [
            (descent.moves[-1] @ descent.bends[-1]) / (descent.bends[-1] @ descent.bends[-1])
            for descent in descents
            if descent.moves
        ]
        return np.full(dim, np.mean(scales) if scales else 1.0)
    pooled = np.mean([descent.covariance_times(np.eye(dim)) for descent in descents], axis=0)
    return (pooled + pooled.T) / 2
