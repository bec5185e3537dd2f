"""Gaussian processes of groups of inputs, for a function that is a sum over groups.

In a hierarchical model each subject has a few inputs of its own, which meet no others but a few
that all subjects share. One gradient then says something of each group, and a process of a few
inputs takes few points: some hundred gradients are enough for twenty subjects.

The process of a group learns from the gradients with respect to its own inputs. They leave open a
function of the shared inputs alone, which a last process learns.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from nnghmc.surrogates.data import GradientData
from nnghmc.surrogates.parts.gradient_process import (
    GradientProcess,
    Observations,
    bends_between,
    most_likely,
    solve_for_weights,
    spread_rows,
)
from nnghmc.surrogates.parts.storable import Storable
from nnghmc.surrogates.parts.whitening import Whitening

LEAST_CURVATURE = 1e-6
"""Mixed curvature, relative to those of both inputs alone, below which inputs do not meet."""
SHARED_SHARE = 0.5
"""Share of all inputs from which on an input that meets them is shared."""
MOST_SHARED, MOST_INPUTS = 4, 8
"""Largest number of shared inputs, and of all inputs of a group with them."""
GROUPS_TO_COMPARE = 4
"""Number of groups from which length and noise are chosen, which all groups have in common."""
RIDGE = 0.3
"""Ridge weight of corrections of the curvature, as a number of points where they are zero."""
FULL_WEIGHT = 0.05
"""Weight from which on a point counts fully for the curvature: the quadratic, to which processes
fall back, is to fit also as far out as there is mass."""
LEAST_RISE = 1e-3
"""Least curvature of the quadratic relative to the spread of the points in each input."""


class Groups(NamedTuple):
    """Which inputs belong together.

    Attributes:
        shared: the inputs that all groups share.
        own: the inputs of each group alone.
    """

    shared: np.ndarray
    own: list[np.ndarray]

    @classmethod
    def of_curvature(cls, hessian: np.ndarray) -> "Groups | None":
        """Return the groups by where a curvature is zero; None if there are none, or large ones."""
        size = np.sqrt(np.maximum(np.diag(hessian), np.finfo(float).tiny))
        meet = np.abs(hessian) > LEAST_CURVATURE * np.outer(size, size)
        is_shared = meet.mean(axis=0) > SHARED_SHARE
        rest = np.flatnonzero(~is_shared)
        number, labels = connected_components(sparse.csr_matrix(meet[np.ix_(rest, rest)]))
        largest = np.bincount(labels).max(initial=0)
        if number < 2 or is_shared.sum() > MOST_SHARED or largest + is_shared.sum() > MOST_INPUTS:
            return None
        return cls(np.flatnonzero(is_shared), [rest[labels == group] for group in range(number)])

    @property
    def places(self) -> np.ndarray:
        """The inputs of each group, one row per group: the shared ones, then its own.

        Groups with fewer inputs than others have -1 in the last places.
        """
        most = max(map(len, self.own))
        rows = [
            np.concatenate([self.shared, own, np.full(most - len(own), -1)]) for own in self.own
        ]
        return np.array(rows, int)


class GroupedProcess(Storable):
    """A sum of processes: one per group, and one of the shared inputs.

    `processes` has the arrays of all groups, stacked.
    """

    places: Int[Array, "groups most"]
    shared: Int[Array, " shared"]
    processes: GradientProcess
    of_shared: GradientProcess

    @classmethod
    def zero(cls, groups: Groups, capacity: int) -> "GroupedProcess":
        """Return processes that have learned nothing."""
        number, most = groups.places.shape
        nothing = GradientProcess.zero(most, most, capacity)
        stacked = jax.tree.map(lambda part: jnp.stack([part] * number), nothing)
        of_shared = GradientProcess.zero(len(groups.shared), len(groups.shared), capacity)
        return cls(jnp.asarray(groups.places), jnp.asarray(groups.shared), stacked, of_shared)

    @property
    def groups(self) -> Groups:
        """Which inputs belong together."""
        shared, places = np.asarray(self.shared), np.asarray(self.places)
        return Groups(shared, [row[row >= 0] for row in places[:, len(shared) :]])

    @property
    def capacity(self) -> int:
        """The number of points that there is room for."""
        return int(self.processes.points.shape[1])

    def value_and_gradient(
        self, inputs: Float[Array, " inputs"]
    ) -> tuple[Float[Array, ""], Float[Array, " inputs"]]:
        """Return the sum of the posterior means, up to a constant, and its gradient."""
        value, slope = self.of_shared.value_and_gradient(inputs[self.shared])
        values, slopes = jax.vmap(GradientProcess.value_and_gradient)(
            self.processes, inputs[self.places]
        )
        gradient = jnp.zeros_like(inputs).at[self.places].add(slopes).at[self.shared].add(slope)
        return value + jnp.sum(values), gradient


class _Part(NamedTuple):
    """The inputs of one process, standardised: s = centre + root x.

    The root is lower triangular, with the shared inputs first. A gradient with respect to the own
    coordinates x thus takes those with respect to the own inputs alone. The process learns from
    the `observed` of all `points`: those that are far from each other in its own coordinates.
    """

    numbers: np.ndarray
    centre: np.ndarray
    root: np.ndarray
    points: np.ndarray
    observed: Observations

    @classmethod
    def of(
        cls,
        data: GradientData,
        gradients: np.ndarray,
        numbers: np.ndarray,
        known: int,
        noise: np.ndarray,
        capacity: int,
    ) -> "_Part":
        """Standardise some inputs, of which only the gradients of the last ones are learned."""
        rows = data.positions[:, numbers]
        whitening = Whitening.of_draws(rows, data.weights)
        inverse_root = whitening.pull(np.eye(len(numbers)))
        root = np.linalg.cholesky(np.linalg.inv(inverse_root.T @ inverse_root))
        points = (rows - whitening.centre) @ np.linalg.inv(root).T
        slopes = (gradients[:, numbers] @ root)[:, len(numbers) - known :]
        chosen = spread_rows(points, data.weights, capacity)
        observed = Observations(points, slopes, None, noise).select(chosen)
        return cls(numbers, np.asarray(whitening.centre), root, points, observed)

    def slopes(self, weights: np.ndarray, length: float) -> np.ndarray:
        """Return the gradients of the process at all points, with respect to all its inputs."""
        bends = bends_between(self.points, self.observed.points, length)[..., -weights.shape[1] :]
        return np.einsum("pqij,qj->pi", bends, weights) @ np.linalg.inv(self.root)

    def process(
        self, weights: np.ndarray, length: float, most: int, capacity: int
    ) -> GradientProcess:
        """Return the process, with zeros up to so many inputs and points."""
        number, rank = self.observed.points.shape
        shared, more, rows = rank - weights.shape[1], most - rank, capacity - number
        directions = np.pad(np.linalg.inv(self.root), (0, more))
        return GradientProcess(
            centre=jnp.asarray(np.pad(self.centre, (0, more))),
            directions=jnp.asarray(directions),
            points=jnp.asarray(np.pad(self.observed.points, ((0, rows), (0, more)))),
            value_weights=jnp.zeros(capacity),
            gradient_weights=jnp.asarray(np.pad(weights, ((0, rows), (shared, more)))),
            length=jnp.asarray(length, float),
        )


def improved_curvature(
    groups: Groups, hessian: np.ndarray, data: GradientData, errors: np.ndarray
) -> np.ndarray:
    """Add to a curvature what explains errors of its gradients, where inputs meet.

    The entries of each group come from the gradients with respect to its own inputs, and those of
    the shared inputs from what the groups leave.

    Args:
        groups: which inputs belong together.
        hessian: the curvature so far.
        data: the points, and their weights.
        errors: the errors of the gradients, one row per point.
    """
    centre = data.weighted_mean(data.positions)
    scale = np.sqrt(data.weighted_mean((data.positions - centre) ** 2))
    white = (data.positions - centre) / scale
    left = (errors - data.weighted_mean(errors)) * scale
    change, shared = np.zeros_like(hessian), groups.shared
    weights = np.minimum(data.weights / FULL_WEIGHT, 1.0)
    for own in groups.own:
        known = np.concatenate([own, shared])
        found = _ridge_regression(white[:, known], left[:, own], weights)
        change[np.ix_(known, own)] = found
        change[np.ix_(own, shared)] = found[len(own) :].T
        left[:, shared] -= white[:, own] @ found[len(own) :].T
    change[np.ix_(shared, shared)] = _ridge_regression(white[:, shared], left[:, shared], weights)
    improved = hessian * np.outer(scale, scale) + (change + change.T) / 2
    missing = LEAST_RISE - np.linalg.eigvalsh(improved)[0]
    return np.asarray(
        (improved + max(missing, 0.0) * np.eye(len(improved))) / np.outer(scale, scale)
    )


def _ridge_regression(rows: np.ndarray, targets: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the matrix that best predicts targets from rows, shrunk towards zero."""
    weighted = weights[:, np.newaxis] * rows
    return np.linalg.solve(rows.T @ weighted + RIDGE * np.eye(rows.shape[1]), weighted.T @ targets)


def fit_groups(
    groups: Groups, data: GradientData, gradients: np.ndarray, noise: np.ndarray, capacity: int
) -> tuple[GroupedProcess, str]:
    """Learn gradients as a sum over groups; return it, and a remark on the fit.

    Args:
        groups: which inputs belong together.
        data: the points, and their weights.
        gradients: the gradients to learn, one row per point.
        noise: factor on the noise variance of each point.
        capacity: largest number of points that a process learns from.
    """
    shared = len(groups.shared)
    parts = [
        _Part.of(data, gradients, np.concatenate([groups.shared, own]), len(own), noise, capacity)
        for own in groups.own
    ]
    some = np.linspace(0, len(parts) - 1, min(GROUPS_TO_COMPARE, len(parts))).astype(int)
    length, variance = most_likely([parts[number].observed for number in some])
    left, stacked = gradients.copy(), []
    for part in parts:
        weights = solve_for_weights(part.observed, length, variance).gradient_weights
        left[:, part.numbers] -= part.slopes(weights, length)
        stacked.append(part.process(weights, length, groups.places.shape[1], capacity))
    of_shared = GradientProcess.zero(shared, shared, capacity)
    if shared:
        part = _Part.of(data, left, groups.shared, shared, noise, capacity)
        # The groups leave open a function of the shared inputs, as smooth as they are themselves.
        _, variance = most_likely([part.observed], lengths=(length,))
        weights = solve_for_weights(part.observed, length, variance).gradient_weights
        of_shared = part.process(weights, length, shared, capacity)
    processes = jax.tree.map(lambda *rows: jnp.stack(rows), *stacked)
    points = min(len(data), capacity)
    remark = (
        f"Gaussian processes of {points} points in {len(parts)} groups: length scale {length:g} "
        f"standard deviations, noise {variance:g}"
    )
    learned = GroupedProcess(
        jnp.asarray(groups.places), jnp.asarray(groups.shared), processes, of_shared
    )
    return learned, remark
