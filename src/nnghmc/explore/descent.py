"""Takes all chains downhill at once by L-BFGS, from wherever they start.

Each evaluation serves all chains: a chain moves to its trial point if the potential falls enough,
and tries a shorter step otherwise. A descent ends when further steps gain little compared with how
far the typical set lies above the mode. It does not go on to the mode, which in many dimensions is
far from the typical set. Only the gradient is compiled, and every gradient is kept.

Where the potential has no minimum, or a deep and very narrow one, as in a hierarchical model whose
group scale goes to zero, a descent would leave the typical set. If the potential still falls at the
end, or more mass lies around an earlier stop, the chain goes back to a stop on the way, as in
Pathfinder (Zhang et al., 2022): to one of those around which a normal approximation has about the
largest evidence lower bound.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from nnghmc.explore.collect import Evaluate, evaluate_in_batches
from nnghmc.explore.curvature import Curvature
from nnghmc.kernels.hmc import HMCState
from nnghmc.surrogates.data import GradientData
from nnghmc.surrogates.models.quadratic import MOST_DENSE_DIMENSIONS

MOST_EVALUATIONS = 200
"""Largest number of evaluations of all chains together."""
SUFFICIENT_DECREASE = 1e-4
"""Least decrease of the potential, relative to the one that the gradient predicts."""
BACKTRACKING = 0.3
"""Factor that shortens a step after a rejected trial."""
SHORTEST_STEP = 1e-12
"""Step below which a descent ends, relative to the quasi-Newton step."""
MOVES_NEARBY = 20
"""Number of last moves that tell the shape around a stop. They are from nearby, and few enough for
a volume at every stop; all that are remembered help to go on downhill."""
LOOK_BACK = 5
"""Number of moves over which a descent measures what it gains."""
MOVES_WITHOUT_MASS = 30
"""Number of moves that gain no mass after which a descent ends, though the potential falls."""
CANDIDATES = 20
"""Largest number of stops on the way of one chain that chains may go back to."""
DRAWS_PER_CANDIDATE = 4
"""Number of draws of a normal approximation that estimate its evidence lower bound."""
EQUAL_BOUNDS = 4.0
"""Difference below which two evidence lower bounds count as equal."""


@dataclass(frozen=True, eq=False)
class _Stop:
    """A point on the way downhill, with the curvature that was known there."""

    position: np.ndarray
    potential: float
    gradient: np.ndarray
    curvature: Curvature

    @cached_property
    def shape(self) -> Curvature:
        """The curvature of the normal approximation around this point."""
        return self.curvature.of_last(MOVES_NEARBY)

    @cached_property
    def log_volume(self) -> float:
        """The log volume of the normal approximation, up to a constant."""
        return self.shape.log_volume(len(self.position))

    @property
    def log_mass(self) -> float:
        """The log mass of the normal approximation, up to a constant."""
        return -self.potential + self.log_volume

    def draw(self, noise: np.ndarray) -> np.ndarray:
        """Turn rows of standard normal noise into draws of the normal approximation."""
        centre = self.position - self.shape.covariance_times(self.gradient)
        return centre + self.shape.colour(noise)


class _Descent:
    """The descent of one chain.

    Attributes:
        stops: the start and the point after each move.
        direction: direction of the next trial.
        step: length of the next trial, relative to the quasi-Newton step.
        done: whether the descent has ended.
    """

    def __init__(self, position: np.ndarray, potential: float, gradient: np.ndarray):
        self.step, self.done = 1.0, False
        self.stops: list[_Stop] = []
        self._stop_at(_Stop(position, potential, gradient, Curvature()))

    @property
    def end(self) -> _Stop:
        """The point where the descent is."""
        return self.stops[-1]

    def trial(self) -> np.ndarray:
        """Return the position to evaluate next; a descent that has ended stays where it is."""
        return self.end.position if self.done else self.end.position + self.step * self.direction

    def judge(self, position: np.ndarray, potential: float, gradient: np.ndarray) -> None:
        """Move to the trial if the potential falls enough, or shorten the step."""
        if self.done:
            return
        allowed = SUFFICIENT_DECREASE * self.step * float(self.end.gradient @ self.direction)
        if not (potential <= self.end.potential + allowed and np.isfinite(gradient).all()):
            self.step *= BACKTRACKING
            self.done = self.step < SHORTEST_STEP
            return
        move, change = position - self.end.position, gradient - self.end.gradient
        curvature = self.end.curvature.after(move, change)
        self._stop_at(_Stop(position, float(potential), gradient, curvature))
        self.done = not self.falls or self._gains_no_mass

    def _stop_at(self, stop: _Stop) -> None:
        """Take the quasi-Newton direction from here, or the steepest if that does not lead down."""
        direction = -stop.curvature.covariance_times(stop.gradient)
        if not stop.curvature.known or direction @ stop.gradient > 0:  # 0 at the mode itself
            stop = replace(stop, curvature=Curvature())
            direction = -stop.gradient / max(float(np.linalg.norm(stop.gradient)), 1.0)
        self.stops.append(stop)
        self.direction, self.step = direction, 1.0

    @property
    def falls(self) -> bool:
        """Whether the potential fell by more than a negligible amount in the last moves."""
        if len(self.stops) <= LOOK_BACK + 1:
            return True
        gain = self.stops[-1 - LOOK_BACK].potential - self.end.potential
        return gain >= 0.5 + 0.02 * len(self.end.position)

    @property
    def _gains_no_mass(self) -> bool:
        """Whether the last moves only went where less mass is."""
        best = int(np.argmax([stop.log_mass for stop in self.stops]))
        return len(self.stops) - best > MOVES_WITHOUT_MASS

    @property
    def has_left_the_mass(self) -> bool:
        """Whether the potential still falls, or more mass lies around an earlier stop."""
        most = max(stop.log_mass for stop in self.stops)
        left = self.end.log_mass < most - 10 - len(self.end.position)
        return len(self.stops) > 1 and (self.falls or left)

    @property
    def candidates(self) -> list[_Stop]:
        """Stops that a chain may go back to, evenly over the way."""
        chosen = np.linspace(1, len(self.stops) - 1, CANDIDATES).round().astype(int)
        return [self.stops[number] for number in np.unique(chosen)]


class Arrival(NamedTuple):
    """The result of a descent.

    Attributes:
        states: where the chains arrived.
        inverse_mass_matrix: estimate of the posterior covariance, or its diagonal.
        gradient_data: every point that was evaluated.
        evaluations: number of evaluations of all chains together.
        restarts: number of chains that arrived in a negligible local mode, and were moved to where
            another chain arrived. Chains that had not arrived yet are moved too, and not counted.
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
    evaluated: list[GradientData] = []

    def evaluate_kept(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        potentials, gradients = (np.asarray(part, float) for part in evaluate(positions))
        evaluated.append(GradientData.of_points(positions, gradients, potentials))
        return potentials, gradients

    while len(evaluated) < MOST_EVALUATIONS and not all(descent.done for descent in descents):
        trials = np.stack([descent.trial() for descent in descents])
        for descent, *results in zip(descents, trials, *evaluate_kept(trials), strict=True):
            descent.judge(*results)
    _go_back_to_mass(descents, evaluate_kept)
    low = _in_relevant_modes(descents)
    left = [descent for descent in descents if descent not in low]
    ends = [*low, *(low[number % len(low)] for number in range(len(left)))]
    restarts = sum(
        _behind_a_barrier(descent.end, low[0].end, evaluate_kept, len(ends)) for descent in left
    )
    parts = ([getattr(descent.end, part) for descent in ends] for part in HMCState._fields)
    states = HMCState(*(jnp.asarray(np.stack(part)) for part in parts))
    gradient_data = GradientData.concatenate(evaluated)
    return Arrival(states, _pooled_covariance(low), gradient_data, len(evaluated), restarts)


def _go_back_to_mass(descents: list[_Descent], evaluate: Evaluate) -> None:
    """Take chains that have left the mass back to where a normal approximation fits best.

    They share their stops: the evidence lower bound is estimated from few draws, and on many ways
    downhill the curvature is known well at a few stops only. Among stops with equal bounds, those
    with a higher potential are chosen, because the typical set lies above.
    """
    astray = [descent for descent in descents if descent.has_left_the_mass]
    if not astray:
        return
    candidates = [stop for descent in astray for stop in descent.candidates]
    bounds = _evidence_bounds(candidates, evaluate, len(descents))
    best = [
        stop
        for stop, bound in zip(candidates, bounds, strict=True)
        if bound >= bounds.max() - EQUAL_BOUNDS
    ]
    best.sort(key=lambda stop: -stop.potential)
    upper = best[: (len(best) + 1) // 2]
    for number, descent in enumerate(astray):
        descent.stops.append(upper[number % len(upper)])


def _evidence_bounds(stops: list[_Stop], evaluate: Evaluate, chains: int) -> np.ndarray:
    """Estimate the evidence lower bound of the normal approximation around each stop."""
    generator, dim = np.random.default_rng(0), len(stops[0].position)
    draws = [stop.draw(generator.normal(size=(DRAWS_PER_CANDIDATE, dim))) for stop in stops]
    potentials, _, _ = evaluate_in_batches(evaluate, np.concatenate(draws), chains)
    means = potentials.reshape(len(stops), -1).mean(axis=1)
    bounds = np.array([stop.log_volume for stop in stops]) - means
    return np.where(np.isfinite(bounds), bounds, -np.inf)


def _behind_a_barrier(left: _Stop, end: _Stop, evaluate: Evaluate, points: int) -> bool:
    """Return whether the potential rises on the line from one end to a deeper one.

    If it only falls, the descent has not arrived at a mode of its own.
    """
    fractions = np.linspace(0, 1, points + 2)[1:-1, np.newaxis]
    potentials, _ = evaluate(left.position + fractions * (end.position - left.position))
    return bool(np.max(potentials) > left.potential)


def _in_relevant_modes(descents: list[_Descent]) -> list[_Descent]:
    """Return the descents that did not end in a local mode with negligible probability mass.

    The depth of a mode is known, but its volume depends on the estimated curvature. A mode is
    therefore negligible only if it is so both by its depth alone and by its depth and volume.
    """
    negligible = 10 + len(descents[0].end.position)
    depths = np.array([-descent.end.potential for descent in descents])
    log_masses = np.array([descent.end.log_mass for descent in descents])
    keep = (depths >= depths.max() - negligible) | (log_masses >= log_masses.max() - negligible)
    return [descent for descent, relevant in zip(descents, keep, strict=True) if relevant]


def _pooled_covariance(descents: list[_Descent]) -> np.ndarray:
    """Return the mean inverse curvature over chains, or its diagonal in too many dimensions."""
    dim = len(descents[0].end.position)
    curvatures = [descent.end.curvature for descent in descents]
    if dim > MOST_DENSE_DIMENSIONS:
        scales = [curvature.scale for curvature in curvatures if curvature.known]
        return np.full(dim, np.mean(scales) if scales else 1.0)
    pooled = np.mean([curvature.covariance_times(np.eye(dim)) for curvature in curvatures], axis=0)
    return (pooled + pooled.T) / 2
