"""The inverse curvature of a potential along a descent, as L-BFGS estimates it from the last moves.

It is a multiple of the identity, except on the span of the moves and of the changes of the gradient
that they caused. As a covariance it describes a normal approximation of the posterior.
"""

from dataclasses import dataclass

import numpy as np

MEMORY = 60
"""Number of last moves that describe the curvature. In fifty and more dimensions, descents take
fewer evaluations with 60 than with 20; in few dimensions it makes no difference."""
LEAST_COSINE = 1e-10
"""Cosine between a move and the change of the gradient below which the move tells no curvature."""


@dataclass(frozen=True)
class Curvature:
    """The last moves of a descent, and the changes of the gradient in the same moves."""

    moves: tuple[np.ndarray, ...] = ()
    changes: tuple[np.ndarray, ...] = ()

    def after(self, move: np.ndarray, change: np.ndarray) -> "Curvature":
        """Return the curvature after one more move; one along negative curvature adds nothing."""
        if move @ change <= LEAST_COSINE * np.linalg.norm(move) * np.linalg.norm(change):
            return self
        return Curvature((*self.moves, move)[-MEMORY:], (*self.changes, change)[-MEMORY:])

    def of_last(self, number: int) -> "Curvature":
        """Return the curvature that the last moves alone tell."""
        return Curvature(self.moves[-number:], self.changes[-number:])

    @property
    def known(self) -> bool:
        """Whether any move has shown something of the curvature."""
        return bool(self.moves)

    @property
    def scale(self) -> float:
        """The inverse curvature along the last change of the gradient; 1 before the first move."""
        if not self.known:
            return 1.0
        move, change = self.moves[-1], self.changes[-1]
        return float((move @ change) / (change @ change))

    def covariance_times(self, vectors: np.ndarray) -> np.ndarray:
        """Apply the inverse curvature to a vector, or to each row of a matrix."""
        rest, weights = np.array(vectors, float), []
        for move, change in zip(self.moves[::-1], self.changes[::-1], strict=True):
            weights.append((rest @ move) / (move @ change))
            rest -= np.multiply.outer(weights[-1], change)
        rest *= self.scale
        for move, change, weight in zip(self.moves, self.changes, weights[::-1], strict=True):
            rest += np.multiply.outer(weight - (rest @ change) / (move @ change), move)
        return rest

    def log_volume(self, dim: int) -> float:
        """Return half the log determinant of the covariance."""
        basis, inside = self._span(dim)
        outside = (dim - basis.shape[1]) * np.log(self.scale)
        return 0.5 * float(np.linalg.slogdet(inside)[1] + outside)

    def colour(self, noise: np.ndarray) -> np.ndarray:
        """Turn rows of standard normal noise into rows with this covariance."""
        basis, inside = self._span(noise.shape[1])
        values, vectors = np.linalg.eigh((inside + inside.T) / 2)
        root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
        along = noise @ basis
        return np.asarray(np.sqrt(self.scale) * (noise - along @ basis.T) + along @ root @ basis.T)

    def _span(self, dim: int) -> tuple[np.ndarray, np.ndarray]:
        """Return orthonormal columns over the moves and changes, and the covariance on them."""
        if not self.known:
            return np.empty((dim, 0)), np.empty((0, 0))
        basis, _ = np.linalg.qr(np.stack([*self.moves, *self.changes]).T)
        return basis, self.covariance_times(basis.T) @ basis
