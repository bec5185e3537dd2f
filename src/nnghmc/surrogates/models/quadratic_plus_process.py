"""The model of the automatic run: a quadratic, and a Gaussian process for the remainder.

The process learns from the gradients that the quadratic does not explain. With few inputs it is a
function of all of them, and of the values too. With many that fall into groups which never meet, it
is a sum of processes, one per group. With others there are functions of each input alone, and a
process of the few directions along which what is left varies most.

Nothing is trained in epochs: a fit solves linear systems, on the host, and takes a fraction of a
second. A later fit starts from the earlier one, of which it learns the error, so that there may be
fewer points than inputs.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from nnghmc.errors import GradientDataError, check_fields, positive_integer
from nnghmc.surrogates.data import GradientData
from nnghmc.surrogates.learned import Learning
from nnghmc.surrogates.models.quadratic import MOST_DENSE_DIMENSIONS, Quadratic
from nnghmc.surrogates.parts.coordinate_terms import (
    CoordinateTerms,
    TermsAndProcess,
    fit_coordinate_terms,
)
from nnghmc.surrogates.parts.gradient_process import (
    LENGTHS,
    GradientProcess,
    Observations,
    fit_process,
    spread_rows,
)
from nnghmc.surrogates.parts.grouped_process import (
    GroupedProcess,
    Groups,
    fit_groups,
    improved_curvature,
)
from nnghmc.surrogates.parts.quadratic_and_remainder import QuadraticAndRemainder, Remainder
from nnghmc.surrogates.parts.regression import symmetric_regression
from nnghmc.surrogates.parts.whitening import Whitening
from nnghmc.surrogates.training import Lesson, Training

MOST_EQUATIONS = 4000
"""Largest number of equations of a process, which bounds its number of points."""
POINTS_OF_GROUPS = 128
"""Largest number of points of the processes of groups, which have few inputs each."""
LARGEST_NOISE_FACTOR = 1e4
"""Factor on the noise of points that hardly matter."""
LEAST_NOISE_OF_DIRECTIONS = 1e-3
"""Least relative noise of a process of some directions, since the others act like noise."""
LENGTHS_OF_DIRECTIONS = LENGTHS[:5]
"""Length scales of a process of some directions. Along a few of many directions, a function that is
nearly straight among the points may fall from a great height far from them."""
LEAST_CURVATURE = 1e-3
"""Least curvature of the quadratic in whitened coordinates, so that it rises in all directions."""
LEAST_PRECISION = 0.1
"""Precision added to an earlier curvature, relative to the variance of each coordinate alone."""
LEAST_POINTS_TO_CORRECT = 16
"""Number of points below which the curvature stays as it is."""
RIDGES = (1e-4, 1e-2, 0.1, 1.0, 10.0, 100.0, 1e4)
"""Ridge weights tried, as fractions of unit variance in whitened coordinates."""
LEAST_POINTS_OF_TERMS = 48
"""Number of points from which on there are functions of single inputs."""
SWEEPS = 2
"""How often functions of single inputs and the quadratic are fitted to what the other leaves."""
FOLDS = 4
"""Number of parts of the points on which the ridge weights are compared."""


def process_of(learned: Any) -> GradientProcess | GroupedProcess | None:
    """Return the process, or those of groups, of a quadratic with one; None for anything else."""
    remainder = learned.remainder if isinstance(learned, QuadraticAndRemainder) else None
    if isinstance(remainder, TermsAndProcess):
        return remainder.process
    return remainder if isinstance(remainder, GradientProcess | GroupedProcess) else None


class _Quadratic(NamedTuple):
    """The quadratic part on the host, where a new number of points needs no compilation."""

    centre: np.ndarray
    slope: np.ndarray
    hessian: np.ndarray

    @classmethod
    def of(cls, learned: QuadraticAndRemainder) -> "_Quadratic":
        return cls(*(np.asarray(part) for part in (learned.centre, learned.slope, learned.hessian)))

    @classmethod
    def through(cls, data: GradientData, hessian: np.ndarray) -> "_Quadratic":
        """Return the quadratic with this curvature that has the mean gradient of the data."""
        centre = data.weighted_mean(data.positions)
        slope = data.weighted_mean(data.gradients - (data.positions - centre) @ hessian)
        return cls(centre, slope, hessian)

    def gradients(self, positions: np.ndarray) -> np.ndarray:
        return np.asarray(self.slope + (positions - self.centre) @ self.hessian)

    def values(self, positions: np.ndarray) -> np.ndarray:
        away = positions - self.centre
        return np.asarray(away @ self.slope + 0.5 * np.sum(away * (away @ self.hessian), axis=1))

    def plus(self, remainder: Remainder) -> QuadraticAndRemainder:
        centre, slope, hessian = (jnp.asarray(part, float) for part in self)
        return QuadraticAndRemainder(centre, slope, hessian, remainder)


@dataclass(frozen=True)
class QuadraticPlusProcess:
    """A quadratic plus a Gaussian process on gradients, which needs few points and no training.

    Args:
        most_inputs: number of inputs up to which the process is a function of all of them.
        rank: number of directions of the process for more inputs than that.
        points: largest number of points that the process learns from.
    """

    most_inputs: int = 20
    rank: int = 8
    points: int = 512
    training: ClassVar[Training] = Training(held_out=0)

    def __post_init__(self) -> None:
        check_fields(
            self, most_inputs=positive_integer, rank=positive_integer, points=positive_integer
        )

    def learn(self, lesson: Lesson) -> Learning:
        """Fit the quadratic, then the remainder, without epochs."""
        data, earlier = lesson.data, process_of(lesson.before)
        before = None if earlier is None else _Quadratic.of(lesson.before)
        if before is not None and isinstance(earlier, GroupedProcess):
            learned, remark = _of_groups(data, before, earlier)
            return Learning(learned, remarks=(remark,))
        terms, rest = CoordinateTerms.zero(data.dim), data
        if data.dim > self.most_inputs and len(data) >= LEAST_POINTS_OF_TERMS:
            terms, rest = _terms_and_rest(data, before)
        whitening, quadratic = _improved(rest, before)
        process, remark = self._process(rest, whitening, quadratic)
        remainder = self._remainder(terms.rising_with(quadratic.hessian), process)
        return Learning(quadratic.plus(remainder), remarks=(remark,))

    def at_point(
        self,
        centre: np.ndarray,
        slope: np.ndarray,
        hessian: np.ndarray,
        groups: Groups | None = None,
    ) -> QuadraticAndRemainder:
        """Return the quadratic with this slope and this curvature at a point, and no remainder.

        Later fits learn the remainder as a sum over `groups` of inputs, if there are any.
        """
        inputs, quadratic = len(centre), _Quadratic(centre, slope, hessian)
        if groups is not None:
            capacity = min(self.points, POINTS_OF_GROUPS)
            return quadratic.plus(GroupedProcess.zero(groups, capacity))
        process = GradientProcess.zero(inputs, self._rank(inputs), self._capacity(inputs))
        return quadratic.plus(self._remainder(CoordinateTerms.zero(inputs), process))

    def _remainder(self, terms: CoordinateTerms, process: GradientProcess) -> Remainder:
        """Return what is learned besides the quadratic; with few inputs the process alone."""
        few = terms.centre.size <= self.most_inputs
        return process if few else TermsAndProcess(terms, process)

    def _rank(self, inputs: int) -> int:
        return inputs if inputs <= self.most_inputs else min(self.rank, inputs)

    def _capacity(self, inputs: int) -> int:
        return min(self.points, MOST_EQUATIONS // (1 + self._rank(inputs)))

    def _process(
        self, data: GradientData, whitening: Whitening, quadratic: "_Quadratic"
    ) -> tuple[GradientProcess, str]:
        """Learn what the quadratic leaves, and say with which length scale and noise."""
        inputs = data.dim
        white = whitening.apply(data.positions)
        data = data.select(spread_rows(white, data.weights, self._capacity(inputs)))
        white = whitening.apply(data.positions)
        remainder = whitening.push(data.gradients - quadratic.gradients(data.positions))
        noise = _noise_factors(data)
        axes, known, least_noise = np.eye(inputs), None, 0.0
        lengths: Sequence[float] = LENGTHS
        if inputs > self.most_inputs:
            axes = _leading_axes(remainder, data.weights, self._rank(inputs))
            least_noise, lengths = LEAST_NOISE_OF_DIRECTIONS, LENGTHS_OF_DIRECTIONS
        elif np.isfinite(data.potentials).all():
            known = data.potentials - quadratic.values(data.positions)
            known = known - data.weighted_mean(known)
        observed = Observations(white @ axes.T, remainder @ axes.T, known, noise)
        fitted = fit_process(observed, least_noise, lengths)
        missing = self._capacity(inputs) - len(data)
        process = GradientProcess(
            centre=jnp.asarray(whitening.centre),
            directions=jnp.asarray(axes @ whitening.pull(np.eye(inputs))),
            points=_padded(observed.points, missing),
            value_weights=_padded(fitted.value_weights, missing),
            gradient_weights=_padded(fitted.gradient_weights, missing),
            length=jnp.asarray(fitted.length, float),
        )
        remark = (
            f"Gaussian process of {len(data)} points in {len(axes)} directions: length scale "
            f"{fitted.length:g} standard deviations, noise {fitted.noise:g}"
        )
        return process, remark


def _terms_and_rest(
    data: GradientData, before: _Quadratic | None
) -> tuple[CoordinateTerms, GradientData]:
    """Return functions of single inputs, and the data without them."""
    rest, quadratic = data, before or _improved(data, None)[1]
    for sweep in range(SWEEPS):
        if sweep:
            quadratic = _improved(rest, before)[1]
        errors = data.gradients - quadratic.gradients(data.positions)
        terms = fit_coordinate_terms(data, errors)
        rest = replace(data, gradients=data.gradients - terms.gradients(data.positions))
    return terms, rest


def _improved(data: GradientData, before: _Quadratic | None) -> tuple[Whitening, _Quadratic]:
    """Return a quadratic that explains the data, and the coordinates that it was fitted in.

    An earlier one is corrected. The first one is fitted to the data alone.
    """
    if before is None:
        whitening = Whitening.of_draws(data.positions, data.weights)
        return whitening, _Quadratic.through(data, _first_hessian(data))
    whitening = _whitening(data, before)
    return whitening, _Quadratic.through(data, _improved_hessian(data, whitening, before))


def _of_groups(
    data: GradientData, before: _Quadratic, earlier: GroupedProcess
) -> tuple[QuadraticAndRemainder, str]:
    """Correct the curvature where inputs meet, learn the rest as a sum over groups, and say how."""
    groups, errors = earlier.groups, data.gradients - before.gradients(data.positions)
    hessian = improved_curvature(groups, before.hessian, data, errors)
    quadratic = _Quadratic.through(data, hessian)
    remainder = data.gradients - quadratic.gradients(data.positions)
    noise = _noise_factors(data)
    process, remark = fit_groups(groups, data, remainder, noise, earlier.capacity)
    return quadratic.plus(process), remark


def _noise_factors(data: GradientData) -> np.ndarray:
    """Return factors on the noise variance of each point."""
    return np.minimum(1 / data.weights, LARGEST_NOISE_FACTOR)


def _padded(part: np.ndarray, rows: int) -> Array:
    """Return an array with so many more rows of zeros."""
    return jnp.asarray(np.pad(part, ((0, rows), *((0, 0) for _ in part.shape[1:]))))


def _first_hessian(data: GradientData) -> np.ndarray:
    """Fit the curvature of the quadratic to the data alone."""
    if data.dim > MOST_DENSE_DIMENSIONS:
        raise GradientDataError(
            f"QuadraticPlusProcess takes up to {MOST_DENSE_DIMENSIONS} inputs, got {data.dim}. Use "
            "Quadratic() or QuadraticPlus()."
        )
    hessian = Quadratic().fit(data).hessian
    return np.asarray(hessian)


def _whitening(data: GradientData, before: _Quadratic) -> Whitening:
    """Whiten by an earlier curvature, and then by the covariance of the points.

    The curvature knows strong correlations, of which few points tell little.
    """
    centre = data.weighted_mean(data.positions)
    variances = data.weighted_mean((data.positions - centre) ** 2)
    scale = np.sqrt(variances)
    curvature = before.hessian * np.outer(scale, scale) + LEAST_PRECISION * np.eye(data.dim)
    first = Whitening.of_matrix(centre, scale, np.eye(data.dim), curvature)
    second = Whitening.of_draws(first.apply(data.positions), data.weights)
    root = first.pull(second.pull(np.eye(data.dim)))
    return Whitening.of_matrix(centre, scale, np.eye(data.dim), (root * scale).T @ (root * scale))


def _improved_hessian(data: GradientData, whitening: Whitening, before: _Quadratic) -> np.ndarray:
    """Add to an earlier curvature what explains its errors, as far as that predicts other points.

    The correction is a symmetric matrix in whitened coordinates, shrunk towards zero by the ridge
    weight that predicts held-out points best.
    """
    white = whitening.apply(data.positions)
    errors = whitening.push(data.gradients - before.gradients(data.positions))
    if len(data) < LEAST_POINTS_TO_CORRECT:
        return before.hessian
    rows = np.random.default_rng(0).permutation(len(data))
    folds = np.array_split(rows, FOLDS)

    def correction(chosen: np.ndarray, ridge: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        weights = data.weights[chosen] / data.weights[chosen].mean()
        centre, level = (
            np.average(part[chosen], axis=0, weights=weights) for part in (white, errors)
        )
        roots = np.sqrt(weights)[:, np.newaxis]
        matrix = symmetric_regression(
            roots * (white[chosen] - centre),
            roots * (errors[chosen] - level),
            ridge,
            np.zeros(data.dim),
        )
        return matrix, centre, level

    def held_out_error(ridge: float) -> float:
        total = 0.0
        for fold in folds:
            matrix, centre, level = correction(np.setdiff1d(rows, fold), ridge)
            left = errors[fold] - level - (white[fold] - centre) @ matrix
            total += float(data.weights[fold] @ (left**2).sum(axis=1))
        return total

    matrix, _, _ = correction(rows, min(RIDGES, key=held_out_error))
    matrix = matrix + _in_whitened(before.hessian, whitening)
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    rising = (vectors * np.maximum(values, LEAST_CURVATURE)) @ vectors.T
    root = whitening.pull(np.eye(data.dim))
    return np.asarray(root.T @ rising @ root)


def _in_whitened(hessian: np.ndarray, whitening: Whitening) -> np.ndarray:
    """Return a curvature in whitened coordinates."""
    return np.asarray(whitening.push(whitening.push(hessian).T))


def _leading_axes(remainder: np.ndarray, weights: np.ndarray, rank: int) -> np.ndarray:
    """Return orthonormal rows along which the remainder of the gradient varies most."""
    centred = remainder - np.average(remainder, axis=0, weights=weights)
    axes = np.linalg.svd(centred * np.sqrt(weights)[:, np.newaxis], full_matrices=False)[2]
    missing = max(0, rank - len(axes))
    return np.pad(axes[:rank], ((0, missing), (0, 0)))
