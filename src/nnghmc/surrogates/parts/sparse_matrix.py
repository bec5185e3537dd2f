"""A symmetric matrix with few entries per row, and a few dense rows.

The curvature of a likelihood with many groups looks like this: each group effect meets the other
effects of its own group, and the fixed effects meet everything. A product takes as many operations
as there are entries.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from scipy import sparse
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from nnghmc.surrogates.parts.storable import Storable

LEAST_EIGENVALUE = 1e-3
"""Least eigenvalue after a repair, in units of the diagonal."""
FEW = 30
"""Number of rows below which eigenvalues are computed all together."""


class Entries(NamedTuple):
    """Entries of a symmetric matrix, as flat arrays.

    Attributes:
        rows: row of each entry.
        columns: its column.
        places: its place among the neighbours of its row.
        back: place of the entry with row and column exchanged.
    """

    rows: np.ndarray
    columns: np.ndarray
    places: np.ndarray
    back: np.ndarray


class Neighbours(Storable):
    """The neighbours of each row: the columns where a symmetric matrix has entries.

    A row comes first among its neighbours. Rows with fewer neighbours than others name themselves
    again in the last places.
    """

    columns: Int[Array, "dim most"]

    @classmethod
    def of_pattern(cls, pattern: sparse.csr_matrix) -> "Neighbours":
        """Return the neighbours in a symmetric pattern."""
        off_diagonal = sparse.coo_matrix(pattern)
        apart = off_diagonal.row != off_diagonal.col
        rows, others = off_diagonal.row[apart], off_diagonal.col[apart]
        order = np.argsort(rows, kind="stable")
        rows, others = rows[order], others[order]
        counts = np.bincount(rows, minlength=pattern.shape[0])
        columns = np.repeat(np.arange(len(counts))[:, np.newaxis], 1 + counts.max(), axis=1)
        firsts = np.repeat(np.cumsum(counts) - counts, counts)
        columns[rows, 1 + np.arange(len(rows)) - firsts] = others
        return cls(jnp.asarray(columns))

    @property
    def others(self) -> Int[Array, "dim fewer"]:
        """The neighbours of each row but the row itself."""
        return self.columns[:, 1:]

    @property
    def entries(self) -> Entries:
        """All entries of the matrix."""
        columns = np.asarray(self.columns)
        rows, places = (part.ravel() for part in np.indices(columns.shape))
        real = (places == 0) | (columns.ravel() != rows)
        rows, places, others = rows[real], places[real], columns.ravel()[real]
        number = sparse.csr_matrix((1 + places, (rows, others)), shape=2 * (len(columns),))
        return Entries(rows, others, places, np.asarray(number[others, rows]).ravel() - 1)

    @property
    def pairs(self) -> Entries:
        """The entries on and above the diagonal."""
        entries = self.entries
        chosen = entries.rows <= entries.columns
        return Entries(*(part[chosen] for part in entries))


class SparseMatrix(Storable):
    """A symmetric matrix by its entries at the neighbours of each row, and by dense rows.

    Dense rows have no neighbours' entries of their own, and their columns stand in them alone.
    """

    neighbours: Neighbours
    values: Float[Array, "dim most"]
    dense: Int[Array, " rows"]
    dense_rows: Float[Array, "rows dim"]

    @property
    def size(self) -> int:
        """The number of entries."""
        return int(self.values.size + self.dense_rows.size)

    def __matmul__(self, vector: Float[Array, " dim"]) -> Float[Array, " dim"]:
        others = jnp.sum(self.values[:, 1:] * vector[self.neighbours.others], axis=1)
        product = self.values[:, 0] * vector + others + vector[self.dense] @ self.dense_rows
        return product.at[self.dense].set(self.dense_rows @ vector)


@dataclass(frozen=True)
class SparseOnHost:
    """The same matrix with NumPy and SciPy.

    Attributes:
        neighbours: the neighbours of each row.
        near: entries outside the dense rows and columns.
        dense: numbers of the dense rows.
        rows: the dense rows.
    """

    neighbours: Neighbours
    near: sparse.csr_matrix
    dense: np.ndarray
    rows: np.ndarray

    @classmethod
    def of_entries(
        cls, near: sparse.csr_matrix, dense: np.ndarray, rows: np.ndarray
    ) -> "SparseOnHost":
        """Return a matrix with neighbours where `near` has entries, be they zero or not."""
        return cls(Neighbours.of_pattern(near), near, dense, rows)

    @classmethod
    def of(cls, matrix: SparseMatrix) -> "SparseOnHost":
        """Return the matrix of a surrogate."""
        entries, values = matrix.neighbours.entries, np.asarray(matrix.values)
        near = sparse.csr_matrix(
            (values[entries.rows, entries.places], (entries.rows, entries.columns)),
            shape=2 * (len(values),),
        )
        return cls(matrix.neighbours, near, np.asarray(matrix.dense), np.asarray(matrix.dense_rows))

    def on_device(self) -> SparseMatrix:
        """Return the matrix for compiled code."""
        entries = self.neighbours.entries
        values = np.zeros(self.neighbours.columns.shape)
        found = np.asarray(self.near[entries.rows, entries.columns]).ravel()
        values[entries.rows, entries.places] = found
        values[self.dense] = 0.0
        parts = (jnp.asarray(part) for part in (values, self.dense, self.rows))
        return SparseMatrix(self.neighbours, *parts)

    @property
    def diagonal(self) -> np.ndarray:
        """The diagonal of the whole matrix."""
        diagonal = self.near.diagonal()
        diagonal[self.dense] = self.rows[np.arange(len(self.dense)), self.dense]
        return np.asarray(diagonal)

    def __matmul__(self, vectors: np.ndarray) -> np.ndarray:
        """Return the product with a vector, or with columns of vectors."""
        product = self.near @ vectors + self.rows.T @ vectors[self.dense]
        product[self.dense] = self.rows @ vectors
        return np.asarray(product)

    def of_rows(self, vectors: np.ndarray) -> np.ndarray:
        """Return the products with rows of vectors, as rows."""
        return (self @ vectors.T).T

    def plus(self, pairs: Entries, values: np.ndarray) -> "SparseOnHost":
        """Return the matrix with values added to pairs of entries, in rows that are not dense."""
        added = sparse.coo_matrix((values, (pairs.rows, pairs.columns)), shape=self.near.shape)
        both = added + added.T - sparse.diags(added.diagonal())
        return replace(self, near=(self.near + both).tocsr()).without_dense_entries()

    def without_dense_entries(self) -> "SparseOnHost":
        """Return the matrix without entries near the diagonal in its dense rows and columns."""
        kept = np.ones(len(self.near.indptr) - 1)
        kept[self.dense] = 0.0
        keep = sparse.diags(kept)
        return replace(self, near=(keep @ self.near @ keep).tocsr())

    def with_diagonal(self, added: np.ndarray) -> "SparseOnHost":
        """Return the matrix with numbers added to its diagonal."""
        rows, others = self.rows.copy(), added.copy()
        rows[np.arange(len(self.dense)), self.dense] += added[self.dense]
        others[self.dense] = 0.0
        return replace(self, near=(self.near + sparse.diags(others)).tocsr(), rows=rows)

    def rising(self) -> "SparseOnHost":
        """Return the matrix, made positive definite by adding to its diagonal where it is not."""
        diagonal = self.diagonal
        positive = diagonal[diagonal > 0]
        floor = LEAST_EIGENVALUE * (float(np.median(positive)) if len(positive) else 1.0)
        lifted = self.with_diagonal(np.maximum(floor - diagonal, 0.0))
        missing = LEAST_EIGENVALUE - lifted.least_eigenvalue
        return lifted if missing <= 0 else lifted.with_diagonal(missing * lifted.diagonal)

    @property
    def least_eigenvalue(self) -> float:
        """The least eigenvalue of the matrix whose diagonal is scaled to 1, to some per cent."""
        scale, dim = 1 / np.sqrt(self.diagonal), len(self.diagonal)

        def scaled(vector: np.ndarray) -> np.ndarray:
            return scale * (self @ (scale * vector.ravel()))

        if dim < FEW:
            whole = np.column_stack([scaled(row) for row in np.eye(dim)])
            return float(np.linalg.eigvalsh(whole).min())
        operator = LinearOperator((dim, dim), matvec=scaled, dtype=float)
        start = np.random.default_rng(0).normal(size=dim)
        try:
            found = eigsh(operator, k=1, which="SA", tol=1e-2, v0=start, return_eigenvectors=False)
        except ArpackNoConvergence:
            return 0.0
        return float(found[0])
