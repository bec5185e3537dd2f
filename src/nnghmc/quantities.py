"""What is computed of each draw: the variables reported, log likelihoods, simulated data.

Draws go through in batches, so that memory stays bounded however many of them there are, and
arrays that the functions hold are inputs of compiled code.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray, PyTree

from nnghmc.parameters import ParameterLayout

BATCH_BYTES = 2**26


class Quantities(eqx.Module):
    """The functions of a posterior that are evaluated at draws, not at every step.

    `made` is new for each posterior, so that compiled code is never that of an older one whose
    functions have seen other values of what they close over.
    """

    constrain: Callable[[PyTree], PyTree] | None
    pointwise: Callable[[PyTree, PyTree], PyTree] | None
    predict: Callable[[PRNGKeyArray, PyTree, PyTree], PyTree] | None
    data: PyTree
    layout: ParameterLayout = eqx.field(static=True)
    made: object = eqx.field(static=True, default_factory=object)

    def reported(self, position: Array) -> PyTree:
        """What is reported of one draw."""
        assert self.constrain is not None
        return self.constrain(self.layout.unflatten(position))

    def log_likelihoods(self, position: Array) -> PyTree:
        """The log likelihood of every observation at one draw."""
        assert self.pointwise is not None
        return self.pointwise(self.layout.unflatten(position), self.data)

    def prediction(self, position: Array, number: Array, key: PRNGKeyArray) -> PyTree:
        """One simulated data set at one draw, whose randomness depends on its number alone."""
        assert self.predict is not None
        own_key = jax.random.fold_in(key, number)
        return self.predict(own_key, self.layout.unflatten(position), self.data)


def over_draws(function: Callable[..., PyTree], draws: tuple[np.ndarray, ...], *rest: Any) -> Any:
    """`function(*one draw, *rest)` for every draw; `draws` are arrays with a common first axis.

    The last batch is filled up with the last draw, so that all batches share compiled code.
    """
    number = len(draws[0])
    one = [jax.ShapeDtypeStruct(part.shape[1:], part.dtype) for part in draws]
    shapes = eqx.filter_eval_shape(function, *one, *rest)
    results = jax.tree.map(lambda leaf: np.empty((number, *leaf.shape), leaf.dtype), shapes)
    bytes_of_one = sum(leaf.nbytes for leaf in jax.tree.leaves(results)) / max(number, 1)
    size = int(np.clip(BATCH_BYTES // max(bytes_of_one, 1), 1, max(number, 1)))
    for start in range(0, number, size):
        rows = np.minimum(np.arange(start, start + size), number - 1)
        batch = _batch(function, tuple(jnp.asarray(part[rows]) for part in draws), rest)
        for result, leaf in zip(jax.tree.leaves(results), jax.tree.leaves(batch), strict=True):
            result[start : start + size] = np.asarray(leaf)[: number - start]
    return results


@eqx.filter_jit
def _batch(function: Callable[..., PyTree], draws: tuple[Array, ...], rest: tuple) -> PyTree:
    return jax.vmap(lambda *one: function(*one, *rest))(*draws)
