"""Whitening: linear coordinates in which a posterior is close to standard normal.

z = T (q - m) with T = (I + Q diag(r - 1) Qᵀ) S⁻¹: a scale for each coordinate, and along the
orthonormal columns of Q a further stretch r. With as many columns as dimensions this is any
symmetric positive definite matrix after scaling; with fewer, diagonal plus low rank.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from nnghmc.surrogates.storable import Storable


class Whitening(Storable):
    """The coordinates z = T (q - m); every method takes single vectors or rows of them."""

    centre: Float[Array | np.ndarray, " dim"]
    scale: Float[Array | np.ndarray, " dim"]
    basis: Float[Array | np.ndarray, "dim rank"]
    stretch: Float[Array | np.ndarray, " rank"]

    def apply(self, positions: Any) -> Any:
        """Positions in whitened coordinates, z = T (q - m)."""
        return self._stretched((positions - self.centre) / self.scale, self.stretch)

    def pull(self, gradients: Any) -> Any:
        """Gradients by z as gradients by q, Tᵀ γ. Of a matrix with a row a unit: W T."""
        return self._stretched(gradients, self.stretch) / self.scale

    def push(self, gradients: Any) -> Any:
        """Gradients by q as gradients by z, T⁻ᵀ g."""
        return self._stretched(gradients * self.scale, 1 / self.stretch)

    def _stretched(self, vectors: Any, stretch: Any) -> Any:
        return vectors + ((vectors @ self.basis) * (stretch - 1)) @ self.basis.T

    def on_host(self) -> "Whitening":
        """The same with NumPy arrays: rows of data then stay on the host."""
        parts = (self.centre, self.scale, self.basis, self.stretch)
        return Whitening(*(np.asarray(part) for part in parts))

    def on_device(self) -> "Whitening":
        """The same with JAX arrays."""
        parts = (self.centre, self.scale, self.basis, self.stretch)
        return Whitening(*(jnp.asarray(part) for part in parts))

    @classmethod
    def of_matrix(
        cls, centre: np.ndarray, scale: np.ndarray, basis: np.ndarray, matrix: np.ndarray
    ) -> "Whitening":
        """Coordinates in which a quadratic of this curvature, in the scaled basis, is ½|z|²."""
        values, vectors = np.linalg.eigh(matrix)
        values = np.maximum(values, np.finfo(float).eps * values.max())
        return cls(centre, scale, basis @ vectors, np.sqrt(values))

    @classmethod
    def of_draws(cls, positions: np.ndarray) -> "Whitening":
        """From the covariance of positions, its correlations drawn towards zero where they are few.

        The share of the shrinkage is that of the noise: dim / (dim + points).
        """
        number, dim = positions.shape
        centre, scale = positions.mean(axis=0), positions.std(axis=0)
        correlations = np.corrcoef(positions, rowvar=False).reshape(dim, dim)
        shrinkage = dim / (dim + number)
        shrunk = (1 - shrinkage) * correlations + shrinkage * np.eye(dim)
        return cls.of_matrix(centre, scale, np.eye(dim), np.linalg.inv(shrunk))

    @classmethod
    def of_metric(cls, centre: np.ndarray, inverse_mass_matrix: np.ndarray) -> "Whitening":
        """From an inverse mass matrix, which is an estimate of the posterior covariance."""
        if inverse_mass_matrix.ndim == 1:
            dim = len(inverse_mass_matrix)
            return cls(centre, np.sqrt(inverse_mass_matrix), np.empty((dim, 0)), np.empty(0))
        scale = np.sqrt(np.diag(inverse_mass_matrix))
        correlations = inverse_mass_matrix / np.outer(scale, scale)
        return cls.of_matrix(centre, scale, np.eye(len(scale)), np.linalg.inv(correlations))
