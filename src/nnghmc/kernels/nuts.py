"""The no-U-turn sampler, by BlackJAX, for posteriors whose gradient is cheap."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from blackjax.base import SamplingAlgorithm
from blackjax.mcmc import hmc as blackjax_hmc
from blackjax.mcmc import nuts as blackjax_nuts
from blackjax.mcmc.metrics import MetricTypes
from blackjax.mcmc.nuts import NUTSInfo
from jaxtyping import Array, PRNGKeyArray

from nnghmc.kernels.base import Evaluations, Statistics
from nnghmc.kernels.hmc import DIVERGENCE_THRESHOLD, HMCInfo, HMCState
from nnghmc.kernels.leapfrog import Field, Path, leapfrog
from nnghmc.kernels.trajectories import TrajectoryKernel, num_steps
from nnghmc.kernels.tuning import Jittered, Tuning, drawn_length

MOST_DOUBLINGS = 10
"""Largest tree depth: a trajectory has at most 1,023 steps, as in Stan."""


def nuts(
    potential_and_gradient: Field,
    step_size: Jittered[float],
    num_steps: Jittered[int],
    inverse_mass_matrix: MetricTypes,
    *,
    record_draws: bool = False,
) -> SamplingAlgorithm:
    """Return the no-U-turn sampler, which finds the number of steps itself.

    It chooses the next position among those of the trajectory, so there is no Metropolis test. As
    in Stan and PyMC, the acceptance rate is the mean over the trajectory. `num_steps` is ignored;
    all kernels take the same arguments. With `record_draws`, `info.path` holds the draw with its
    potential and gradient.
    """
    trajectory = no_u_turn(potential_and_gradient, step_size, num_steps, inverse_mass_matrix)

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
            path=_as_path(after) if record_draws else Path.empty(0, state.position),
        )
        return after, info

    return SamplingAlgorithm(init, step)


def no_u_turn(
    potential_and_gradient: Field,
    step_size: Jittered[float],
    num_steps: Jittered[int],
    inverse_mass_matrix: MetricTypes,
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
        start = blackjax_hmc.HMCState(state.position, -state.potential, -state.gradient)
        end, found = kernel(rng_key, start, None, size, inverse_mass_matrix, MOST_DOUBLINGS)
        return HMCState(end.position, -end.logdensity, -end.logdensity_grad), found, size

    return transition


def _as_path(state: HMCState) -> Path:
    """Return a path with one row, the state."""
    return Path(*(part[jnp.newaxis] for part in state))


class NoUTurn(TrajectoryKernel):
    """The no-U-turn sampler along the true gradient; it can record the gradient of its draws."""

    potential_and_gradient: Field
    tuning: Tuning
    record_draws: bool = eqx.field(static=True, default=False)

    def algorithm(
        self, step_size: Jittered[float], num_steps: Jittered[int], metric: MetricTypes
    ) -> SamplingAlgorithm:
        """Return NUTS, which ignores the number of steps."""
        return nuts(
            self.potential_and_gradient,
            step_size,
            num_steps,
            metric,
            record_draws=self.record_draws,
        )

    def init(self, position: Array, potential: Array | None = None) -> HMCState:
        """Return the state of one chain, with the true gradient."""
        return HMCState(position, *self.potential_and_gradient(position))

    def evaluations(self, statistics: Statistics) -> Evaluations:
        """Return the evaluations: one true gradient per step."""
        return Evaluations(true_gradients=num_steps(statistics))

    @property
    def recorded_positions(self) -> int:
        """The number of recorded positions: the draw itself, or none."""
        return int(self.record_draws)

    @property
    def entering(self) -> Evaluations:
        """The evaluations of entering the kernel: one true gradient."""
        return Evaluations(true_gradients=1)
