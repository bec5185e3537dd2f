"""The no-U-turn sampler, by BlackJAX, and the adaptation of its step size."""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from blackjax.adaptation.step_size import DualAveragingAdaptationState, dual_averaging_adaptation
from blackjax.base import SamplingAlgorithm
from blackjax.mcmc import hmc as blackjax_hmc
from blackjax.mcmc import nuts as blackjax_nuts
from blackjax.mcmc.metrics import MetricTypes, default_metric
from blackjax.mcmc.nuts import NUTSInfo
from jaxtyping import Array, Float, PRNGKeyArray

from nnghmc.kernels.base import Evaluations, Statistics, Transition, step_alone
from nnghmc.kernels.hmc import DIVERGENCE_THRESHOLD, HMCInfo, HMCState
from nnghmc.kernels.leapfrog import Field, Path, leapfrog
from nnghmc.kernels.trajectories import TrajectoryKernel, num_steps
from nnghmc.kernels.tuning import Jittered, Tuning, drawn_length

ACCEPTANCE_LEAD = 0.3
"""Largest lead of the mean acceptance over that of the worst chain. A chain that accepts much less
than the others is in a narrow region, and the step size must suit that region too."""
MOST_DOUBLINGS = 10
"""Largest tree depth: a trajectory has at most 1,023 steps, as in Stan."""
RESONANCES = 2 * np.pi / (2.0 ** np.arange(3, 1 + MOST_DOUBLINGS) - 1)
"""Step sizes at which a trajectory of 2ᵏ positions spans the period of a standard normal. Both ends
are then the same, and there is no U-turn: in many dimensions the trajectory doubles on and on."""
AROUND_RESONANCE = (0.98, 1.08)
"""Step sizes to avoid, relative to those."""


def beside_resonance(step_size: Any) -> Any:
    """Return a step size that is a little longer if it resonates with a standard normal.

    With a mass matrix that fits, a posterior is like a standard normal.
    """
    shortest, longest = AROUND_RESONANCE
    ratios = step_size / RESONANCES
    resonates = (ratios > shortest) & (ratios < longest)
    return jnp.max(jnp.where(resonates, longest * RESONANCES, step_size))


def nuts(
    potential_and_gradient: Field,
    step_size: Jittered[float],
    num_steps: Jittered[int],
    inverse_mass_matrix: MetricTypes,
    most_doublings: int = MOST_DOUBLINGS,
) -> SamplingAlgorithm:
    """Return the no-U-turn sampler, which finds the number of steps itself.

    It chooses the next position among those of the trajectory, so there is no Metropolis test. As
    in Stan and PyMC, the acceptance rate is the mean over the trajectory. `num_steps` is ignored;
    all kernels take the same arguments. `info.path` has one row, the draw with its potential and
    gradient.
    """
    trajectory = no_u_turn(
        potential_and_gradient, step_size, num_steps, inverse_mass_matrix, most_doublings
    )

    def init(position: Array, rng_key: PRNGKeyArray | None = None) -> HMCState:
        return HMCState(position, *potential_and_gradient(position))

    def step(rng_key: PRNGKeyArray, state: HMCState) -> tuple[HMCState, HMCInfo]:
        after, found, size = trajectory(rng_key, state)
        unknown = jnp.asarray(jnp.nan, state.position.dtype)
        info = HMCInfo(
            acceptance_rate=found.acceptance_rate,
            is_accepted=jnp.any(after.position != state.position),
            is_divergent=found.is_divergent,
            is_nonfinite=jnp.asarray(False),
            energy=found.energy,
            energy_error=unknown,
            proposed_energy_error=unknown,
            step_size=jnp.asarray(size, state.position.dtype),
            num_integration_steps=jnp.asarray(found.num_integration_steps, jnp.int32),
            path=Path(*(part[jnp.newaxis] for part in after)),
        )
        return after, info

    return SamplingAlgorithm(init, step)


def no_u_turn(
    potential_and_gradient: Field,
    step_size: Jittered[float],
    num_steps: Jittered[int],
    inverse_mass_matrix: MetricTypes,
    most_doublings: int = MOST_DOUBLINGS,
) -> Callable[[PRNGKeyArray, HMCState], tuple[HMCState, NUTSInfo, Any]]:
    """Return BlackJAX's transition: (key, state) -> (next state, its information, step size)."""
    kernel = blackjax_nuts.build_kernel(
        lambda _, kinetic_energy: leapfrog(potential_and_gradient, kinetic_energy),
        int(DIVERGENCE_THRESHOLD),
    )

    def transition(rng_key: PRNGKeyArray, state: HMCState) -> tuple[HMCState, NUTSInfo, Any]:
        size = step_size
        if isinstance(step_size, tuple | list):  # a fixed one leaves the whole key to BlackJAX
            length_key, rng_key = jax.random.split(rng_key)
            size, _ = drawn_length(length_key, step_size, num_steps)
        size = beside_resonance(size)
        start = blackjax_hmc.HMCState(state.position, -state.potential, -state.gradient)
        end, found = kernel(rng_key, start, None, size, inverse_mass_matrix, most_doublings)
        return HMCState(end.position, -end.logdensity, -end.logdensity_grad), found, size

    return transition


class NoUTurnState(NamedTuple):
    """The state of a chain, with the dual averaging of the step size that all chains share."""

    position: Float[Array, " dim"]
    potential: Float[Array, ""]
    gradient: Float[Array, " dim"]
    averaging: DualAveragingAdaptationState


class NoUTurn(TrajectoryKernel):
    """The no-U-turn sampler along the true gradient.

    With a `target_acceptance`, all chains together adapt the step size that they share, by
    BlackJAX's dual averaging. A kernel that adapts leaves no distribution unchanged, so it makes no
    kept draws. Without a target, the step size is that of the tuning. Both are the same program,
    so that the warm-up and the kept draws share compiled code. Every draw is recorded with its
    potential and gradient.
    """

    potential_and_gradient: Field
    tuning: Tuning
    target_acceptance: Float[Array, ""] | float = eqx.field(
        converter=lambda target: jnp.asarray(target, float), default=float("nan")
    )
    most_doublings: ClassVar[int] = MOST_DOUBLINGS

    def algorithm(
        self, step_size: Jittered[float], num_steps: Jittered[int], metric: MetricTypes
    ) -> SamplingAlgorithm:
        """Return NUTS, which ignores the number of steps."""
        return nuts(self.potential_and_gradient, step_size, num_steps, metric, self.most_doublings)

    def init(self, position: Array, potential: Array | None = None) -> NoUTurnState:
        """Return the state of one chain, with the true gradient."""
        return NoUTurnState(position, *self.potential_and_gradient(position), self._averaging())

    def restart(self, states: Any) -> NoUTurnState:
        """Return states of all chains whose dual averaging starts at the tuned step size.

        They need a position, a potential and a true gradient, as the states of HMC have.
        """
        chains = len(states.position)
        averaging = jax.tree.map(lambda part: jnp.full(chains, part), self._averaging())
        return NoUTurnState(states.position, states.potential, states.gradient, averaging)

    def _averaging(self) -> DualAveragingAdaptationState:
        """Return dual averaging that starts at the tuned step size."""
        start, _, _ = dual_averaging_adaptation(0.0)
        begun = start(jnp.mean(jnp.asarray(self.tuning.step_size)))
        return jax.tree.map(lambda part: jnp.asarray(part, float), begun)

    def step(self, key: PRNGKeyArray, state: NoUTurnState) -> tuple[NoUTurnState, HMCInfo]:
        """Make one transition of one chain, and adapt to it if there is a target."""
        return step_alone(self.all_chains(), key, state)

    def all_chains(self) -> Transition:
        """Return the transition of all chains, which adapts the step size if there is a target."""
        metric = default_metric(self.tuning.inverse_mass_matrix)
        _, update, _ = dual_averaging_adaptation(self.target_acceptance)
        adapts = ~jnp.isnan(self.target_acceptance)

        def step(key: PRNGKeyArray, states: NoUTurnState) -> tuple[NoUTurnState, HMCInfo]:
            keys = jax.random.split(key, 1 + len(states.position))
            tuned, num_steps = self.tuning.drawn_length(keys[0])
            shared = jax.tree.map(lambda part: part[0], states.averaging)
            step_size = jnp.where(adapts, jnp.exp(shared.log_step_size), tuned)
            sampler = self.algorithm(step_size, num_steps, metric)
            moved, info = jax.vmap(sampler.step)(keys[1:], HMCState(*states[:3]))
            rates = jnp.nan_to_num(info.acceptance_rate)
            updated = update(shared, jnp.minimum(rates.mean(), rates.min() + ACCEPTANCE_LEAD))
            averaging = jax.tree.map(
                lambda old, new: jnp.where(adapts, new, old), states.averaging, updated
            )
            return NoUTurnState(moved.position, moved.potential, moved.gradient, averaging), info

        return step

    def settled_step_size(self, states: NoUTurnState) -> float:
        """Return the step size that the dual averaging has settled on."""
        return float(jnp.exp(states.averaging.log_step_size_avg[0]))

    def evaluations(self, statistics: Statistics) -> Evaluations:
        """Return the evaluations: one true gradient per step."""
        return Evaluations(true_gradients=num_steps(statistics))

    @property
    def recorded_positions(self) -> int:
        """The number of positions recorded per draw: one, the draw."""
        return 1

    @property
    def entering(self) -> Evaluations:
        """The evaluations that `init` takes if the potential is known: one true gradient."""
        return Evaluations(true_gradients=1)


class SurrogateNoUTurn(NoUTurn):
    """The no-U-turn sampler on the surrogate posterior, which takes no true evaluation.

    Its trajectories are shorter: a first surrogate may be so wrong that the longest ones take long
    and lead nowhere.
    """

    most_doublings: ClassVar[int] = 8

    def evaluations(self, statistics: Statistics) -> Evaluations:
        """Return the evaluations: one learned gradient per step."""
        return Evaluations(learned_gradients=num_steps(statistics))

    @property
    def entering(self) -> Evaluations:
        """The evaluations that `init` takes if the potential is known: one learned gradient."""
        return Evaluations(learned_gradients=1)
