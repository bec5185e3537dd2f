"""Calls of NumPy functions from inside compiled code."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.experimental.buffer_callback import buffer_callback
from jaxtyping import Array, PyTree

from nnghmc.errors import PosteriorError
from nnghmc.model.layout import ParameterLayout
from nnghmc.platform.explanation import explain
from nnghmc.platform.precision import position_dtype


def like(position: Array, shape: tuple[int, ...]) -> jax.ShapeDtypeStruct:
    """Return a shape with the type of a position."""
    return jax.ShapeDtypeStruct(shape, position.dtype)


def called_back(function: Callable[[np.ndarray], Any], shapes: PyTree, position: Array) -> Any:
    """Call a NumPy function of positions of shape (..., dim).

    `shapes` are those of the results for a single position. Under vmap the function gets all
    positions at once.
    """
    if jax.default_backend() != "cpu":
        return jax.pure_callback(
            lambda position: _call(function, position, shapes),
            shapes,
            position,
            vmap_method="broadcast_all",
        )

    # pure_callback has JAX copy the position in another thread. Where there is a single core, which
    # the calling compiled code occupies, that thread never runs.
    def fill(_: Any, out: PyTree, position: Any) -> None:
        found = jax.tree.leaves(_call(function, position, shapes))
        for target, part in zip(jax.tree.leaves(out), found, strict=True):
            np.asarray(target)[...] = part

    return buffer_callback(fill, shapes, vmap_method="broadcast_all")(position)


def _call(function: Callable[[np.ndarray], Any], position: Any, shapes: PyTree) -> Any:
    """Call in double precision, and give the results the type of positions."""
    found = function(np.asarray(position).astype(np.float64))
    with np.errstate(over="ignore"):  # what is too large for single precision becomes infinite
        return jax.tree.map(lambda part, shape: part.astype(shape.dtype), found, shapes)


@dataclass(frozen=True, eq=False)
class Traceable:
    """A NumPy function of the parameters that JAX can trace; where it fails, it gives NaN."""

    function: Callable[[PyTree], PyTree]
    layout: ParameterLayout
    structure: Any
    shapes: tuple[tuple[int, ...], ...]

    @classmethod
    def of(
        cls, function: Callable[[PyTree], PyTree], layout: ParameterLayout, initial: np.ndarray
    ) -> "Traceable":
        """Call the function at the initial position, which shows what it returns."""
        try:
            first = function(layout.unflatten(initial.copy()))
            shapes = tuple(np.shape(np.asarray(part, float)) for part in jax.tree.leaves(first))
        except Exception as error:
            raise PosteriorError(
                f"constrain failed at the initial parameters: {explain(error)}."
            ) from error
        return cls(function, layout, jax.tree.structure(first), shapes)

    def __call__(self, parameters: PyTree) -> PyTree:
        """Return what the function returns, from inside compiled code."""
        position = self.layout.flatten(parameters, position_dtype())
        typed = [like(position, shape) for shape in self.shapes]
        return jax.tree.unflatten(self.structure, called_back(self._at_all, typed, position))

    def _at_all(self, positions: np.ndarray) -> list[np.ndarray]:
        """Return each part of the results at positions of shape (..., dim)."""
        found = [self._at_one(position) for position in positions.reshape(-1, self.layout.dim)]
        problems = [part for part in found if isinstance(part, str)]
        if problems:
            warnings.warn(
                f"constrain failed at {len(problems)} of {len(found)} draws, which are NaN in what "
                f"is reported: {problems[-1]}",
                stacklevel=2,
            )
        missing = [np.full(shape, np.nan) for shape in self.shapes]
        rows = [missing if isinstance(part, str) else part for part in found]
        stacked = (np.stack(part) for part in zip(*rows, strict=True))
        return [part.reshape(positions.shape[:-1] + part.shape[1:]) for part in stacked]

    def _at_one(self, position: np.ndarray) -> list[np.ndarray] | str:
        """Return each part of the results at one position, or what went wrong."""
        try:
            found = self.structure.flatten_up_to(self.function(self.layout.unflatten(position)))
            parts = [np.asarray(part, float) for part in found]
            return [part.reshape(shape) for part, shape in zip(parts, self.shapes, strict=True)]
        except Exception as error:
            return explain(error)
