"""NumPy functions inside compiled code."""

import warnings
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.experimental.buffer_callback import buffer_callback
from jaxtyping import Array, PyTree

from nnghmc.errors import PosteriorError
from nnghmc.frontends.workers import in_one_line
from nnghmc.parameters import ParameterLayout
from nnghmc.precision import position_dtype


def like(position: Array, shape: tuple[int, ...]) -> jax.ShapeDtypeStruct:
    """A shape, in the type of a position."""
    return jax.ShapeDtypeStruct(shape, position.dtype)


def called_back(function: Callable[[np.ndarray], Any], shapes: PyTree, position: Array) -> Any:
    """What a NumPy function of positions of shape (..., dim) returns.

    `shapes` are those for a single position. Under vmap the function gets all positions at once.
    """
    if jax.default_backend() != "cpu":
        return jax.pure_callback(
            lambda position: _call(function, position, shapes),
            shapes,
            position,
            vmap_method="broadcast_all",
        )

    # pure_callback would have JAX copy the position in another thread, and wait for ever for one
    # where there is a single core, and the compiled code that called has it.
    def fill(_: Any, out: PyTree, position: Any) -> None:
        found = jax.tree.leaves(_call(function, position, shapes))
        for target, part in zip(jax.tree.leaves(out), found, strict=True):
            np.asarray(target)[...] = part

    return buffer_callback(fill, shapes, vmap_method="broadcast_all")(position)


def _call(function: Callable[[np.ndarray], Any], position: Any, shapes: PyTree) -> Any:
    """In double precision; what comes back is in that of positions, too large numbers infinite."""
    found = function(np.asarray(position).astype(np.float64))
    with np.errstate(over="ignore"):
        return jax.tree.map(lambda part, shape: part.astype(shape.dtype), found, shapes)


def traceable(
    constrain: Callable[[PyTree], PyTree], layout: ParameterLayout, initial: np.ndarray
) -> Callable[[PyTree], PyTree]:
    """A NumPy function of the parameters that JAX can trace; where it fails it gives NaN."""
    try:
        first = constrain(layout.unflatten(initial.copy()))
        shapes = [np.shape(np.asarray(part, float)) for part in jax.tree.leaves(first)]
    except Exception as error:
        raise PosteriorError(
            f"constrain failed at the initial parameters: {in_one_line(error)}."
        ) from error
    structure: Any = jax.tree.structure(first)

    def of_one(position: np.ndarray) -> list[np.ndarray] | str:
        try:
            found = structure.flatten_up_to(constrain(layout.unflatten(position)))
            parts = [np.asarray(part, float) for part in found]
            return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]
        except Exception as error:
            return in_one_line(error)

    def of_all(positions: np.ndarray) -> list[np.ndarray]:
        found = [of_one(position) for position in positions.reshape(-1, layout.dim)]
        problems = [part for part in found if isinstance(part, str)]
        if problems:
            warnings.warn(
                f"constrain failed at {len(problems)} of {len(found)} draws, which are NaN in what "
                f"is reported: {problems[-1]}",
                stacklevel=2,
            )
        nothing = [np.full(shape, np.nan) for shape in shapes]
        rows = [nothing if isinstance(part, str) else part for part in found]
        stacked = (np.stack(part) for part in zip(*rows, strict=True))
        return [part.reshape(positions.shape[:-1] + part.shape[1:]) for part in stacked]

    def traced(parameters: PyTree) -> PyTree:
        position = layout.flatten(parameters, position_dtype())
        typed = [like(position, shape) for shape in shapes]
        return jax.tree.unflatten(structure, called_back(of_all, typed, position))

    return traced
