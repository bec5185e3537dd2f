"""Walks along the true potential, in whitened coordinates: by its dynamics, or along its ridges.

Many walks of one kind advance together. Each asks for the truth at one position at a time, so that
walks of all kinds can share full batches of evaluations.
"""

from typing import Protocol

import numpy as np

from nnghmc.explore.adaptation import STEEPEST

LEAST_ALIGNMENT = 1e-3
"""Least cosine between a step and the change of the gradient that says something of a curvature."""
STRIDE, LONGEST_STRIDE = 0.7, 1.0
"""First and longest stride along a ridge, in standard deviations."""
SMALL_CORRECTION, LONGER = 0.3, 1.5
"""A correction below this share of the stride makes the next stride longer, by this factor."""
NEIGHBOURS, NEIGHBOURS_PER_DIMENSION = 40, 4
"""Number of draws that tell the shape of the posterior around one of them."""
LEAST_SPREAD = 0.01
"""Least variance in any direction around a draw, relative to the mean over all directions."""


class Walks(Protocol):
    """Walks that advance together.

    Attributes:
        positions: where the truth is to be asked next, one row per walk.
        are_going: mask of the walks that have not ended.
    """

    positions: np.ndarray
    are_going: np.ndarray

    def advance(self, gradients: np.ndarray, have_mass: np.ndarray) -> None:
        """Go on, with the gradients at the positions and a mask of positions that hold mass.

        What is given for walks that have ended is ignored.
        """


class Trajectories:
    """Leapfrog trajectories, which keep the energy of their momenta, with or without mass."""

    def __init__(self, starts: np.ndarray, velocities: np.ndarray, step_size: float, steps: int):
        """Begin trajectories of a unit mass matrix with so many leapfrog steps."""
        self.positions, self.velocities = starts, velocities
        self.step_size, self.steps = step_size, steps
        self.are_going = np.full(len(starts), True)
        self._made = 0

    def advance(self, gradients: np.ndarray, have_mass: np.ndarray) -> None:
        """Make a leapfrog step; a trajectory whose next position is not finite ends."""
        if self._made == self.steps:
            self.are_going[:] = False
            return
        kick = self.step_size * gradients
        with np.errstate(over="ignore", invalid="ignore"):  # far out; these trajectories end
            self.velocities = self.velocities - (kick if self._made else kick / 2)
            ahead = self.positions + self.step_size * self.velocities
        self._made += 1
        self.are_going &= np.isfinite(ahead).all(axis=1)
        self.positions = np.where(self.are_going[:, None], ahead, self.positions)


class Ridges:
    """Walks along ridges of a density, or out of its typical set where there is no ridge.

    Each stride leads on in the direction of the last one. A Newton step across that direction
    corrects it, with an inverse curvature that the gradients on the way improve. If the correction
    is longer than the stride, the walk goes back and makes a shorter one. It ends where it needs no
    long correction and there is no mass.
    """

    def __init__(self, starts: np.ndarray, covariances: np.ndarray):
        """Begin walks that lead away from the origin.

        Args:
            starts: where the walks begin, relative to the middle of the posterior.
            covariances: covariance of the posterior around each start, shape (walks, dim, dim).
        """
        self.positions = starts
        self.are_going = np.full(len(starts), True)
        self._inverse_curvature = covariances
        self._directions = _normed(np.einsum("nij,nj->ni", covariances, starts))
        self._strides = np.full(len(starts), STRIDE)
        self._settled, self._corrected = starts, starts
        self._gradients = np.full(starts.shape, np.nan)
        self._has_begun = False

    def advance(self, gradients: np.ndarray, have_mass: np.ndarray) -> None:
        """Settle where a stride has led, or go back, and make the next stride."""
        is_usable = np.abs(gradients).max(axis=1) < STEEPEST
        gradients = np.where(is_usable[:, None], gradients, 0.0)
        if not self._has_begun:
            self._gradients, self._has_begun = gradients, True
        else:
            self._learn_curvature(np.where(is_usable[:, None], gradients - self._gradients, 0.0))
            self._settle(gradients, have_mass & is_usable)
        corrections = self._corrections(self._gradients)
        self.positions = self._settled + corrections + self._strides[:, None] * self._directions

    def _learn_curvature(self, changes: np.ndarray) -> None:
        """Update the inverse curvature by the BFGS formula, where it stays positive."""
        steps = self.positions - self._settled
        products = np.sum(steps * changes, axis=1)
        sizes = np.linalg.norm(steps, axis=1) * np.linalg.norm(changes, axis=1)
        rises = products > LEAST_ALIGNMENT * sizes
        factors = np.where(rises, 1 / np.where(rises, products, 1.0), 0.0)[:, None, None]
        changes = np.where(rises[:, None], changes, 0.0)
        left = np.eye(steps.shape[1]) - factors * steps[:, :, None] * changes[:, None, :]
        updated = left @ self._inverse_curvature @ left.swapaxes(1, 2)
        updated = updated + factors * steps[:, :, None] * steps[:, None, :]
        usable = (rises & np.isfinite(updated).all(axis=(1, 2)))[:, None, None]
        self._inverse_curvature = np.where(usable, updated, self._inverse_curvature)

    def _settle(self, gradients: np.ndarray, have_mass: np.ndarray) -> None:
        """Settle where the correction is short, and choose the next strides; end without mass."""
        corrections = self._corrections(gradients)
        lengths = np.linalg.norm(corrections, axis=1)
        is_short = lengths <= self._strides
        self.are_going &= have_mass | ~is_short
        corrected, rows = self.positions + corrections, is_short[:, None]
        self._directions = np.where(rows, _normed(corrected - self._corrected), self._directions)
        self._corrected = np.where(rows, corrected, self._corrected)
        self._settled = np.where(rows, self.positions, self._settled)
        self._gradients = np.where(rows, gradients, self._gradients)
        factors = np.where(lengths < SMALL_CORRECTION * self._strides, LONGER, 1.0)
        strides = self._strides * np.where(is_short, factors, 0.5)
        self._strides = np.minimum(strides, LONGEST_STRIDE)

    def _corrections(self, gradients: np.ndarray) -> np.ndarray:
        """Return the Newton steps across the directions of the walks."""
        newton = -np.einsum("nij,nj->ni", self._inverse_curvature, gradients)
        along = np.einsum("nij,nj->ni", self._inverse_curvature, self._directions)
        sizes = np.maximum(np.sum(self._directions * along, axis=1), np.finfo(float).tiny)
        return newton - along * (np.sum(self._directions * newton, axis=1) / sizes)[:, None]


def _normed(rows: np.ndarray) -> np.ndarray:
    """Return rows of length 1; a row of zeros stays one."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(lengths > 0, lengths, 1.0)


def covariances_around(starts: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """Return the covariance of the draws next to each start, made safely positive."""
    dim = draws.shape[1]
    number = min(len(draws), max(NEIGHBOURS, NEIGHBOURS_PER_DIMENSION * dim))
    found = []
    for start in starts:
        distances = np.linalg.norm(draws - start, axis=1)
        near = draws[np.argpartition(distances, number - 1)[:number]]
        away = near - near.mean(axis=0)
        covariance = away.T @ away / number
        found.append(covariance + LEAST_SPREAD * np.trace(covariance) / dim * np.eye(dim))
    return np.array(found)
