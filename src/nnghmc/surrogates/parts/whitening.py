"""Whitens: maps positions linearly to coordinates where a posterior is close to standard normal.

The map is z = T (q - m) with T = (I + Q diag(r - 1) Qᵀ) S⁻¹. It divides each coordinate by its
scale, and stretches by r along the orthonormal columns of Q. With as many columns as dimensions, T
is a diagonal scaling followed by any symmetric positive definite matrix. With fewer columns, that
matrix is the identity plus one of low rank.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from nnghmc.surrogates.parts.storable import Storable


class Whitening(Storable):
    """The map to z = T (q - m); every method takes a single vector or rows of vectors."""

    centre: Float[Array | np.ndarray, " dim"]
    scale: Float[Array | np.ndarray, " dim"]
    basis: Float[Array | np.ndarray, "dim rank"]
    stretch: Float[Array | np.ndarray, " rank"]

    def apply(self, positions: Any) -> Any:
        """Map positions to whitened coordinates, z = T (q - m)."""
        return self._stretched((positions - self.centre) / self.scale, self.stretch)

    def pull(self, gradients: Any) -> Any:
        """Turn gradients γ with respect to z into gradients with respect to q: Tᵀ γ.

        For a weight matrix W with one row per unit, the result is W T.
        """
        return self._stretched(gradients, self.stretch) / self.scale

    def push(self, gradients: Any) -> Any:
        """Turn gradients g with respect to q into gradients with respect to z: T⁻ᵀ g."""
        return self._stretched(gradients * self.scale, 1 / self.stretch)

    def _stretched(self, vectors: Any, stretch: Any) -> Any:
        return vectors + ((vectors @ self.basis) * (stretch - 1)) @ self.basis.T

    def on_host(self) -> "Whitening":
        """Return the same map with NumPy arrays, which maps NumPy arrays to NumPy arrays."""
        parts = (self.centre, self.scale, self.basis, self.stretch)
        return Whitening(*(np.asarray(part) for part in parts))

    def on_device(self) -> "Whitening":
        """Return the same map with JAX arrays."""
        parts = (self.centre, self.scale, self.basis, self.stretch)
        return Whitening(*(jnp.asarray(part) for part in parts))

    @classmethod
    def of_matrix(
        cls, centre: np.ndarray, scale: np.ndarray, basis: np.ndarray, matrix: np.ndarray
    ) -> "Whitening":
        """Whiten a quadratic potential, whose `matrix` is its curvature in the scaled basis.

        In the new coordinates the quadratic is ½|z|² along the basis.
        """
        values, vectors = np.linalg.eigh(matrix)
        values = np.maximum(values, np.finfo(float).eps * values.max())
        return cls(centre, scale, basis @ vectors, np.sqrt(values))

    @classmethod
    def of_draws(cls, positions: np.ndarray, weights: np.ndarray | None = None) -> "Whitening":
        """Whiten by the covariance of positions, with correlations shrunk towards zero.

        The shrinkage dim / (dim + points) is the fraction of the estimate that is noise. With
        `weights`, positions count by their weights.
        """
        number, dim = positions.shape
        weights = np.ones(number) if weights is None else weights
        centre = np.average(positions, axis=0, weights=weights)
        away = positions - centre
        covariance = (away * weights[:, np.newaxis]).T @ away / weights.sum()
        scale = np.sqrt(np.diag(covariance))
        shrinkage = dim / (dim + weights.sum() ** 2 / (weights**2).sum())
        correlations = covariance / np.outer(scale, scale)
        shrunk = (1 - shrinkage) * correlations + shrinkage * np.eye(dim)
        return cls.of_matrix(centre, scale, np.eye(dim), np.linalg.inv(shrunk))

    @classmethod
    def of_metric(cls, centre: np.ndarray, inverse_mass_matrix: np.ndarray) -> "Whitening":
        """Whiten by an inverse mass matrix, which is an estimate of the posterior covariance."""
        if inverse_mass_matrix.ndim == 1:
            dim = len(inverse_mass_matrix)
            return cls(centre, np.sqrt(inverse_mass_matrix), np.empty((dim, 0)), np.empty(0))
        scale = np.sqrt(np.diag(inverse_mass_matrix))
        correlations = inverse_mass_matrix / np.outer(scale, scale)
        return cls.of_matrix(centre, scale, np.eye(len(scale)), np.linalg.inv(correlations))
