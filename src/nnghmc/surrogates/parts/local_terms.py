"""Cubic and quartic terms of each input and of its neighbours.

With many groups, small errors of a quadratic add up over the groups. Cubic terms of each input with
its neighbours, and a quartic term of each input alone, take most of them away at hardly any cost.
The terms are functions of u = x / sqrt(1 + (x / reach)²), so that they stay bounded far from the
data that they were learned from. There the quadratic is left.
"""

from collections.abc import Callable, Iterable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy import sparse

from nnghmc.surrogates.parts.sparse_matrix import Entries, Neighbours
from nnghmc.surrogates.parts.storable import Storable

REACH = 5.0
"""Largest size of the bounded coordinates, in standard deviations."""


class LocalTerms(Storable):
    """The function Σᵢ Σⱼ cᵢⱼ uᵢ² uⱼ + Σᵢ dᵢ uᵢ⁴, where j runs over i and its neighbours.

    `back` holds the coefficients cⱼᵢ at the places of cᵢⱼ.
    """

    centre: Float[Array, " dim"]
    scale: Float[Array, " dim"]
    neighbours: Neighbours
    cubic: Float[Array, "dim most"]
    back: Float[Array, "dim most"]
    quartic: Float[Array, " dim"]

    @classmethod
    def of(
        cls,
        centre: np.ndarray,
        scale: np.ndarray,
        neighbours: Neighbours,
        coefficients: np.ndarray,
    ) -> "LocalTerms":
        """Return terms with these coefficients, in the order of `gradients_of_terms`."""
        entries = neighbours.entries
        cubic, back = np.zeros(neighbours.columns.shape), np.zeros(neighbours.columns.shape)
        cubic[entries.rows, entries.places] = coefficients[: len(entries.rows)]
        back[entries.rows, entries.places] = cubic[entries.columns, entries.back]
        quartic = coefficients[len(entries.rows) :]
        middle, size, *rest = (jnp.asarray(x) for x in (centre, scale, cubic, back, quartic))
        return cls(middle, size, neighbours, *rest)

    @classmethod
    def zero(cls, neighbours: Neighbours) -> "LocalTerms":
        """Return terms that are all zero."""
        dim = len(neighbours.columns)
        nothing = np.zeros(len(neighbours.entries.rows) + dim)
        return cls.of(np.zeros(dim), np.ones(dim), neighbours, nothing)

    def value_and_gradient(
        self, position: Float[Array, " dim"]
    ) -> tuple[Float[Array, ""], Float[Array, " dim"]]:
        """Return the sum of all terms, and its gradient."""
        own, factor = _bounded((position - self.centre) / self.scale, jnp.sqrt)
        others = own[self.neighbours.others]
        along = self.cubic[:, 0] * own + jnp.sum(self.cubic[:, 1:] * others, axis=1)
        across = self.back[:, 0] * own**2 + jnp.sum(self.back[:, 1:] * others**2, axis=1)
        value = jnp.sum(own**2 * along + self.quartic * own**4)
        slope = 2 * own * along + across + 4 * self.quartic * own**3
        return value, slope * factor / self.scale


def _bounded(white: Any, square_root: Callable[[Any], Any]) -> tuple[Any, Any]:
    """Return the bounded coordinates u of x, and their derivatives."""
    shrinkage = 1 / square_root(1 + white * white / REACH**2)
    return white * shrinkage, shrinkage**3


def gradients_of_bends(white: np.ndarray, pairs: Entries) -> sparse.csr_matrix:
    """Return the gradients of the products xᵢ xⱼ of pairs, and of ½ xᵢ², as columns.

    `white` holds rows of x. The rows of the result are the coordinates of the first point, then
    those of the second, and so on.
    """
    apart = np.flatnonzero(pairs.rows != pairs.columns)
    every = np.arange(len(pairs.rows))
    parts = (
        (white[:, pairs.columns], pairs.rows, every),
        (white[:, pairs.rows[apart]], pairs.columns[apart], apart),
    )
    return _stacked(parts, white.shape, len(every))


def gradients_of_terms(white: np.ndarray, entries: Entries) -> sparse.csr_matrix:
    """Return the gradients of the cubic terms of all entries, and then of the quartic terms.

    Rows and columns are as in `gradients_of_bends`.
    """
    rows, columns = entries.rows, entries.columns
    own, factor = _bounded(white, np.sqrt)
    number, every = len(rows), np.arange(white.shape[1])
    parts = (
        (2 * own[:, rows] * own[:, columns] * factor[:, rows], rows, np.arange(number)),
        (own[:, rows] ** 2 * factor[:, columns], columns, np.arange(number)),
        (4 * own**3 * factor, every, number + every),
    )
    return _stacked(parts, white.shape, number + len(every))


def _stacked(
    parts: Iterable[tuple[np.ndarray, np.ndarray, np.ndarray]],
    shape: tuple[int, ...],
    terms: int,
) -> sparse.csr_matrix:
    """Put values with one row per point into a matrix, at coordinates and terms."""
    points, dim = shape
    first = dim * np.arange(points)[:, np.newaxis]
    values, rows, columns = [], [], []
    for part, coordinates, numbers in parts:
        values.append(part.ravel())
        rows.append((first + coordinates).ravel())
        columns.append(np.broadcast_to(numbers, part.shape).ravel())
    placed = (np.concatenate(rows), np.concatenate(columns))
    return sparse.csr_matrix((np.concatenate(values), placed), shape=(points * dim, terms))
