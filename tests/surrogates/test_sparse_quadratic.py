"""The sparse quadratic: its matrix, its local terms, and what it learns of many groups."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import sparse

from nnghmc import GradientData, SparseQuadratic, fit
from nnghmc.surrogates.parts.local_terms import (
    LocalTerms,
    gradients_of_bends,
    gradients_of_terms,
)
from nnghmc.surrogates.parts.sparse_matrix import Neighbours, SparseOnHost

KEY = jax.random.key(0)
DIM, DENSE = 12, np.array([0, 7])


def arrow(seed=0):
    """A matrix of blocks with two dense rows, by its parts and whole."""
    generator = np.random.default_rng(seed)
    whole = np.zeros((DIM, DIM))
    for first in (1, 3, 5, 8, 10):
        block = generator.normal(size=(2, 2))
        whole[first : first + 2, first : first + 2] = block @ block.T + np.eye(2)
    near = sparse.csr_matrix(whole)
    whole[DENSE] = generator.normal(size=(2, DIM))
    whole[:, DENSE] = whole[DENSE].T
    whole[np.ix_(DENSE, DENSE)] = [[5.0, 0.3], [0.3, 4.0]]
    return SparseOnHost.of_entries(near, DENSE, whole[DENSE]), whole


def test_products_are_those_of_the_whole_matrix():
    matrix, whole = arrow()
    vector = np.random.default_rng(1).normal(size=DIM)
    np.testing.assert_allclose(matrix @ vector, whole @ vector)
    np.testing.assert_allclose(matrix.on_device() @ jnp.asarray(vector), whole @ vector)
    np.testing.assert_allclose(matrix.of_rows(np.eye(DIM)), whole)
    np.testing.assert_allclose(matrix.diagonal, np.diag(whole))
    back = SparseOnHost.of(matrix.on_device())
    np.testing.assert_allclose(back.of_rows(np.eye(DIM)), whole)
    assert matrix.on_device().size < DIM**2 / 2


def test_entries_know_where_the_exchanged_entry_is():
    matrix, whole = arrow()
    columns, entries = np.asarray(matrix.neighbours.columns), matrix.neighbours.entries
    np.testing.assert_array_equal(columns[entries.rows, entries.places], entries.columns)
    np.testing.assert_array_equal(columns[entries.columns, entries.back], entries.rows)
    near = [n for n in range(DIM) if n not in DENSE]
    assert len(entries.rows) == np.count_nonzero(whole[np.ix_(near, near)]) + len(DENSE)


def test_values_are_added_to_both_halves_outside_the_dense_rows():
    matrix, whole = arrow()
    pairs = matrix.neighbours.pairs
    added = np.arange(1.0, 1 + len(pairs.rows))
    expected = whole.copy()
    for row, column, value in zip(pairs.rows, pairs.columns, added, strict=True):
        if row not in DENSE:
            expected[row, column] += value
            expected[column, row] += value * (row != column)
    np.testing.assert_allclose(matrix.plus(pairs, added).of_rows(np.eye(DIM)), expected)


@pytest.mark.parametrize("dim", [12, 40])
def test_a_matrix_that_falls_somewhere_is_lifted(dim):
    falling = np.eye(dim) + 3 * np.eye(dim, k=1) + 3 * np.eye(dim, k=-1)
    falling[3, 3] = -2.0
    nothing = np.empty(0, int), np.empty((0, dim))
    matrix = SparseOnHost.of_entries(sparse.csr_matrix(falling), *nothing)
    lifted = matrix.rising().of_rows(np.eye(dim))
    assert np.linalg.eigvalsh(lifted).min() > -0.05 * np.abs(lifted).max()
    np.testing.assert_array_equal(
        lifted - np.diag(np.diag(lifted)), falling - np.diag(np.diag(falling))
    )
    good, whole = arrow()
    if np.linalg.eigvalsh(whole).min() > 0.1:
        np.testing.assert_array_equal(good.rising().of_rows(np.eye(DIM)), whole)


def test_local_terms_have_their_own_gradient_and_stay_bounded():
    generator = np.random.default_rng(2)
    matrix, _ = arrow()
    number = len(matrix.neighbours.entries.rows) + DIM
    terms = LocalTerms.of(
        generator.normal(size=DIM),
        generator.uniform(0.5, 2, DIM),
        matrix.neighbours,
        generator.normal(size=number),
    )
    positions = jnp.asarray(generator.normal(size=(5, DIM)) * 2)
    values, gradients = jax.vmap(terms.value_and_gradient)(positions)
    expected = jax.vmap(jax.grad(lambda q: terms.value_and_gradient(q)[0]))(positions)
    np.testing.assert_allclose(gradients, expected, rtol=1e-9, atol=1e-9)
    far = terms.value_and_gradient(1e6 * positions[0])
    assert np.isfinite(far[0])
    np.testing.assert_allclose(far[1], 0, atol=1e-9)
    assert np.ptp(values) > 1


def test_columns_of_the_least_squares_are_gradients_of_the_terms():
    matrix, _ = arrow()
    entries, pairs = matrix.neighbours.entries, matrix.neighbours.pairs
    white = np.random.default_rng(3).normal(size=(4, DIM))
    columns = gradients_of_terms(white, entries).toarray()
    for number in (0, 5, len(entries.rows) - 1, len(entries.rows) + 2):
        coefficients = np.zeros(columns.shape[1])
        coefficients[number] = 1.0
        term = LocalTerms.of(np.zeros(DIM), np.ones(DIM), matrix.neighbours, coefficients)
        gradients = jax.vmap(lambda q, term=term: term.value_and_gradient(q)[1])(jnp.asarray(white))
        np.testing.assert_allclose(columns[:, number], np.ravel(gradients), atol=1e-12)
    bends = gradients_of_bends(white, pairs).toarray()
    for number in range(len(pairs.rows)):
        row, column = pairs.rows[number], pairs.columns[number]
        expected = np.zeros((4, DIM))
        expected[:, row] += white[:, column]
        if row != column:
            expected[:, column] += white[:, row]
        np.testing.assert_allclose(bends[:, number], expected.ravel())


def of_groups(groups=60):
    """A skewed potential of pairs, which all meet one further input."""

    def potential(q):
        first, second = q[1::2], q[2::2]
        linear = first + 0.6 * second + 0.05 * q[0]
        return jnp.sum(4 * jax.nn.softplus(linear) - 2 * linear + 0.3 * second**2) + q[0] ** 2

    return potential, 1 + 2 * groups


def data_of(potential, positions):
    values, gradients = jax.vmap(jax.value_and_grad(potential))(jnp.asarray(positions))
    return GradientData.of_points(positions, np.asarray(gradients), np.asarray(values))


def test_errors_that_add_up_over_groups_are_learned_from_few_points():
    potential, dim = of_groups()
    hessian = np.asarray(jax.hessian(potential)(jnp.full(dim, 0.2)))
    near = hessian.copy()
    near[0] = near[:, 0] = 0.0
    matrix = SparseOnHost.of_entries(sparse.csr_matrix(near), np.array([0]), hessian[:1])
    model, centre = SparseQuadratic(), np.full(dim, 0.2)
    slope = np.asarray(jax.grad(potential)(jnp.asarray(centre)))
    before = model.at_point(centre, slope, matrix)
    positions = centre + 0.7 * np.random.default_rng(0).normal(size=(48, dim))
    after = fit(model, data_of(potential, positions), KEY, before=before).learned
    unseen = centre + 0.7 * np.random.default_rng(1).normal(size=(200, dim))
    errors = [
        np.std(np.asarray(jax.vmap(part.potential)(unseen) - jax.vmap(potential)(unseen)))
        for part in (before, after)
    ]
    assert errors[0] > 0.5
    assert errors[1] < 0.4 * errors[0]


def test_far_from_all_points_the_quadratic_is_left():
    potential, dim = of_groups(10)
    positions = np.random.default_rng(0).normal(size=(60, dim))
    learned = fit(SparseQuadratic(), data_of(potential, positions), KEY).learned
    far = jnp.full(dim, 1e4)
    away = far - learned.centre
    quadratic = learned.slope @ away + 0.5 * away @ (learned.hessian @ away)
    assert learned.potential(far) == pytest.approx(float(quadratic), rel=1e-3)
    assert quadratic > 0


def test_a_pattern_of_nothing_but_the_diagonal_has_no_neighbours():
    neighbours = Neighbours.of_pattern(sparse.identity(4, format="csr"))
    np.testing.assert_array_equal(neighbours.columns, np.arange(4)[:, np.newaxis])
