"""The quadratic model: a linear gradient with a symmetric matrix, fitted by least squares.

A posterior with tall data is close to Gaussian, so most of its gradient is linear. A network would
need most of its capacity for that part. A linear map with a symmetric matrix is conservative, needs
no training, and is determined by a few points per dimension. Up to `MOST_DENSE_DIMENSIONS` the
matrix is dense; beyond, it is a diagonal plus a symmetric matrix of low rank.
"""

from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from nnghmc.errors import GradientDataError, check_fields, positive_integer, positive_number
from nnghmc.surrogates.data import GradientData
from nnghmc.surrogates.learned import Learned, Learning
from nnghmc.surrogates.parts.regression import coordinate_slopes, symmetric_regression
from nnghmc.surrogates.parts.whitening import Whitening
from nnghmc.surrogates.training import Lesson, Training

MOST_DENSE_DIMENSIONS = 1000
"""Largest number of dimensions with a dense matrix."""
ALTERNATIONS = 4
"""Number of times the diagonal and the low-rank matrix are fitted in turn."""
LEAST_CURVATURE = 1e-3
"""Lower bound on curvatures, as a fraction of their median. Trajectories would diverge along a
direction of negative curvature, and would not return along one without curvature."""


class QuadraticPotential(Learned):
    """The potential c·(q - m) + ½ (q - m)ᵀ H (q - m) with symmetric positive definite H = TᵀT.

    `hessian` is H where it is dense. Where it is None, H is applied as the whitening T followed by
    its transpose.
    """

    slope: Float[Array, " dim"]
    whitening: Whitening
    hessian: Float[Array, "dim dim"] | None

    @property
    def conservative(self) -> bool:
        """Always True: the matrix is symmetric."""
        return True

    def potential(self, position: Float[Array, " dim"]) -> Float[Array, ""]:
        """Evaluate the learned potential, which is known up to a constant."""
        white = self.whitening.apply(position)
        return self.slope @ (position - self.whitening.centre) + 0.5 * white @ white

    def gradient(self, position: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """Evaluate the learned gradient g(q) = c + H (q - m)."""
        if self.hessian is None:
            return self.slope + self.whitening.pull(self.whitening.apply(position))
        return self.slope + self.hessian @ (position - self.whitening.centre)


@dataclass(frozen=True)
class Quadratic:
    """A Gaussian approximation learned from gradients, for posteriors with tall data.

    Args:
        ridge: ridge weight that shrinks the matrix, as a fraction of unit variance in the
            principal coordinates of the points. In these coordinates the matrix is shrunk towards
            a diagonal one.
        rank: number of directions beyond the diagonal, for more than 1,000 dimensions.
    """

    ridge: float = 1e-3
    rank: int = 100
    training: ClassVar[Training] = Training()

    def __post_init__(self) -> None:
        check_fields(self, ridge=positive_number, rank=positive_integer)

    def learn(self, lesson: Lesson) -> Learning:
        """Solve for the matrix, without epochs and without random choices."""
        return Learning(self.fit(lesson.data))

    def fit(self, data: GradientData) -> QuadraticPotential:
        """Fit the quadratic potential whose gradient is closest to the gradients of the data."""
        slope = jnp.asarray(data.gradients.mean(axis=0))
        if data.dim > MOST_DENSE_DIMENSIONS:
            return QuadraticPotential(slope, self._low_rank(data).on_device(), None)
        whitening = self._dense(data)
        root = whitening.pull(np.eye(data.dim))
        return QuadraticPotential(slope, whitening.on_device(), jnp.asarray(root.T @ root))

    def _dense(self, data: GradientData) -> Whitening:
        _require_points(data, data.dim)
        centre, scale = data.positions.mean(axis=0), data.positions.std(axis=0)
        positions = (data.positions - centre) / scale
        gradients = (data.gradients - data.gradients.mean(axis=0)) * scale
        matrix = _positive_fit(positions, gradients, self.ridge)
        return Whitening.of_matrix(centre, scale, np.eye(data.dim), matrix)

    def _low_rank(self, data: GradientData) -> Whitening:
        """Fit a diagonal, and in turn a matrix on the directions that it describes worst.

        The first scales give positions and gradients the same variance in each coordinate. A
        direction that the diagonal describes badly then has a large variance in one or the other.
        After that, each coordinate gets its slope from the part of the gradient that the matrix
        does not explain, the matrix is fitted again with the new scales, and so on.
        """
        _require_points(data, 4)
        rank = min(self.rank, len(data) // 4)
        centre = data.positions.mean(axis=0)
        positions = data.positions - centre
        gradients = data.gradients - data.gradients.mean(axis=0)
        spread = np.maximum(gradients.std(axis=0), np.finfo(float).tiny)
        scale = np.sqrt(positions.std(axis=0) / spread)
        whitening = _with_directions(centre, scale, positions, gradients, rank, self.ridge)
        for _ in range(ALTERNATIONS):
            diagonal = positions / np.asarray(whitening.scale) ** 2
            explained = whitening.pull(whitening.apply(data.positions)) - diagonal
            slopes = coordinate_slopes(positions, gradients - explained)
            scale = 1 / np.sqrt(_bounded_below(slopes))
            whitening = _with_directions(centre, scale, positions, gradients, rank, self.ridge)
        return whitening


def _require_points(data: GradientData, dimensions: int) -> None:
    if len(data) <= dimensions:
        raise GradientDataError(
            f"a quadratic model of {data.dim} dimensions needs more than {dimensions} points, "
            f"got {len(data)}. Collect more draws, or take more steps per draw."
        )


def _with_directions(
    centre: np.ndarray,
    scale: np.ndarray,
    positions: np.ndarray,
    gradients: np.ndarray,
    rank: int,
    ridge: float,
) -> Whitening:
    """Fit a matrix on the directions that a diagonal with these scales describes worst."""
    positions, gradients = positions / scale, gradients * scale
    halves = [_leading_directions(part, rank // 2 + 1) for part in (positions, gradients)]
    basis, _ = np.linalg.qr(np.concatenate(halves, axis=1))
    matrix = _positive_fit(positions @ basis, gradients @ basis, ridge)
    return Whitening.of_matrix(centre, scale, basis, matrix)


def _positive_fit(positions: np.ndarray, gradients: np.ndarray, ridge: float) -> np.ndarray:
    """Find the symmetric positive definite H with gradients ≈ positions H.

    Both arrays have mean zero. The fit is done in coordinates where the positions have unit
    covariance. There a narrow direction, which has large gradients, counts as much as a wide one,
    and for a Gaussian H is the identity.
    """
    values, vectors = np.linalg.eigh(positions.T @ positions / len(positions))
    spread = np.sqrt(np.maximum(values, 1e-14 * values.max()))
    unit_positions, unit_gradients = positions @ vectors / spread, (gradients @ vectors) * spread
    slopes = coordinate_slopes(unit_positions, unit_gradients)
    matrix = symmetric_regression(unit_positions, unit_gradients, ridge, slopes)
    curvatures, axes = np.linalg.eigh(matrix)
    positive = (axes * _bounded_below(curvatures)) @ axes.T
    return vectors @ (positive / np.outer(spread, spread)) @ vectors.T


def _bounded_below(curvatures: np.ndarray) -> np.ndarray:
    median = np.median(np.abs(curvatures))
    return np.maximum(curvatures, LEAST_CURVATURE * (median if median > 0 else 1.0))


def _leading_directions(rows: np.ndarray, number: int) -> np.ndarray:
    """Find orthonormal columns along which the rows vary most, from a random sketch of the rows."""
    generator = np.random.default_rng(0)
    sketch = generator.normal(size=(min(len(rows), number + 10), len(rows))) @ rows
    sketch = (sketch @ rows.T) @ rows  # a power iteration separates leading directions
    return np.linalg.svd(sketch, full_matrices=False)[2][:number].T
