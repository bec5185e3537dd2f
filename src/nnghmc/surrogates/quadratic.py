"""The quadratic model: the best linear gradient with a symmetric matrix, by least squares.

A posterior of tall data is close to Gaussian, and there a network must spend itself on the linear
part of the gradient, or fail. A linear map with a symmetric matrix is conservative, needs no
training, and is found from a few points a dimension. Up to about a thousand dimensions the matrix
is dense; beyond, it is a diagonal and a symmetric matrix of low rank.
"""

from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from nnghmc.errors import GradientDataError, check_fields, positive_integer, positive_number
from nnghmc.surrogates.gradient_data import GradientData
from nnghmc.surrogates.learned import Learned, Learning
from nnghmc.surrogates.training import Lesson, Training
from nnghmc.surrogates.whitening import Whitening

MOST_DENSE_DIMENSIONS = 1000
TURNS = 4
SMALLEST_SHARE = 1e-3
"""Curvatures are kept above this share of their median: a negative one would carry trajectories
away, and a flat one would never bring them back."""


class QuadraticPotential(Learned):
    """U(q) = c·(q - m) + ½ (q - m)ᵀ H (q - m), with a symmetric positive definite H = TᵀT.

    `hessian` is H where it is dense; else H is applied as the whitening T and its transpose.
    """

    slope: Float[Array, " dim"]
    whitening: Whitening
    hessian: Float[Array, "dim dim"] | None

    @property
    def conservative(self) -> bool:
        """Always: the matrix is symmetric."""
        return True

    def potential(self, position: Float[Array, " dim"]) -> Float[Array, ""]:
        """The learned potential, up to a constant."""
        white = self.whitening.apply(position)
        return self.slope @ (position - self.whitening.centre) + 0.5 * white @ white

    def gradient(self, position: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """The learned gradient g(q) = c + H (q - m)."""
        if self.hessian is None:
            return self.slope + self.whitening.pull(self.whitening.apply(position))
        return self.slope + self.hessian @ (position - self.whitening.centre)


@dataclass(frozen=True)
class Quadratic:
    """A Gaussian approximation learned from gradients, for posteriors of tall data.

    Args:
        ridge: how strongly the matrix is drawn towards the inverse covariance of the points,
            relative to what they say.
        rank: beyond 1,000 dimensions, the number of directions that get more than a diagonal.
    """

    ridge: float = 1e-3
    rank: int = 100
    training: ClassVar[Training] = Training()

    def __post_init__(self) -> None:
        check_fields(self, ridge=positive_number, rank=positive_integer)

    def learn(self, lesson: Lesson) -> Learning:
        """Solve for the matrix; there are no epochs and no randomness."""
        return Learning(self.fit(lesson.data))

    def fit(self, data: GradientData) -> QuadraticPotential:
        """The quadratic potential whose gradient is closest to the data's."""
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
        """A diagonal, and a matrix on the directions that vary most, found in turns.

        The first scales make positions and gradients vary alike, so that a direction stands out in
        one or the other where a diagonal does not do it justice. What the matrix explains is then
        taken away, each coordinate gets its own slope from the rest, and so on.
        """
        _require_points(data, 4)
        rank = min(self.rank, len(data) // 4)
        centre = data.positions.mean(axis=0)
        away = data.positions - centre
        gradients = data.gradients - data.gradients.mean(axis=0)
        spread = np.maximum(gradients.std(axis=0), np.finfo(float).tiny)
        whitening = _with_directions(
            centre, np.sqrt(away.std(axis=0) / spread), away, gradients, rank, self.ridge
        )
        for _ in range(TURNS):
            diagonal = away / np.asarray(whitening.scale) ** 2
            explained = whitening.pull(whitening.apply(data.positions)) - diagonal
            slopes = (away * (gradients - explained)).mean(axis=0) / (away**2).mean(axis=0)
            scale = 1 / np.sqrt(_floored(slopes))
            whitening = _with_directions(centre, scale, away, gradients, rank, self.ridge)
        return whitening


def _require_points(data: GradientData, dimensions: int) -> None:
    if len(data) <= dimensions:
        raise GradientDataError(
            f"a quadratic model of {data.dim} dimensions needs more than {dimensions} points, "
            f"got {len(data)}. Collect more draws, or take more steps a draw."
        )


def _with_directions(
    centre: np.ndarray,
    scale: np.ndarray,
    away: np.ndarray,
    gradients: np.ndarray,
    rank: int,
    ridge: float,
) -> Whitening:
    """A diagonal of these scales, and a matrix on the directions that stand out against it."""
    positions, gradients = away / scale, gradients * scale
    halves = [_leading_directions(part, rank // 2 + 1) for part in (positions, gradients)]
    basis, _ = np.linalg.qr(np.concatenate(halves, axis=1))
    matrix = _positive_fit(positions @ basis, gradients @ basis, ridge)
    return Whitening.of_matrix(centre, scale, basis, matrix)


def _positive_fit(x: np.ndarray, y: np.ndarray, ridge: float) -> np.ndarray:
    """The symmetric positive definite H of y ≈ x H, x and y centred, directions all alike.

    It is found where x has unit covariance: a narrow direction, which has large gradients, then
    counts as much as a wide one, and for a Gaussian H is the identity there.
    """
    values, vectors = np.linalg.eigh(x.T @ x / len(x))
    spread = np.sqrt(np.maximum(values, 1e-14 * values.max()))
    matrix = _symmetric_fit(x @ vectors / spread, (y @ vectors) * spread, ridge)
    curvatures, axes = np.linalg.eigh(matrix)
    positive = (axes * _floored(curvatures)) @ axes.T
    return vectors @ (positive / np.outer(spread, spread)) @ vectors.T


def _floored(curvatures: np.ndarray) -> np.ndarray:
    middle = np.median(np.abs(curvatures))
    return np.maximum(curvatures, SMALLEST_SHARE * (middle if middle > 0 else 1.0))


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


def _leading_directions(rows: np.ndarray, number: int) -> np.ndarray:
    """Orthonormal columns along which rows vary most, from a random sketch of them."""
    generator = np.random.default_rng(0)
    sketch = generator.normal(size=(min(len(rows), number + 10), len(rows))) @ rows
    sketch = (sketch @ rows.T) @ rows  # one power iteration tells the leading ones apart
    return np.linalg.svd(sketch, full_matrices=False)[2][:number].T
