"""Makes the draws of all chains at once in compiled chunks, and moves each chunk to the host.

A chunk is a compiled loop over some draws. Between chunks the host takes the draws off the device,
so that device memory does not grow with their number. It also updates the progress bar, and may
stop. The random numbers of a draw depend only on the seed and its number, so the same seed gives
the same draws for any chunk size.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from nnghmc.engine.history import Draws
from nnghmc.kernels.base import Kernel
from nnghmc.platform.compilation import compiled

SECONDS_PER_CHUNK = 0.25
"""Time that a chunk should take."""
MOST_BYTES_PER_CHUNK = 64 * 2**20
"""Largest size of the positions of a chunk."""
MOST_DRAWS_PER_CHUNK = 1000
"""Largest number of draws per chain in a chunk."""
LARGEST_GROWTH = 8.0
"""Largest ratio between the lengths of a chunk and of the one before it."""


def capacity(kernel: Kernel, states: Any) -> int:
    """Return how many draws per chain fit into a chunk.

    The number does not depend on the user's chunk size, so that compiled code stays the same.
    """
    bytes_per_draw = states.position.nbytes * (1 + 2 * kernel.recorded_positions)
    return int(np.clip(MOST_BYTES_PER_CHUNK // bytes_per_draw, 1, MOST_DRAWS_PER_CHUNK))


def next_size(size: int, seconds: float) -> int:
    """Return the size of the next chunk, after a chunk of `size` draws took `seconds`."""
    growth = min(SECONDS_PER_CHUNK / max(seconds, 1e-9), LARGEST_GROWTH)
    return max(1, int(size * growth))


def make_chunk(
    kernel: Kernel,
    key: PRNGKeyArray,
    states: Any,
    first: int,
    size: int,
    *,
    quick: bool = False,
) -> tuple[Any, Draws]:
    """Make `size` draws, numbered from `first`, and bring them to the host.

    With `quick` the code compiles in half the time and runs somewhat slower.
    """
    room = capacity(kernel, states)
    numbers = (jnp.asarray(first), jnp.asarray(size))
    states, rows = _chunk(kernel, key, states, *numbers, room, quick=quick)
    return states, jax.tree.map(lambda part: np.asarray(part)[:size], rows)


@compiled
def _chunk(
    kernel: Kernel, key: PRNGKeyArray, states: Any, first: Array, size: Array, room: int
) -> tuple[Any, Draws]:
    """Make `size` draws in arrays with `room` rows.

    `size` is an input rather than a constant, so that chunks of any size share one compilation.
    """
    step = kernel.all_chains()

    def one_draw(draw_key: PRNGKeyArray, states: Any) -> tuple[Any, Draws]:
        states, info = step(draw_key, states)
        statistics = {"lp": -states.potential, **kernel.statistics(info)}
        return states, Draws(states.position, statistics, kernel.recorded(info))

    # The shapes are needed before the loop; converting the closure avoids tracing it twice.
    traced = eqx.filter_closure_convert(one_draw, key, states)
    _, shapes = eqx.filter_eval_shape(traced, key, states)
    empty = jax.tree.map(lambda part: jnp.zeros((room, *part.shape), part.dtype), shapes)

    def body(row: Array, carry: tuple[Any, Draws]) -> tuple[Any, Draws]:
        states, rows = carry
        states, draws = traced(jax.random.fold_in(key, first + row), states)
        return states, jax.tree.map(lambda part, new: part.at[row].set(new), rows, draws)

    return jax.lax.fori_loop(0, size, body, (states, empty))


@compiled
def evaluate_all(function: Callable[[Array], Any], positions: Array) -> Any:
    """Evaluate a function of one position at the position of every chain."""
    return jax.vmap(function)(positions)


@compiled
def initial_states(kernel: Kernel, positions: Array, potentials: Array | None = None) -> Any:
    """Return the states of all chains at these positions."""
    if potentials is None:
        return jax.vmap(kernel.init)(positions)
    return jax.vmap(kernel.init)(positions, potentials)
