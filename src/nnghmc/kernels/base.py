"""Defines what a kernel is: one Markov transition with its statistics and its cost.

A kernel is a pytree, so that the arrays in it (data, weights, step sizes) are inputs of compiled
code. Two kernels that differ only in their numbers share one compilation.
"""

import abc
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

Statistics = Mapping[str, np.ndarray]
"""Statistics of draws by ArviZ's names; all arrays have the same shape."""


class State(Protocol):
    """The attributes that every state has; a kernel may add others."""

    @property
    def position(self) -> Float[Array, " dim"]:
        """The current position of the chain."""

    @property
    def potential(self) -> Float[Array, ""]:
        """The true potential at the position, or NaN for a kernel that never evaluates it."""


Transition = Callable[[PRNGKeyArray, Any], tuple[Any, Any]]
"""(key, state) -> (state, info)."""


@dataclass(frozen=True)
class Evaluations:
    """Numbers of evaluations by kind.

    Evaluating a true gradient also gives the potential, and counts once, as a gradient.
    `batch_gradients` are gradients of mini-batches.
    """

    true_potentials: int = 0
    true_gradients: int = 0
    learned_gradients: int = 0
    batch_gradients: int = 0

    def __add__(self, other: "Evaluations") -> "Evaluations":
        return Evaluations(
            self.true_potentials + other.true_potentials,
            self.true_gradients + other.true_gradients,
            self.learned_gradients + other.learned_gradients,
            self.batch_gradients + other.batch_gradients,
        )

    def times(self, number: int) -> "Evaluations":
        """Return the same evaluations made `number` times."""
        return Evaluations(
            number * self.true_potentials,
            number * self.true_gradients,
            number * self.learned_gradients,
            number * self.batch_gradients,
        )


class Kernel(eqx.Module):
    """One Markov transition that leaves the posterior unchanged, or nearly so if it is not exact.

    A kernel must define `init`, `step`, `statistics` and `evaluations`. The others have defaults.
    """

    @abc.abstractmethod
    def init(self, position: Array, potential: Array | None = None) -> Any:
        """Return the state of one chain at a position; `potential` is passed if it is known."""

    @abc.abstractmethod
    def step(self, key: PRNGKeyArray, state: Any) -> tuple[Any, Any]:
        """Make one transition of one chain: (key, state) -> (state, info)."""

    @abc.abstractmethod
    def statistics(self, info: Any) -> dict[str, Array]:
        """Return the statistics of one transition, scalars by ArviZ's names."""

    @abc.abstractmethod
    def evaluations(self, statistics: Statistics) -> Evaluations:
        """Return the evaluations that draws with these statistics took, over all chains."""

    def all_chains(self) -> Transition:
        """Return the transition of all chains.

        What all draws share is computed here, once. By default the chains step independently.
        """

        def step(key: PRNGKeyArray, states: Any) -> tuple[Any, Any]:
            return jax.vmap(self.step)(jax.random.split(key, len(states.position)), states)

        return step

    def recorded(self, info: Any) -> PyTree:
        """Return further arrays of a transition for the phase that runs the kernel, or None."""
        return None

    @property
    def recorded_positions(self) -> int:
        """The number of positions in `recorded`, which limits how many draws memory can hold."""
        return 0

    @property
    def entering(self) -> Evaluations:
        """The evaluations that `init` takes if the potential is known."""
        return Evaluations()


def step_alone(transition: Transition, key: PRNGKeyArray, state: Any) -> tuple[Any, Any]:
    """Make one transition of one chain by the transition of all chains."""
    states = jax.tree.map(lambda part: jnp.asarray(part)[jnp.newaxis], state)
    return jax.tree.map(lambda part: part[0], transition(key, states))


def number_of_draws(statistics: Statistics) -> int:
    """Return the number of draws that the statistics belong to, over all chains."""
    return int(next(iter(statistics.values())).size)
