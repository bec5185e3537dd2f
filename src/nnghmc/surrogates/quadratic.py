"""The quadratic model: the best linear gradient with a symmetric matrix, by least squares.

A posterior of tall data is close to Gaussian, and there a network must spend itself on the linear
part of the gradient, or fail. A linear map with a symmetric matrix is conservative, needs no
training, and is found from a few points a dimension.
"""

from dataclasses import dataclass

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from nnghmc.errors import GradientDataError, positive_number
from nnghmc.surrogates.gradient_data import GradientData
from nnghmc.surrogates.scaling import Standardisation
from nnghmc.surrogates.training import Training


class QuadraticPotential(eqx.Module):
    """U(q) = c·(q - m) + ½ (q - m)ᵀ H (q - m), with a symmetric positive definite H."""

    centre: Float[Array, " dim"]
    slope: Float[Array, " dim"]
    hessian: Float[Array, "dim dim"]

    def potential(self, position: Float[Array, " dim"]) -> Float[Array, ""]:
        """The learned potential, up to a constant."""
        away = position - self.centre
        return self.slope @ away + 0.5 * away @ self.hessian @ away

    def gradient(self, position: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """The learned gradient g(q) = c + H (q - m)."""
        return self.slope + self.hessian @ (position - self.centre)


@dataclass(frozen=True)
class Quadratic:
    """A Gaussian approximation learned from gradients, for posteriors of tall data.

    Args:
        ridge: how strongly the matrix is drawn towards its diagonal where the points say little,
            relative to their variance.
    """

    ridge: float = 1e-3

    def __post_init__(self) -> None:
        positive_number("ridge", self.ridge)

    def learn(
        self, data: GradientData, key: PRNGKeyArray, training: Training
    ) -> tuple[QuadraticPotential, np.ndarray]:
        """Solve for the matrix; there are no epochs and no randomness."""
        if len(data) <= data.dim:
            raise GradientDataError(
                f"a quadratic model of {data.dim} dimensions needs more than {data.dim} points, "
                f"got {len(data)}. Collect more draws, or take more steps a draw."
            )
        frame = Standardisation.of(data.positions)
        centre, scale = np.asarray(frame.mean), np.asarray(frame.scale)
        slope = data.gradients.mean(axis=0)
        positions = frame.apply(data.positions)
        matrix = _symmetric_fit(positions, (data.gradients - slope) * scale, self.ridge)
        hessian = _positive_definite(matrix) / np.outer(scale, scale)
        parts = (jnp.asarray(part) for part in (centre, slope, hessian))
        return QuadraticPotential(*parts), np.empty(0)


def _symmetric_fit(x: np.ndarray, y: np.ndarray, ridge: float) -> np.ndarray:
    """The symmetric H that minimises |y - x H|² + ridge |H - diagonal|², x and y centred.

    With S = xᵀx / n and C = xᵀy / n the condition is S H + H S = C + Cᵀ, which decouples in the
    eigenvectors of S. The ridge acts on what is left after each coordinate's own slope.
    """
    variances = np.maximum((x**2).mean(axis=0), np.finfo(float).tiny)
    diagonal = (x * y).mean(axis=0) / variances
    covariance = x.T @ x / len(x)
    cross = x.T @ (y - x * diagonal) / len(x)
    values, vectors = np.linalg.eigh(covariance)
    rotated = vectors.T @ (cross + cross.T) @ vectors
    rest = rotated / (values[:, np.newaxis] + values + 2 * ridge)
    return np.diag(diagonal) + vectors @ rest @ vectors.T


def _positive_definite(matrix: np.ndarray) -> np.ndarray:
    """The matrix with its eigenvalues kept above a thousandth of their median size.

    A direction of negative curvature would carry every trajectory away.
    """
    values, vectors = np.linalg.eigh(matrix)
    floor = 1e-3 * np.median(np.abs(values))
    return (vectors * np.maximum(values, floor)) @ vectors.T
