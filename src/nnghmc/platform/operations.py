"""Counts the floating-point operations of a function, also inside its loops.

XLA counts a loop as one pass, and calls of LAPACK as nothing, so that the solver of a differential
equation looks cheap. Here loops of known length count as often as they run. The count is rough, but
it is the same on every machine, so that what is decided by it does not change the draws.
"""

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
from jax.extend.core import jaxprs_in_params

OUTSIDE = frozenset({"pure_callback", "io_callback", "buffer_callback", "ffi_call"})
"""Operations that leave JAX, where nothing can be counted."""
COSTLY = frozenset(
    {"exp", "exp2", "expm1", "log", "log1p", "logistic", "tanh", "sin", "cos", "tan", "pow", "erf"}
    | {"erf_inv", "lgamma", "digamma", "atan2", "cbrt"}
)
"""Functions that take about ten operations per element."""
PER_CUBE = {"cholesky": 1 / 3, "lu": 2 / 3, "qr": 4 / 3, "eigh": 9.0, "svd": 12.0, "eig": 25.0}
"""Factorisations, and their operations as multiples of the cube of the matrix size."""


def count_operations(function: Callable[..., Any], *arguments: Any) -> float:
    """Return the number of operations of one call; NaN if a part lies outside JAX."""
    arrays, rest = eqx.partition(function, eqx.is_array)

    def of_arrays(arrays: Any, *arguments: Any) -> Any:
        return eqx.combine(arrays, rest)(*arguments)

    return _of_program(jax.make_jaxpr(of_arrays)(arrays, *arguments).jaxpr)


def _of_program(program: Any) -> float:
    return float(sum(map(_of_operation, program.eqns)))


def _of_operation(operation: Any) -> float:
    name, result = operation.primitive.name, operation.outvars[0].aval
    if name in OUTSIDE:
        return math.nan
    within = [_of_program(program) for program in jaxprs_in_params(operation.params)]
    if name == "scan":
        return float(operation.params["length"] * sum(within))
    if name == "cond":
        return max(within)
    if within:
        return sum(within)
    size = float(math.prod(getattr(result, "shape", ())))
    if name == "dot_general":
        (contracted, _), _ = operation.params["dimension_numbers"]
        shape = operation.invars[0].aval.shape
        return 2 * size * math.prod(shape[axis] for axis in contracted)
    if name == "triangular_solve":
        return size * operation.invars[0].aval.shape[-1]
    if name in PER_CUBE:
        shape = operation.invars[0].aval.shape
        return PER_CUBE[name] * math.prod(shape) * min(shape[-2:])
    return 10 * size if name in COSTLY else size
