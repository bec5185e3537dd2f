"""Hamiltonian Monte Carlo whose integrator and Metropolis test use two different functions.

The integrator knows only the gradient; the test knows only the true potential. Standard HMC and
NNgHMC are the same transition with another gradient, and both leave the true posterior unchanged:
leapfrog under any gradient function is reversible and preserves volume, so the test on
H(q, p) = U(q) + K(p) needs no Jacobian.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from blackjax.base import SamplingAlgorithm
from blackjax.mcmc.integrators import IntegratorState
from blackjax.mcmc.metrics import Metric, MetricTypes, default_metric
from blackjax.mcmc.proposal import static_binomial_sampling
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from nnghmc.kernels.leapfrog import Field, Path, gradient_alone, integrate, leapfrog
from nnghmc.kernels.tuning import Jittered, drawn_length

DIVERGENCE_THRESHOLD = 1000.0
"""Energy error above which a trajectory counts as diverged, as in Stan."""


class HMCState(NamedTuple):
    """The state of a chain.

    `potential` is the true U at `position`. `gradient` is that of the integrator's field at
    `position`; keeping it means that a trajectory of L steps takes L gradients.
    """

    position: Float[Array, " dim"]
    potential: Float[Array, ""]
    gradient: Float[Array, " dim"]


class HMCInfo(NamedTuple):
    """Information about one transition, under the names that BlackJAX uses.

    `energy` is H after the transition, and `energy_error` its change in the transition, zero for a
    rejection. `proposed_energy_error` is the change at the proposal, which the Metropolis test
    uses; it is infinite if the energy of the proposal is not finite. `path` holds the steps if the
    kernel records them.
    """

    acceptance_rate: Float[Array, ""]
    is_accepted: Bool[Array, ""]
    is_divergent: Bool[Array, ""]
    is_nonfinite: Bool[Array, ""]
    energy: Float[Array, ""]
    energy_error: Float[Array, ""]
    proposed_energy_error: Float[Array, ""]
    step_size: Float[Array, ""]
    num_integration_steps: Int[Array, ""]
    path: Path


class Launch(NamedTuple):
    """The start and the length of a trajectory, and a `key` for gradients from mini-batches."""

    key: PRNGKeyArray
    state: HMCState
    momentum: Float[Array, " dim"]
    step_size: Array | float
    num_steps: Array | int


Propose = Callable[[Launch], tuple[HMCState, Array, Path]]
"""launch -> (proposal, momentum at the proposal, path from the start to the proposal)."""


def hmc(
    potential: Callable[[Array], Array],
    gradient: Callable[[Array], Array],
    step_size: Jittered[float],
    num_steps: Jittered[int],
    inverse_mass_matrix: MetricTypes,
    *,
    divergence_threshold: float = DIVERGENCE_THRESHOLD,
) -> SamplingAlgorithm:
    """Return HMC along `gradient`, which may be any function, with draws from exp(-potential).

    A draw takes one evaluation of `potential` and `num_steps` of `gradient`. If `step_size` or
    `num_steps` is a pair, it is drawn uniformly between the two for each transition.
    """

    def init(position: Array, rng_key: PRNGKeyArray | None = None) -> HMCState:
        return HMCState(position, potential(position), gradient(position))

    metric = default_metric(inverse_mass_matrix)
    propose = _along(gradient_alone(gradient), lambda end: potential(end.position), metric)
    step = metropolis_transition(propose, metric, (step_size, num_steps), divergence_threshold)
    return SamplingAlgorithm(init, step)


def true_gradient_hmc(
    potential_and_gradient: Field,
    step_size: Jittered[float],
    num_steps: Jittered[int],
    inverse_mass_matrix: MetricTypes,
    *,
    divergence_threshold: float = DIVERGENCE_THRESHOLD,
    record_steps: int = 0,
) -> SamplingAlgorithm:
    """Return standard HMC: the draws of `hmc(U, ∇U, ...)` without the extra evaluation of U.

    Evaluating a gradient also gives the potential, so the last step of the trajectory already
    has the potential for the Metropolis test. With `record_steps`, `info.path` holds the start and
    the first `record_steps` steps of each trajectory: gradient data at no extra evaluation.
    """

    def init(position: Array, rng_key: PRNGKeyArray | None = None) -> HMCState:
        return HMCState(position, *potential_and_gradient(position))

    metric = default_metric(inverse_mass_matrix)
    propose = _along(potential_and_gradient, lambda end: -end.logdensity, metric, record_steps)
    step = metropolis_transition(propose, metric, (step_size, num_steps), divergence_threshold)
    return SamplingAlgorithm(init, step)


def _along(
    field: Field,
    potential_at: Callable[[IntegratorState], Array],
    metric: Metric,
    record_steps: int = 0,
) -> Propose:
    """Return a function that proposes the end of a trajectory along a field."""
    leapfrog_step = leapfrog(field, metric.kinetic_energy)

    def propose(launch: Launch) -> tuple[HMCState, Array, Path]:
        _, (position, potential, gradient), momentum, step_size, num_steps = launch
        start = IntegratorState(position, momentum, -potential, -gradient)
        end, path = integrate(leapfrog_step, start, step_size, num_steps, record_steps)
        return HMCState(end.position, potential_at(end), -end.logdensity_grad), end.momentum, path

    return propose


def metropolis_transition(
    propose: Propose,
    metric: Metric,
    length: tuple[Jittered[float], Jittered[int]],
    divergence_threshold: float,
) -> Callable[[PRNGKeyArray, HMCState], tuple[HMCState, HMCInfo]]:
    """Return a transition: draw a momentum, propose, and do the Metropolis test on H = U + K.

    It is exact for any proposal that is reversible and preserves volume.
    """

    def step(rng_key: PRNGKeyArray, state: HMCState) -> tuple[HMCState, HMCInfo]:
        momentum_key, accept_key, length_key, propose_key = jax.random.split(rng_key, 4)
        step_size, num_steps = drawn_length(length_key, *length)
        momentum = metric.sample_momentum(momentum_key, state.position)
        launch = Launch(propose_key, state, momentum, step_size, num_steps)
        proposal, end_momentum, path = propose(launch)

        start_energy = state.potential + metric.kinetic_energy(momentum)
        end_energy = proposal.potential + metric.kinetic_energy(end_momentum)
        is_finite = jnp.isfinite(end_energy)
        change = jnp.where(is_finite, end_energy - start_energy, jnp.inf)
        state, (is_accepted, probability, _) = static_binomial_sampling(
            accept_key, -change, state, proposal
        )
        info = HMCInfo(
            acceptance_rate=probability,
            is_accepted=is_accepted,
            is_divergent=change > divergence_threshold,
            is_nonfinite=~is_finite,
            energy=jnp.where(is_accepted, end_energy, start_energy),
            energy_error=jnp.where(is_accepted, change, 0.0),
            proposed_energy_error=change,
            step_size=jnp.asarray(step_size, change.dtype),
            num_integration_steps=jnp.asarray(num_steps, jnp.int32),
            path=path,
        )
        return state, info

    return step
