"""The number of floating-point operations, also inside loops and factorisations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nnghmc.platform.operations import COSTLY, count_operations

SIZE = 20
VECTOR, MATRIX = jnp.ones(SIZE), jnp.eye(SIZE)


def test_a_product_of_matrices_takes_two_operations_per_term():
    assert count_operations(lambda x: MATRIX @ x, VECTOR) == 2 * SIZE**2
    assert count_operations(lambda x: MATRIX @ x, MATRIX) == 2 * SIZE**3


def test_a_batch_takes_as_many_times_the_operations_of_one():
    def function(x):
        return jnp.sum(jnp.sin(MATRIX @ x))

    one, batch = count_operations(function, VECTOR), jnp.ones((7, SIZE))
    assert count_operations(jax.vmap(function), batch) == 7 * one


@pytest.mark.parametrize("compile_it", [False, True])
def test_a_loop_counts_as_often_as_it_runs(compile_it):
    def function(x):
        return jax.lax.scan(lambda state, _: (MATRIX @ state, None), x, None, length=100)[0]

    counted = count_operations(jax.jit(function) if compile_it else function, VECTOR)
    assert counted == pytest.approx(100 * 2 * SIZE**2, rel=0.05)


def test_the_dearest_branch_counts():
    def function(x):
        return jax.lax.cond(x[0] > 0, lambda x: MATRIX @ (MATRIX @ x), lambda x: x, x)

    assert count_operations(function, VECTOR) == pytest.approx(4 * SIZE**2, rel=0.1)


def test_factorisations_and_solves_of_triangular_systems_count():
    def factor(matrix):
        return jax.lax.linalg.cholesky(matrix, symmetrize_input=False)

    def solve(vectors):
        return jax.lax.linalg.triangular_solve(MATRIX, vectors, left_side=True, lower=True)

    assert count_operations(factor, jnp.eye(10 * SIZE)) == pytest.approx(
        (10 * SIZE) ** 3 / 3, rel=0.2
    )
    assert count_operations(solve, MATRIX) == pytest.approx(SIZE**3, rel=0.2)


def test_functions_such_as_the_exponential_take_more_than_a_sum():
    assert "exp" in COSTLY
    sums, powers = (count_operations(f, VECTOR) for f in (lambda x: x + x, jnp.exp))
    assert powers == 10 * sums == 10 * SIZE


def test_what_lies_outside_cannot_be_counted():
    def outside(x):
        shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return jax.pure_callback(np.sin, shape, x, vmap_method="sequential")

    assert np.isnan(count_operations(lambda x: jnp.sum(outside(x)) + 1, VECTOR))
