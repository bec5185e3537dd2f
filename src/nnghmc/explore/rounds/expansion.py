"""The first surrogate: a quadratic with the slope and the curvature of the truth at one point.

The curvature is that of the expensive function in its inputs, from one gradient difference per
input. Each difference is over a part of a posterior standard deviation, whatever the units: a step
that turns out to be too long or too short is made again.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from nnghmc.explore.nuts_warmup import MOST_DENSE_DIMENSIONS
from nnghmc.explore.rounds.differences import STEP, TRIES, are_too_long, better_steps
from nnghmc.explore.rounds.truth import Truth
from nnghmc.model.split import Split
from nnghmc.platform.compilation import compiled
from nnghmc.surrogates.parts.grouped_process import Groups

LEAST_CURVATURE = 1e-10
"""Least curvature relative to that of each input alone; the expensive function falls nowhere."""
SETS_OF_GROUPS = 15
"""Number of random sets of groups that are moved together."""
LEAST_CHANGE = 1e-6
"""Change of a gradient below which it counts as none, relative to its largest change."""


def second_derivatives(
    truth: Truth, positions: np.ndarray, row: int, scales: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return inputs, gradient and curvature of the truth at one of some positions.

    The truth is asked at the other positions too, in the same batch. `scales` are guesses of the
    standard deviations of the inputs.
    """
    centre = truth.inputs_and_exact(positions)[0][row]
    steps = STEP * scales
    missing = np.arange(len(centre))
    found, moved = truth.at_both(positions, _moved(centre, steps, missing))
    gradient = found.gradients[row]
    curvature = np.zeros((len(centre), len(centre)))
    for _ in range(TRIES):
        slopes = (moved - gradient) / steps[missing, np.newaxis]
        finite = np.isfinite(slopes).all(axis=1)
        curvature[missing[finite]] = slopes[finite]
        own = np.where(finite, slopes[np.arange(len(missing)), missing], np.nan)
        too_long = are_too_long(steps[missing], own)
        steps[missing] = better_steps(steps[missing], own)
        missing = missing[too_long]
        if not len(missing) or truth.session.stopped:
            break
        moved = truth.at_inputs(_moved(centre, steps, missing))[1]
    return centre, gradient, _rising((curvature + curvature.T) / 2)


def _moved(centre: np.ndarray, steps: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Return rows that are moved along one of the chosen coordinates each."""
    rows = np.repeat(centre[np.newaxis], len(chosen), axis=0)
    rows[np.arange(len(chosen)), chosen] += steps[chosen]
    return rows


def _rising(curvature: np.ndarray) -> np.ndarray:
    """Return a curvature without negative eigenvalues, in units of that of each input alone."""
    scale = np.sqrt(np.maximum(np.diag(curvature), np.finfo(float).tiny))
    scale = np.where(np.diag(curvature) > 0, scale, 1e-3 * np.max(scale))
    values, vectors = np.linalg.eigh(curvature / np.outer(scale, scale))
    rising = (vectors * np.maximum(values, LEAST_CURVATURE)) @ vectors.T
    return np.asarray(rising * np.outer(scale, scale))


def are_separate(
    truth: Truth,
    groups: Groups,
    centre: np.ndarray,
    scales: np.ndarray,
    generator: np.random.Generator,
) -> bool:
    """Return whether groups of inputs never meet, also away from where the curvature was taken.

    From a place nearby, random halves of the groups are moved. The gradients with respect to the
    inputs of the others must stay as they are.
    """
    own, sizes = np.concatenate(groups.own), [len(group) for group in groups.own]
    chosen = generator.random((SETS_OF_GROUPS, len(sizes))) < 0.5
    is_moved = np.repeat(chosen, sizes, axis=1)
    start = centre + scales * generator.normal(size=len(centre))
    rows = np.repeat(start[np.newaxis], 1 + SETS_OF_GROUPS, axis=0)
    rows[1:, own] += is_moved * scales[own] * generator.normal(size=is_moved.shape)
    gradients = truth.at_inputs(rows)[1][:, own]
    changes = np.abs(gradients[1:] - gradients[0])
    unchanged = changes <= LEAST_CHANGE * changes.max(axis=0)
    return bool(np.all(unchanged | is_moved))


def scales_of_inputs(split: Split, position: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """Return the standard deviations of the inputs under a covariance of the parameters.

    The covariance may be given by its diagonal. An input that does not vary has a scale of 1.
    """
    jacobian = np.asarray(_jacobian(split, jnp.asarray(position), quick=True))
    spread = jacobian @ covariance if covariance.ndim == 2 else jacobian * covariance
    variances = np.sum(spread * jacobian, axis=1)
    return np.sqrt(np.where(variances > 0, variances, 1.0))


@compiled
def _jacobian(split: Split, position: Array) -> Array:
    return jax.jacobian(split.inputs)(position)


def covariance_of(split: Split, learned: Any, position: np.ndarray) -> np.ndarray:
    """Return the inverse curvature of the surrogate posterior at a position, made positive.

    In many dimensions it is the inverse of the diagonal alone. `learned` has a centre, a slope and
    a curvature there.
    """
    curvature = np.asarray(_curvature(split, learned, jnp.asarray(position), quick=True))
    if len(curvature) > MOST_DENSE_DIMENSIONS:
        own = np.abs(np.diag(curvature))
        return np.asarray(1 / np.maximum(own, LEAST_CURVATURE * np.median(own)))
    scale = 1 / np.sqrt(np.maximum(np.abs(np.diag(curvature)), np.finfo(float).tiny))
    values, vectors = np.linalg.eigh(curvature * np.outer(scale, scale))
    size = np.maximum(np.abs(values), LEAST_CURVATURE * np.abs(values).max())
    return np.asarray((vectors / size) @ vectors.T * np.outer(scale, scale))


@compiled
def _curvature(split: Split, learned: Any, position: Array) -> Array:
    def potential(position: Array) -> Array:
        away = split.inputs(position) - learned.centre
        bent = 0.5 * away @ (learned.hessian @ away)
        return split.exact(position) + learned.slope @ away + bent

    return jax.hessian(potential)(position)
