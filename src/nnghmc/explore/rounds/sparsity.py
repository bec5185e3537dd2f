"""The curvature of a function of many inputs, where each of most inputs meets few others.

With many groups, most pairs of inputs never meet: the gradient with respect to one does not change
when the other moves. Which pairs meet is found by moving random sets of inputs together. What does
not change rules out many pairs at once. Inputs that meet no common one can then share a gradient
difference. A thousand groups take some 80 gradients instead of one per input.
"""

from typing import NamedTuple

import numpy as np
from scipy import sparse

from nnghmc.explore.rounds.differences import TRIES, are_too_long, better_steps
from nnghmc.explore.rounds.truth import BATCH, Truth
from nnghmc.surrogates.parts.sparse_matrix import SparseOnHost

LEAST_CHANGE = 1e-6
"""Change of a gradient below which it counts as none, relative to its largest change."""
FEW_MOVED = 5
"""Number of inputs that are moved together at first."""
DENSE_SHARE = 0.5
"""Share of these first sets that change the gradient of an input which meets nearly all others."""
MOST_DENSE_SHARE = 0.05
"""Largest share of such inputs."""
MOST_NEIGHBOURS = 30
"""Largest mean number of others that an input meets."""
FALSE_NEIGHBOURS = 0.1
"""Expected number of neighbours per input that it never meets, and that are not ruled out."""


class _Search(NamedTuple):
    """What was found while sets of inputs were moved: the gradients there and their changes."""

    truth: Truth
    centre: np.ndarray
    steps: np.ndarray

    def changes(self, sets: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """Return the changes of the gradient when sets of inputs move, one row per set."""
        return self.truth.at_inputs(self.centre + sets * self.steps)[1] - gradient


def sparse_curvature(
    truth: Truth,
    centre: np.ndarray,
    gradient: np.ndarray,
    steps: np.ndarray,
    generator: np.random.Generator,
) -> SparseOnHost | None:
    """Return the curvature of the expensive function at its inputs, or None if it is not sparse.

    Args:
        truth: the truth, which is asked for gradients.
        centre: the inputs.
        gradient: the gradient there.
        steps: lengths of the differences.
        generator: random generator of the sets.
    """
    inputs, search = len(centre), _Search(truth, centre, steps)
    sets = _random_sets(generator, BATCH, np.full(inputs, FEW_MOVED / inputs))
    changes = np.abs(search.changes(sets, gradient))
    if not np.isfinite(changes).all():
        return None
    units = changes.max(axis=0)
    changed = changes > LEAST_CHANGE * units
    dense = changed.mean(axis=0) > DENSE_SHARE
    if dense.mean() > MOST_DENSE_SHARE:
        return None
    neighbours = max(1.0, changed[:, ~dense].sum() / sets.sum())
    if neighbours > MOST_NEIGHBOURS:
        return None
    pattern = _pattern(search, gradient, dense, neighbours, units, generator)
    for _ in range(TRIES):
        found = _differences(search, gradient, dense, pattern)
        own = found.diagonal
        if not are_too_long(search.steps, own).any() or truth.session.stopped:
            break
        search = search._replace(steps=better_steps(search.steps, own))
    return found


def _random_sets(
    generator: np.random.Generator, number: int, probabilities: np.ndarray
) -> np.ndarray:
    """Return random sets of inputs as rows of a mask."""
    return generator.random((number, len(probabilities))) < probabilities


def _pattern(
    search: _Search,
    gradient: np.ndarray,
    dense: np.ndarray,
    neighbours: float,
    units: np.ndarray,
    generator: np.random.Generator,
) -> sparse.csr_matrix:
    """Return which pairs of inputs that are not dense may meet.

    A set rules out a pair if it holds the one and leaves the gradient of the other unchanged. Each
    pair has two chances per set.
    """
    inputs = len(dense)
    probability = min(0.25, 1 / (1 + neighbours))
    ruling_out = probability * (1 - probability) ** neighbours
    needed = np.log(inputs / FALSE_NEIGHBOURS) / -np.log1p(-2 * ruling_out)
    number = BATCH * int(np.ceil(needed / BATCH))
    sets = _random_sets(generator, number, np.where(dense, 0.0, probability))
    changes = np.abs(search.changes(sets, gradient))
    unchanged = changes <= LEAST_CHANGE * np.maximum(units, changes.max(axis=0))
    ruled_out = unchanged.T.astype(np.float32) @ sets.astype(np.float32) > 0
    meet = ~(ruled_out | ruled_out.T)
    np.fill_diagonal(meet, True)
    meet[dense] = meet[:, dense] = False
    return sparse.csr_matrix(meet)


def _differences(
    search: _Search, gradient: np.ndarray, dense: np.ndarray, pattern: sparse.csr_matrix
) -> SparseOnHost:
    """Return the curvature, from one difference per dense input and per set that shares none."""
    inputs, numbers = len(dense), np.flatnonzero(dense)
    colours = _colours(pattern, np.flatnonzero(~dense))
    sets = np.concatenate(
        [colours == np.arange(1 + colours.max())[:, np.newaxis], np.eye(inputs, dtype=bool)[dense]]
    )
    changes = search.changes(sets, gradient)
    rows, columns = pattern.nonzero()
    slopes = changes[colours[columns], rows] / search.steps[columns]
    near = sparse.csr_matrix((slopes, (rows, columns)), shape=pattern.shape)
    dense_rows = changes[1 + colours.max() :] / search.steps[dense][:, np.newaxis]
    crossing = dense_rows[:, dense]
    dense_rows[:, dense] = (crossing + crossing.T) / 2
    return SparseOnHost.of_entries(((near + near.T) / 2).tocsr(), numbers, dense_rows)


def _colours(pattern: sparse.csr_matrix, numbers: np.ndarray) -> np.ndarray:
    """Number the inputs so that no two of the same number meet a common one; -1 for the others."""
    conflicts = sparse.csr_matrix(pattern @ pattern)
    colours = np.full(pattern.shape[0], -1)
    for number in numbers:
        others = conflicts.indices[conflicts.indptr[number] : conflicts.indptr[number + 1]]
        taken = set(colours[others].tolist())
        colours[number] = next(colour for colour in range(len(taken) + 1) if colour not in taken)
    return colours
