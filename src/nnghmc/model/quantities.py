"""Quantities computed from each draw: reported variables, log likelihoods, simulated data.

Draws are evaluated in batches, so that memory stays bounded however many of them there are, and
arrays that the functions hold are inputs of compiled code.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray, PyTree

from nnghmc.model.layout import ParameterLayout

BATCH_BYTES = 2**26
"""Upper bound on the size of the results of one batch, in bytes."""


class Quantities(eqx.Module):
    """The functions of a posterior that are evaluated at draws, not at every leapfrog step.

    `identity` is new for each posterior, so that no posterior runs code compiled for an older one,
    whose functions may have closed over other values.
    """

    constrain: Callable[[PyTree], PyTree] | None
    pointwise: Callable[[PyTree, PyTree], PyTree] | None
    predict: Callable[[PRNGKeyArray, PyTree, PyTree], PyTree] | None
    data: PyTree
    layout: ParameterLayout = eqx.field(static=True)
    identity: object = eqx.field(static=True, default_factory=object)

    def reported(self, position: Array) -> PyTree:
        """Return the reported variables of one draw."""
        assert self.constrain is not None
        return self.constrain(self.layout.unflatten(position))

    def log_likelihoods(self, position: Array) -> PyTree:
        """Return the log likelihood of every observation at one draw."""
        assert self.pointwise is not None
        return self.pointwise(self.layout.unflatten(position), self.data)

    def prediction(self, position: Array, number: Array, key: PRNGKeyArray) -> PyTree:
        """Simulate one data set at one draw; its random numbers depend on `key` and `number`."""
        assert self.predict is not None
        own_key = jax.random.fold_in(key, number)
        return self.predict(own_key, self.layout.unflatten(position), self.data)


def at_positions(
    function: Callable[..., PyTree],
    positions: np.ndarray,
    others: tuple[np.ndarray, ...] = (),
    *rest: Any,
) -> PyTree:
    """Evaluate a function of one position at positions of shape (..., dim), keeping leading axes.

    `others` have one row per position, and `rest` is the same for all of them.
    """
    leading, dim = positions.shape[:-1], positions.shape[-1]
    values = over_draws(function, (np.reshape(positions, (-1, dim)), *others), *rest)
    return jax.tree.map(lambda leaf: leaf.reshape(leading + leaf.shape[1:]), values)


def over_draws(
    function: Callable[..., PyTree],
    draws: tuple[np.ndarray, ...],
    *rest: Any,
    batch_bytes: int = BATCH_BYTES,
) -> Any:
    """Evaluate `function(*one draw, *rest)` for every draw.

    The first axis of every array in `draws` runs over the draws. The last batch is filled up with
    the last draw, so that all batches share compiled code.
    """
    number = len(draws[0])
    one = [jax.ShapeDtypeStruct(part.shape[1:], part.dtype) for part in draws]
    shapes = eqx.filter_eval_shape(function, *one, *rest)
    results = jax.tree.map(lambda leaf: np.empty((number, *leaf.shape), leaf.dtype), shapes)
    bytes_per_draw = sum(leaf.nbytes for leaf in jax.tree.leaves(results)) / max(number, 1)
    size = int(np.clip(batch_bytes // max(bytes_per_draw, 1), 1, max(number, 1)))
    for start in range(0, number, size):
        rows = np.minimum(np.arange(start, start + size), number - 1)
        batch = _batch(function, tuple(jnp.asarray(part[rows]) for part in draws), rest)
        for result, leaf in zip(jax.tree.leaves(results), jax.tree.leaves(batch), strict=True):
            result[start : start + size] = np.asarray(leaf)[: number - start]
    return results


@eqx.filter_jit
def _batch(function: Callable[..., PyTree], draws: tuple[Array, ...], rest: tuple) -> PyTree:
    return jax.vmap(lambda *one: function(*one, *rest))(*draws)
