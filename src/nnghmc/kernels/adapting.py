"""NUTS that adapts its step size after every draw, for warm-ups."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from blackjax.adaptation.step_size import DualAveragingAdaptationState, dual_averaging_adaptation
from blackjax.mcmc.metrics import default_metric
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from nnghmc.kernels.base import Evaluations, Kernel, Statistics, Transition
from nnghmc.kernels.hmc import HMCInfo, HMCState
from nnghmc.kernels.leapfrog import Field
from nnghmc.kernels.nuts import NoUTurn
from nnghmc.kernels.tuning import Tuning

ACCEPTANCE_LEAD = 0.3
"""Largest lead of the mean acceptance over that of the worst chain. A chain that accepts much less
than the others is in a narrow region, and the step size must suit that region too."""


class AdaptingState(NamedTuple):
    """The state of a chain of NUTS, with the dual averaging that all chains share."""

    position: Float[Array, " dim"]
    potential: Float[Array, ""]
    gradient: Float[Array, " dim"]
    averaging: DualAveragingAdaptationState


class AdaptingNoUTurn(Kernel):
    """The no-U-turn sampler with BlackJAX's dual averaging of the step size.

    All chains share the step size, and adapt it to their acceptance together. A kernel that adapts
    leaves no distribution unchanged, so it makes no kept draws. It records every draw with its
    potential and gradient.
    """

    potential_and_gradient: Field
    tuning: Tuning
    target_acceptance: Float[Array, ""]

    @property
    def sampler(self) -> NoUTurn:
        """The sampler whose step size is adapted."""
        return NoUTurn(self.potential_and_gradient, self.tuning, record_draws=True)

    def init(self, position: Array, potential: Array | None = None) -> AdaptingState:
        """Return the state of one chain, whose dual averaging starts at the tuned step size."""
        start, _, _ = dual_averaging_adaptation(self.target_acceptance)
        return AdaptingState(*self.sampler.init(position, potential), start(self.tuning.step_size))

    def step(self, key: PRNGKeyArray, state: AdaptingState) -> tuple[AdaptingState, HMCInfo]:
        """Make one transition of one chain, and adapt to it."""
        states = jax.tree.map(lambda part: jnp.asarray(part)[jnp.newaxis], state)
        after = self.all_chains()(key, states)
        return jax.tree.map(lambda part: part[0], after)

    def all_chains(self) -> Transition:
        """Return the transition of all chains, which adapts the step size they share."""
        metric = default_metric(self.tuning.inverse_mass_matrix)
        _, update, _ = dual_averaging_adaptation(self.target_acceptance)

        def step(key: PRNGKeyArray, states: AdaptingState) -> tuple[AdaptingState, HMCInfo]:
            keys = jax.random.split(key, len(states.position))
            shared = jax.tree.map(lambda part: part[0], states.averaging)
            step_size = jnp.exp(shared.log_step_size)
            sampler = self.sampler.algorithm(step_size, self.tuning.num_steps, metric)
            moved, info = jax.vmap(sampler.step)(keys, HMCState(*states[:3]))
            rates = jnp.nan_to_num(info.acceptance_rate)
            rate = jnp.minimum(rates.mean(), rates.min() + ACCEPTANCE_LEAD)
            updated = update(shared, rate)
            spread = jax.tree.map(
                lambda old, new: jnp.broadcast_to(new, old.shape).astype(old.dtype),
                states.averaging,
                updated,
            )
            return AdaptingState(moved.position, moved.potential, moved.gradient, spread), info

        return step

    def settled_step_size(self, states: AdaptingState) -> float:
        """Return the step size that the dual averaging has settled on."""
        return float(jnp.exp(states.averaging.log_step_size_avg[0]))

    def statistics(self, info: HMCInfo) -> dict[str, Array]:
        """Return the statistics of NUTS."""
        return self.sampler.statistics(info)

    def recorded(self, info: Any) -> PyTree:
        """Return the draw with its potential and gradient."""
        return self.sampler.recorded(info)

    @property
    def recorded_positions(self) -> int:
        """The number of recorded positions: one, the draw."""
        return self.sampler.recorded_positions

    def evaluations(self, statistics: Statistics) -> Evaluations:
        """Return the evaluations of NUTS."""
        return self.sampler.evaluations(statistics)

    @property
    def entering(self) -> Evaluations:
        """The evaluations of entering NUTS."""
        return self.sampler.entering
