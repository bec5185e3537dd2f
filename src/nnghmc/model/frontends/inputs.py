"""The choice of the arrays of a model that are inputs of compiled code.

An array that is an input has no value while the code is compiled. Some models need one: they count
groups in an index, or take a shape from a number. For these, fewer arrays are inputs.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

Built = TypeVar("Built")


def is_array(value: Any) -> bool:
    """Say whether a value is an array of numbers with axes."""
    return (
        isinstance(value, np.ndarray | jax.Array)
        and value.ndim > 0
        and bool(jnp.issubdtype(value.dtype, jnp.number) or value.dtype == bool)
    )


def is_floating_array(value: Any) -> bool:
    """Say whether a value is an array of real numbers, which no shape and no index depends on."""
    return is_array(value) and bool(jnp.issubdtype(value.dtype, jnp.floating))


def is_nothing(value: Any) -> bool:
    """Refuse every value: all arrays are constants of compiled code then."""
    return False


def with_most_inputs(
    build: Callable[[Callable[[Any], bool]], Built], attempt: Callable[[Built], Any]
) -> Built:
    """Build with as many arrays as inputs as `attempt` succeeds with, or else with none.

    An error of the model itself occurs without inputs too, and is reported by the caller.
    """
    for is_input in (is_array, is_floating_array):
        try:
            built = build(is_input)
            attempt(built)
        except Exception:  # a model may do anything; without inputs its error is reported
            continue
        return built
    return build(is_nothing)
