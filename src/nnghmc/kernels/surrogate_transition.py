"""The surrogate transition: NUTS on the surrogate posterior proposes, the true potential corrects.

A transition of NUTS that leaves the surrogate posterior π̃ ∝ exp(-Ũ) unchanged, and is reversible,
proposes a position. It is accepted with probability min(1, w(q') / w(q)), where w = exp(Ũ - U).
That is a Metropolis-Hastings test, so the draws come from exp(-U), whatever Ũ is. A draw takes one
true potential, and the errors of the integrator cost no acceptance of the true test. Several
transitions in a row are reversible too, so they can make one proposal.

BlackJAX's NUTS is reversible. A trajectory is as likely to be built from any of its points, and
within it the choice of the next point satisfies detailed balance: it goes from one half of a
trajectory with weight V to the other with weight W with probability min(1, W / V), and picks a
point there in proportion to its weight.
"""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from blackjax.base import SamplingAlgorithm
from blackjax.mcmc.metrics import MetricTypes, default_metric
from blackjax.mcmc.nuts import NUTSInfo
from blackjax.mcmc.proposal import static_binomial_sampling
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from nnghmc.kernels.defensive_tails import DefensiveTails, Tails
from nnghmc.kernels.hmc import HMCInfo, HMCState
from nnghmc.kernels.leapfrog import Field, Path
from nnghmc.kernels.nuts import no_u_turn
from nnghmc.kernels.trajectories import SurrogateKernel
from nnghmc.kernels.tuning import Jittered, Tuning


class SurrogateState(NamedTuple):
    """The state of a chain: its position, and what the truth and the surrogate say there.

    `potential` is the true U. `learned_potential` and `gradient` are Ũ and ∇Ũ.
    """

    position: Float[Array, " dim"]
    potential: Float[Array, ""]
    gradient: Float[Array, " dim"]
    learned_potential: Float[Array, ""]


class _Proposed(NamedTuple):
    """The result of several transitions of NUTS in a row.

    `num_steps` counts the steps of all transitions, and `is_divergent` says whether any of them
    diverged. Everything else is that of the last transition.
    """

    end: HMCState
    momentum: Float[Array, " dim"]
    energy: Float[Array, ""]
    step_size: Float[Array, ""]
    num_steps: Int[Array, ""]
    is_divergent: Bool[Array, ""]

    @classmethod
    def nothing(cls, state: HMCState) -> "_Proposed":
        zero = jnp.zeros((), state.position.dtype)
        steps, divergent = jnp.zeros((), jnp.int32), jnp.asarray(False)
        return cls(state, jnp.zeros_like(state.position), zero, zero, steps, divergent)


def _proposed(
    trajectory: Callable[[PRNGKeyArray, HMCState], tuple[HMCState, NUTSInfo, Array]],
    transitions: Array | int,
    key: PRNGKeyArray,
    start: HMCState,
) -> _Proposed:
    """Make some transitions of NUTS in a row."""

    def again(number: Array, made: _Proposed) -> _Proposed:
        end, found, size = trajectory(jax.random.fold_in(key, number), made.end)
        return _Proposed(
            end,
            momentum=found.momentum,
            energy=found.energy,
            step_size=jnp.asarray(size, start.position.dtype),
            num_steps=made.num_steps + found.num_integration_steps,
            is_divergent=made.is_divergent | found.is_divergent,
        )

    return jax.lax.fori_loop(0, transitions, again, _Proposed.nothing(start))


def _with_tails(state: SurrogateState, shape: Tails) -> HMCState:
    """Return the state of a chain on a surrogate posterior that has these tails."""
    learned = state.learned_potential
    return HMCState(state.position, shape.flattened(learned), shape.slope(learned) * state.gradient)


def _as_learned(end: HMCState, shape: Tails, true: Array) -> SurrogateState:
    """Return a proposal with the true potential, and what was learned without these tails."""
    learned = shape.restored(end.potential)
    return SurrogateState(end.position, true, end.gradient / shape.slope(learned), learned)


def surrogate_transition(
    potential: Callable[[Array], Array],
    learned_potential_and_gradient: Field,
    step_size: Jittered[float],
    num_steps: Jittered[int],
    inverse_mass_matrix: MetricTypes,
    transitions: Array | int = 1,
    tails: DefensiveTails | None = None,
) -> SamplingAlgorithm:
    """Return the surrogate transition, with draws from exp(-potential).

    NUTS finds `num_steps`, which is ignored. A proposal takes some `transitions` of NUTS, and some
    have other `tails`. Energy errors are changes of U - Ũ, and divergences those of NUTS on the
    surrogate posterior as it was learned.
    """
    metric = default_metric(inverse_mass_matrix)
    defensive = DefensiveTails() if tails is None else tails

    def init(position: Array, rng_key: PRNGKeyArray | None = None) -> SurrogateState:
        learned, gradient = learned_potential_and_gradient(position)
        return SurrogateState(position, potential(position), gradient, learned)

    def step(rng_key: PRNGKeyArray, state: SurrogateState) -> tuple[SurrogateState, HMCInfo]:
        tails_key, propose_key, accept_key = jax.random.split(rng_key, 3)
        shape = defensive.drawn(tails_key)
        field = shape.on(learned_potential_and_gradient)
        trajectory = no_u_turn(field, step_size, num_steps, metric)
        start = _with_tails(state, shape)
        number = shape.transitions(transitions, state.position.size)
        found = _proposed(trajectory, number, propose_key, start)
        proposal = _as_learned(found.end, shape, potential(found.end.position))
        end_excess = proposal.potential - found.end.potential
        is_finite = jnp.isfinite(end_excess)
        change = jnp.where(is_finite, end_excess - (state.potential - start.potential), jnp.inf)
        after, (is_accepted, probability, _) = static_binomial_sampling(
            accept_key, -change, state, proposal
        )
        start_energy = state.potential + metric.kinetic_energy(found.momentum)
        info = HMCInfo(
            acceptance_rate=probability,
            is_accepted=is_accepted & jnp.any(proposal.position != state.position),
            is_divergent=found.is_divergent & shape.are_learned,
            is_nonfinite=~is_finite,
            energy=jnp.where(is_accepted, found.energy + end_excess, start_energy),
            energy_error=jnp.where(is_accepted, change, 0.0),
            proposed_energy_error=change,
            step_size=found.step_size,
            num_integration_steps=found.num_steps,
            path=Path.empty(0, state.position),
        )
        return after, info

    return SamplingAlgorithm(init, step)


class SurrogateTransition(SurrogateKernel):
    """NUTS on the surrogate posterior, corrected by one true potential per draw."""

    potential: Callable[[Array], Array]
    learned_potential_and_gradient: Field
    tuning: Tuning
    transitions: Int[Array, ""] | int = eqx.field(
        converter=lambda number: jnp.asarray(number, jnp.int32), default=1
    )
    tails: DefensiveTails = eqx.field(default_factory=DefensiveTails)

    def algorithm(
        self, step_size: Jittered[float], num_steps: Jittered[int], metric: MetricTypes
    ) -> SamplingAlgorithm:
        """Return the surrogate transition, which ignores the number of steps."""
        field = self.learned_potential_and_gradient
        return surrogate_transition(
            self.potential, field, step_size, num_steps, metric, self.transitions, self.tails
        )

    def init(self, position: Array, potential: Array | None = None) -> SurrogateState:
        """Return the state of one chain, with the learned potential and gradient."""
        known = self.potential(position) if potential is None else potential
        learned, gradient = self.learned_potential_and_gradient(position)
        return SurrogateState(position, known, gradient, learned)
