"""A sum of functions of one input each.

In a regression with many coefficients the likelihood is often nearly quadratic but for single
coefficients, such as those of rare indicators. The function of an input is learned from the
gradient with respect to it, so that a hundred inputs take no more points than one.

The functions are sums of bumps, with the coefficients of a Gaussian process: small ones are
preferred, by a ridge weight that predicts points left out well. Beyond the points, a function keeps
the mean curvature that it has at their edge.
"""

from functools import cache
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from nnghmc.surrogates.data import GradientData
from nnghmc.surrogates.parts.gradient_process import GradientProcess
from nnghmc.surrogates.parts.storable import Storable

KNOTS = np.linspace(-5.0, 5.0, 11)
"""Middles of the bumps, in standard deviations of the inputs."""
WIDTH = 2.0
"""Width of the bumps, which is the length scale of the process."""
JITTER = 1e-6
"""Variance added to each bump, so that they are never too much alike."""
RIDGES = 10.0 ** np.arange(4, -5, -1)
"""Ridge weights tried for each input."""
MOST_LEVERAGE = 0.95
"""Leverage beyond which a point says nothing of how well it would be predicted."""
LEAST_WEIGHT_AT_THE_EDGE = 0.05
"""Weight from which on a point counts for where the edge is."""
EDGE = 1.0
"""Distance from the edge over which the curvature is taken, in standard deviations."""
LEAST_CURVATURE = 1e-3
"""Curvature added to a quadratic in standard deviations, for a bound on that beyond the edges."""


class CoordinateTerms(Storable):
    """The function Σᵢ hᵢ(xᵢ) with x = (s - centre) / scale.

    Each hᵢ is a sum of bumps and of `lines`, level · x + slope · x² / 2, between `edges`, and a
    parabola with curvature `bends` beyond each.
    """

    centre: Float[Array, " inputs"]
    scale: Float[Array, " inputs"]
    bumps: Float[Array, "inputs knots"]
    lines: Float[Array, "2 inputs"]
    edges: Float[Array, "2 inputs"]
    bends: Float[Array, "2 inputs"]

    @classmethod
    def zero(cls, inputs: int) -> "CoordinateTerms":
        """Return functions that are all zero."""
        nothing, pair = jnp.zeros(inputs), jnp.zeros((2, inputs))
        return cls(nothing, jnp.ones(inputs), jnp.zeros((inputs, len(KNOTS))), pair, pair, pair)

    def value_and_gradient(
        self, inputs: Float[Array, " inputs"]
    ) -> tuple[Float[Array, ""], Float[Array, " inputs"]]:
        """Return the sum of the functions, and its gradient."""
        values, slopes = self._functions((inputs - self.centre) / self.scale, jnp)
        return jnp.sum(values), slopes / self.scale

    def gradients(self, positions: np.ndarray) -> np.ndarray:
        """Return the gradients at rows of inputs, on the host."""
        centre, scale = np.asarray(self.centre), np.asarray(self.scale)
        return np.asarray(self._functions((positions - centre) / scale, np)[1] / scale)

    def rising_with(self, hessian: np.ndarray) -> "CoordinateTerms":
        """Return functions that together with a quadratic do not fall beyond all edges.

        Curvatures beyond the edges that are too negative for that are all made smaller.
        """
        scale, bends = np.asarray(self.scale), np.asarray(self.bends)
        falls = np.sqrt(-np.minimum(bends.min(axis=0), 0.0))
        if not falls.any():
            return self
        curvature = hessian * np.outer(scale, scale) + LEAST_CURVATURE * np.eye(len(scale))
        relative = np.linalg.inv(curvature) * np.outer(falls, falls)
        share = 1 / max(1.0, np.linalg.eigvalsh(relative)[-1])
        bounded = np.where(bends < 0, share * bends, bends)
        return eqx.tree_at(lambda terms: terms.bends, self, jnp.asarray(bounded))

    def _functions(self, x: Any, library: Any) -> tuple[Any, Any]:
        """Return all functions and their derivatives, with JAX or NumPy as the library."""
        parts = (self.bumps, self.lines, self.edges, self.bends)
        bumps, (level, slope), edges, bends = (library.asarray(part) for part in parts)
        inside = library.clip(x, edges[0], edges[1])
        beyond = x - inside
        heights, rises = _bumps(inside, library)
        values = library.sum(bumps * heights, -1) + inside * (level + 0.5 * slope * inside)
        slopes = library.sum(bumps * rises, -1) + level + slope * inside
        bend = library.where(beyond < 0, bends[0], bends[1])
        return values + slopes * beyond + 0.5 * bend * beyond**2, slopes + bend * beyond


class TermsAndProcess(Storable):
    """The sum of functions of one input each, and a process of what they leave."""

    terms: CoordinateTerms
    process: GradientProcess

    def value_and_gradient(
        self, inputs: Float[Array, " inputs"]
    ) -> tuple[Float[Array, ""], Float[Array, " inputs"]]:
        """Return the sum, up to a constant, and its gradient."""
        value, gradient = self.terms.value_and_gradient(inputs)
        more, slope = self.process.value_and_gradient(inputs)
        return value + more, gradient + slope


def _bumps(x: Any, library: Any) -> tuple[Any, Any]:
    """Return the bumps at coordinates, along one more axis, and their derivatives."""
    away = x[..., np.newaxis] - KNOTS
    heights = library.exp(-0.5 * (away / WIDTH) ** 2)
    return heights, -away / WIDTH**2 * heights


def fit_coordinate_terms(data: GradientData, gradients: np.ndarray) -> CoordinateTerms:
    """Learn gradients of which each component is mostly a function of its own input.

    What is straight in the input is left to the quadratic. An input has no function where that
    would not clearly predict points left out better.

    Args:
        data: the points, and their weights.
        gradients: the gradients to learn, one row per point.
    """
    centre = data.weighted_mean(data.positions)
    spread = np.sqrt(data.weighted_mean((data.positions - centre) ** 2))
    scale = np.where(spread > 0, spread, 1.0)
    x, matters = (data.positions - centre) / scale, data.weights >= LEAST_WEIGHT_AT_THE_EDGE
    edges = np.clip([x[matters].min(axis=0), x[matters].max(axis=0)], KNOTS[0], KNOTS[-1])
    roots = np.sqrt(data.weights)
    fitted = [
        _fit_function(own, slopes, np.where((own >= low) & (own <= high), roots, 0.0))
        for own, slopes, low, high in zip(x.T, (gradients * scale).T, *edges, strict=True)
    ]
    bumps, lines = (np.array(part) for part in zip(*fitted, strict=True))
    inward = edges + EDGE * np.array([[1], [-1]])
    at_edges, before = (np.sum(bumps * _bumps(x, np)[1], axis=2) for x in (edges, inward))
    bends = lines[:, 1] + (at_edges - before) / (edges - inward)
    parts = (centre, scale, bumps, lines.T, edges, bends)
    return CoordinateTerms(*(jnp.asarray(part) for part in parts))


def _fit_function(
    x: np.ndarray, slopes: np.ndarray, roots: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the bumps of one input, and the line that takes away what is straight in them.

    `roots` are the square roots of the weights of the points.
    """
    root, weighted = _root_of_process(), roots[:, np.newaxis]
    columns = weighted * (_bumps(x, np)[1] @ root)
    straight = weighted * np.column_stack([np.ones(len(x)), x])
    coefficients = _ridge_regression(columns, roots * slopes, straight)
    return root @ coefficients, -np.linalg.lstsq(straight, columns @ coefficients)[0]


@cache
def _root_of_process() -> np.ndarray:
    """Return the matrix that turns independent coefficients into those of a Gaussian process."""
    covariance = _bumps(KNOTS, np)[0] + JITTER * np.eye(len(KNOTS))
    return np.asarray(np.linalg.inv(np.linalg.cholesky(covariance)).T)


class _Fit(NamedTuple):
    """Coefficients, with the squared errors at points left out."""

    errors: np.ndarray
    coefficients: np.ndarray


def _ridge_regression(columns: np.ndarray, target: np.ndarray, straight: np.ndarray) -> np.ndarray:
    """Return the coefficients that predict points left out best, or simpler ones nearly as good.

    The `straight` columns are explained first. The simplest coefficients are zero, then those with
    a large ridge weight. They are as good if they are worse by no more than a standard error.
    """
    basis = np.linalg.qr(straight)[0]
    columns, target = (part - basis @ (basis.T @ part) for part in (columns, target))
    left, sizes, right = np.linalg.svd(columns, full_matrices=False)
    along, known = left.T @ target, np.sum(basis**2, axis=1)

    def fit(shrinkage: np.ndarray, coefficients: np.ndarray) -> _Fit:
        leverage = np.minimum(known + left**2 @ shrinkage, MOST_LEVERAGE)
        missed = (target - left @ (shrinkage * along)) / (1 - leverage)
        return _Fit(missed**2, coefficients)

    fits = [fit(np.zeros_like(sizes), np.zeros(columns.shape[1]))]
    for ridge in RIDGES:
        inverse = sizes / (sizes**2 + ridge)
        fits.append(fit(sizes * inverse, right.T @ (inverse * along)))
    best = min(fits, key=lambda fitted: float(fitted.errors.sum()))

    def is_as_good(fitted: _Fit) -> bool:
        worse = fitted.errors - best.errors
        return bool(worse.sum() <= np.sqrt(len(worse)) * worse.std())

    return next(fitted.coefficients for fitted in fits if is_as_good(fitted))
