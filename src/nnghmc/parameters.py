"""How a pytree of parameters lies in one flat vector, and what its parts are called."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

NAME_OF_A_BARE_ARRAY = "x"


def named_leaves(tree: PyTree) -> dict[str, Any]:
    """The leaves of a pytree by name: dictionary keys, joined by dots where nested."""
    with_paths, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {_name(path): leaf for path, leaf in with_paths}


def _name(path: tuple) -> str:
    return jax.tree_util.keystr(path, simple=True, separator=".") or NAME_OF_A_BARE_ARRAY


@dataclass(frozen=True)
class ParameterLayout:
    """The place of every variable in the flat vector. Hashable, so compiled code can be reused."""

    treedef: Any
    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, tree: PyTree) -> "ParameterLayout":
        """The layout of a parameter pytree; only its structure and shapes matter."""
        leaves = named_leaves(tree)
        shapes = tuple(tuple(np.shape(leaf)) for leaf in leaves.values())
        return cls(jax.tree_util.tree_structure(tree), tuple(leaves), shapes)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of coordinates of each variable."""
        return tuple(int(np.prod(shape)) for shape in self.shapes)

    @property
    def dim(self) -> int:
        """The length of the flat vector."""
        return sum(self.sizes)

    def flatten(self, tree: PyTree, dtype: Any) -> Array:
        """One vector of shape (dim,) from a parameter pytree."""
        leaves = jax.tree_util.tree_leaves(tree)
        return jnp.concatenate([jnp.ravel(jnp.asarray(leaf, dtype)) for leaf in leaves])

    def unflatten(self, positions: Any) -> PyTree:
        """The parameter pytree of positions of shape (..., dim); leading axes are kept."""
        ends = np.cumsum(self.sizes)
        leading = positions.shape[:-1]
        leaves = [
            positions[..., end - size : end].reshape(leading + shape)
            for size, end, shape in zip(self.sizes, ends, self.shapes, strict=True)
        ]
        return jax.tree_util.tree_unflatten(self.treedef, leaves)


def named_scalars(variables: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Variables (chains, draws, ...) taken apart: one entry (chains, draws) a scalar."""
    return {
        f"{name}{list(index) if index else ''}": values[(..., *index)]
        for name, values in variables.items()
        for index in np.ndindex(values.shape[2:])
    }
