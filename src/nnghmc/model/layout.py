"""How a pytree of parameters lies in one flat vector, and what its parts are called."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

NAME_OF_A_BARE_ARRAY = "x"


def named_leaves(tree: PyTree) -> dict[str, Any]:
    """Return the leaves of a pytree by name: dictionary keys, joined by dots where nested."""
    with_paths, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {_name(path): leaf for path, leaf in with_paths}


def _name(path: tuple) -> str:
    return jax.tree_util.keystr(path, simple=True, separator=".") or NAME_OF_A_BARE_ARRAY


@dataclass(frozen=True)
class ParameterLayout:
    """The place of every variable in the flat vector.

    It is hashable, so that compiled code can be reused.
    """

    treedef: Any
    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, tree: PyTree) -> "ParameterLayout":
        """Return the layout of a parameter pytree; only its structure and shapes matter."""
        with_paths, treedef = jax.tree_util.tree_flatten_with_path(tree)
        names = tuple(_name(path) for path, _ in with_paths)
        return cls(treedef, names, tuple(tuple(np.shape(leaf)) for _, leaf in with_paths))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Return the number of coordinates of each variable."""
        return tuple(int(np.prod(shape)) for shape in self.shapes)

    @property
    def dim(self) -> int:
        """Return the length of the flat vector."""
        return sum(self.sizes)

    @property
    def coordinate_names(self) -> list[str]:
        """Return a name for each coordinate of the flat vector, such as `beta[2]`."""
        return [
            f"{name}{list(index) if index else ''}"
            for name, shape in zip(self.names, self.shapes, strict=True)
            for index in np.ndindex(shape)
        ]

    def flatten(self, tree: PyTree, dtype: Any) -> Array:
        """Return a parameter pytree as one vector of shape (dim,)."""
        leaves = jax.tree_util.tree_leaves(tree)
        return jnp.concatenate([jnp.ravel(jnp.asarray(leaf, dtype)) for leaf in leaves])

    def unflatten(self, positions: Any) -> PyTree:
        """Return positions of shape (..., dim) as a parameter pytree; leading axes are kept."""
        ends = np.cumsum(self.sizes)
        leading = positions.shape[:-1]
        leaves = [
            positions[..., end - size : end].reshape(leading + shape)
            for size, end, shape in zip(self.sizes, ends, self.shapes, strict=True)
        ]
        return jax.tree_util.tree_unflatten(self.treedef, leaves)
