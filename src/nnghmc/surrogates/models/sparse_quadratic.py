"""The model for many inputs: a quadratic with few entries per row, and bounded terms beside it.

The pattern of the curvature, that is which inputs meet which others in the expensive function,
comes from an earlier surrogate. Each fit improves what is known: the slope, the entries of the
curvature, and cubic and quartic terms of each input and its neighbours. All of them come from one
sparse least squares.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, TypeGuard

import jax.numpy as jnp
import numpy as np
from scipy import sparse
from scipy.sparse.linalg import lsmr

from nnghmc.errors import check_fields, positive_integer, positive_number
from nnghmc.surrogates.data import GradientData
from nnghmc.surrogates.learned import Learning
from nnghmc.surrogates.parts.local_terms import (
    LocalTerms,
    gradients_of_bends,
    gradients_of_terms,
)
from nnghmc.surrogates.parts.quadratic_and_remainder import QuadraticAndRemainder
from nnghmc.surrogates.parts.regression import coordinate_slopes
from nnghmc.surrogates.parts.sparse_matrix import SparseMatrix, SparseOnHost
from nnghmc.surrogates.training import Lesson, Training

MOST_ITERATIONS = 200
"""Largest number of iterations of the least squares."""
LEAST_RELATIVE_CURVATURE = 1e-3
"""Least curvature of an input in a first fit, relative to the median of all."""


def is_sparse(learned: Any) -> TypeGuard[QuadraticAndRemainder]:
    """Return whether something is a quadratic with a sparse curvature."""
    return isinstance(learned, QuadraticAndRemainder) and isinstance(learned.hessian, SparseMatrix)


@dataclass(frozen=True)
class SparseQuadratic:
    """A quadratic with few entries per row, with cubic and quartic terms, for many inputs.

    It suits likelihoods with many groups. Without an earlier surrogate that knows which inputs meet
    in the likelihood, the neighbours of an input are those whose positions say most about its
    gradient.

    Args:
        neighbours: number of neighbours of each input where they are not known.
        ridge: ridge weight of all corrections, as a number of points where they are zero.
    """

    neighbours: int = 4
    ridge: float = 0.3
    training: ClassVar[Training] = Training(held_out=0)

    def __post_init__(self) -> None:
        check_fields(self, neighbours=positive_integer, ridge=positive_number)

    def learn(self, lesson: Lesson) -> Learning:
        """Solve one sparse least squares, without epochs and without random choices."""
        data, before = lesson.data, lesson.before
        centre = data.weighted_mean(data.positions)
        if is_sparse(before):
            hessian = SparseOnHost.of(before.hessian)
        else:
            hessian = _first_hessian(data, centre, self.neighbours)
        learned = _improved(data, centre, hessian, self.ridge)
        entries = hessian.near.nnz + hessian.rows.size
        remark = f"{entries:,} entries of a {data.dim:,} × {data.dim:,} curvature"
        return Learning(learned, remarks=(remark,))

    def at_point(
        self, centre: np.ndarray, slope: np.ndarray, hessian: SparseOnHost
    ) -> QuadraticAndRemainder:
        """Return the quadratic with this slope and this curvature at a point, and no terms."""
        matrix = hessian.on_device()
        middle, level = jnp.asarray(centre, float), jnp.asarray(slope, float)
        terms = LocalTerms.zero(matrix.neighbours)
        return QuadraticAndRemainder(middle, level, matrix, terms)


def _improved(
    data: GradientData, centre: np.ndarray, hessian: SparseOnHost, ridge: float
) -> QuadraticAndRemainder:
    """Correct slope, curvature and terms, so that they explain the gradients of the data.

    The least squares are in units of the standard deviations of the inputs.
    """
    scale = np.sqrt(data.weighted_mean((data.positions - centre) ** 2))
    white = (data.positions - centre) / scale
    left = (data.gradients - hessian.of_rows(data.positions - centre)) * scale
    neighbours = hessian.neighbours
    pairs = neighbours.pairs
    design = sparse.hstack(
        [
            sparse.csr_matrix(sparse.vstack([sparse.identity(data.dim)] * len(data))),
            gradients_of_bends(white, pairs),
            gradients_of_terms(white, neighbours.entries),
        ]
    )
    roots = np.repeat(np.sqrt(data.weights), data.dim)
    weighted = sparse.diags(roots) @ design.tocsr()
    found = lsmr(weighted, roots * left.ravel(), damp=np.sqrt(ridge), maxiter=MOST_ITERATIONS)[0]
    slope, change, coefficients = np.split(found, [data.dim, data.dim + len(pairs.rows)])
    bends = change / (scale[pairs.rows] * scale[pairs.columns])
    return QuadraticAndRemainder(
        jnp.asarray(centre),
        jnp.asarray(slope / scale),
        hessian.plus(pairs, bends).rising().on_device(),
        LocalTerms.of(centre, scale, neighbours, coefficients),
    )


def _first_hessian(data: GradientData, centre: np.ndarray, neighbours: int) -> SparseOnHost:
    """Return a diagonal curvature, with places for the neighbours that the data suggest."""
    away, gradients = data.positions - centre, data.gradients - data.gradients.mean(axis=0)
    slopes = coordinate_slopes(away, gradients)
    usual = float(np.median(np.abs(slopes))) or 1.0
    diagonal = np.maximum(slopes, LEAST_RELATIVE_CURVATURE * usual)
    left = gradients - away * diagonal
    size = np.maximum(left.std(axis=0), np.finfo(float).tiny)
    likeness = np.abs((away / away.std(axis=0)).T @ (left / size))
    np.fill_diagonal(likeness, np.inf)
    places = np.argsort(-likeness, axis=0)[: 1 + neighbours]
    chosen = sparse.csr_matrix(
        (np.ones(places.size), (places.ravel(), np.tile(np.arange(data.dim), len(places)))),
        shape=(data.dim, data.dim),
    )
    pattern = chosen + chosen.T
    pattern.data[:] = 0.0
    nothing = np.empty((0, data.dim))
    return SparseOnHost.of_entries(pattern, np.empty(0, int), nothing).with_diagonal(diagonal)
