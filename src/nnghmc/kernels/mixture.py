"""Mixes two kernels: with a fixed probability the rare one makes the draw."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from nnghmc.kernels.base import (
    Evaluations,
    Kernel,
    Statistics,
    Transition,
    number_of_draws,
    step_alone,
)

COMPONENT = "component"
"""Name of the statistic that tells which kernel made a draw: 0 is the usual one, 1 the rare one."""


class Mixture(Kernel):
    """A kernel that uses one kernel for most draws and another for the rest, chosen at random.

    Both leave the posterior unchanged, and so does their mixture, because the choice does not
    depend on where the chains are. All chains share the choice, so that the rare kernel costs
    nothing in the other draws. The state is that of the usual kernel. Both kernels must have the
    same statistics.
    """

    usual: Kernel
    rare: Kernel
    probability: Float[Array, ""] | float = eqx.field(converter=lambda p: jnp.asarray(p, float))

    def init(self, position: Array, potential: Array | None = None) -> Any:
        """Return the state of the usual kernel."""
        return self.usual.init(position, potential)

    def step(self, key: PRNGKeyArray, state: Any) -> tuple[Any, Any]:
        """Make one transition of one chain."""
        return step_alone(self.all_chains(), key, state)

    def all_chains(self) -> Transition:
        """Return the transition of all chains, which share the choice of the kernel."""
        usual, rare = self.usual.all_chains(), self.rare.all_chains()

        def by_usual(key: PRNGKeyArray, states: Any) -> tuple[Any, dict[str, Array]]:
            states, info = usual(key, states)
            return states, self._labelled(self.usual.statistics(info), 0)

        def by_rare(key: PRNGKeyArray, states: Any) -> tuple[Any, dict[str, Array]]:
            entered = jax.vmap(self.rare.init)(states.position, states.potential)
            moved, info = rare(key, entered)
            back = jax.vmap(self.usual.init)(moved.position, moved.potential)
            return back, self._labelled(self.rare.statistics(info), 1)

        def step(key: PRNGKeyArray, states: Any) -> tuple[Any, dict[str, Array]]:
            coin_key, move_key = jax.random.split(key)
            coin = jax.random.uniform(coin_key) < self.probability
            return jax.lax.cond(coin, by_rare, by_usual, move_key, states)

        return step

    def _labelled(self, statistics: dict[str, Array], component: int) -> dict[str, Array]:
        """Add the number of the kernel to its statistics."""
        like = next(iter(statistics.values()))
        return {**statistics, COMPONENT: jnp.full(like.shape, component, jnp.int32)}

    def statistics(self, info: dict[str, Array]) -> dict[str, Array]:
        """Return the statistics of the kernel that made the draw, with its number."""
        return info

    def recorded(self, info: dict[str, Array]) -> PyTree:
        """Return None: a mixture records no paths."""
        return None

    def evaluations(self, statistics: Statistics) -> Evaluations:
        """Return the evaluations of both kernels, and those of switching between them."""
        rare = statistics[COMPONENT] == 1
        parts = [{name: part[rows] for name, part in statistics.items()} for rows in (~rare, rare)]
        switches = (self.usual.entering + self.rare.entering).times(number_of_draws(parts[1]))
        return self.usual.evaluations(parts[0]) + self.rare.evaluations(parts[1]) + switches

    @property
    def entering(self) -> Evaluations:
        """The evaluations that `init` of the usual kernel takes if the potential is known."""
        return self.usual.entering
