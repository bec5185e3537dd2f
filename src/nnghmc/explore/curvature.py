"""The inverse curvature of a potential along a descent, as L-BFGS estimates it from the last moves.

It is a multiple of the identity, except on the span of the moves and of the changes of the gradient
that they caused. As a covariance it describes a normal approximation of the posterior.
"""

from dataclasses import dataclass

import numpy as np

MEMORY = 60
"""Number of last moves that describe the curvature. With 60 instead of 20, correlated posteriors of
fifty and more dimensions take two thirds of the evaluations."""
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
        """Return half the log determinant of the covariance.

        That of the limited-memory BFGS formula is known in closed form. With moves s and changes y
        as rows, D the diagonal of s yᵀ and L what lies below it, it is that of s sᵀ / scale +
        L D⁻¹ Lᵀ, divided by that of D, times the scale in all dimensions.
        """
        if not self.known:
            return 0.0
        moves, changes = np.array(self.moves), np.array(self.changes)
        lengths = np.linalg.norm(moves, axis=1, keepdims=True)
        moves, changes = moves / lengths, changes / lengths
        products = moves @ changes.T
        own, below = np.diag(products), np.tril(products, -1)
        inside = np.linalg.slogdet(moves @ moves.T / self.scale + (below / own) @ below.T)[1]
        return 0.5 * float(dim * np.log(self.scale) + inside - np.log(own).sum())

    def colour(self, noise: np.ndarray) -> np.ndarray:
        """Turn rows of standard normal noise into rows with this covariance."""
        if not self.known:
            return noise
        basis, _ = np.linalg.qr(np.stack([*self.moves, *self.changes]).T)
        inside = self.covariance_times(basis.T) @ basis
        values, vectors = np.linalg.eigh((inside + inside.T) / 2)
        root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
        along = noise @ basis
        return np.asarray(np.sqrt(self.scale) * (noise - along @ basis.T) + along @ root @ basis.T)
