"""Stochastic-gradient samplers, whose gradient comes from a new random mini-batch at each step.

Three of them have no Metropolis test, and are biased by the noise of the gradient and by the step
size: Langevin dynamics, Hamiltonian dynamics with friction, and leapfrog without a correction for
the noise. The fourth adds a Metropolis test on the true potential to that leapfrog, and is exact.
The batches of a trajectory do not depend on where it goes, so the reversed trajectory with the
batches in reversed order is as likely as the trajectory itself.
"""

from collections.abc import Callable

import blackjax
import equinox as eqx
import jax
import jax.numpy as jnp
from blackjax.base import SamplingAlgorithm
from blackjax.mcmc.integrators import IntegratorState
from blackjax.mcmc.metrics import Metric, MetricTypes, default_metric
from blackjax.sgmcmc import diffusions
from jaxtyping import Array, PRNGKeyArray

from nnghmc.kernels.base import Evaluations, Statistics, number_of_draws
from nnghmc.kernels.hmc import (
    DIVERGENCE_THRESHOLD,
    HMCInfo,
    HMCState,
    Launch,
    metropolis_transition,
)
from nnghmc.kernels.leapfrog import Path, gradient_alone, leapfrog
from nnghmc.kernels.trajectories import TrajectoryKernel, num_steps
from nnghmc.kernels.tuning import Jittered, Tuning, drawn_length

BatchGradient = Callable[[PRNGKeyArray, Array], Array]
"""(key, position) -> unbiased estimate of ∇U, from the mini-batch that the key draws."""


def sgld(
    batch_gradient: BatchGradient,
    step_size: Jittered[float],
    num_steps: Jittered[int],
    inverse_mass_matrix: MetricTypes | Metric | None = None,
) -> SamplingAlgorithm:
    """Return stochastic-gradient Langevin dynamics (Welling and Teh), `num_steps` steps per draw.

    A step is q - h g + √(2h) noise with h the step size, half of Welling and Teh's ε.
    """
    kernel = blackjax.sgld.build_kernel()

    def minus_gradient(position: Array, key: PRNGKeyArray) -> Array:
        return -batch_gradient(key, position)

    def move(key: PRNGKeyArray, position: Array, step_size: Array, num_steps: Array) -> Array:
        def body(index: Array, position: Array) -> Array:
            noise_key, batch_key = jax.random.split(jax.random.fold_in(key, index))
            return kernel(noise_key, position, minus_gradient, batch_key, step_size)

        return jax.lax.fori_loop(0, num_steps, body, position)

    return _untested(move, step_size, num_steps)


def sghmc(
    batch_gradient: BatchGradient,
    step_size: Jittered[float],
    num_steps: Jittered[int],
    inverse_mass_matrix: MetricTypes | Metric | None = None,
    *,
    friction: float,
    noise: float = 0.0,
) -> SamplingAlgorithm:
    """Return stochastic-gradient HMC with friction (Chen, Fox and Guestrin), by BlackJAX.

    The position moves first, and the gradient is evaluated where it arrives. In their notation η is
    the square of the step size, and α is friction times step size. Each draw has a fresh momentum,
    each step a fresh mini-batch.
    """
    diffusion = diffusions.sghmc(friction, noise)

    def move(key: PRNGKeyArray, position: Array, step_size: Array, num_steps: Array) -> Array:
        momentum_key, key = jax.random.split(key)

        def body(index: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
            noise_key, batch_key = jax.random.split(jax.random.fold_in(key, index))
            position, momentum = state
            slope = -batch_gradient(batch_key, position + step_size * momentum)
            return diffusion(noise_key, position, momentum, slope, step_size)

        momentum = jax.random.normal(momentum_key, position.shape, position.dtype)
        return jax.lax.fori_loop(0, num_steps, body, (position, momentum))[0]

    return _untested(move, step_size, num_steps)


def naive_sghmc(
    batch_gradient: BatchGradient,
    step_size: Jittered[float],
    num_steps: Jittered[int],
    inverse_mass_matrix: MetricTypes | Metric,
) -> SamplingAlgorithm:
    """Return leapfrog along mini-batch gradients that accepts every proposal.

    Nothing corrects for the noise of the gradients.
    """
    metric = default_metric(inverse_mass_matrix)

    def move(key: PRNGKeyArray, position: Array, step_size: Array, num_steps: Array) -> Array:
        momentum_key, key = jax.random.split(key)
        momentum = metric.sample_momentum(momentum_key, position)
        return _trajectory(batch_gradient, metric, key, position, momentum, step_size, num_steps)[0]

    return _untested(move, step_size, num_steps)


def metropolis_sghmc(
    potential: Callable[[Array], Array],
    batch_gradient: BatchGradient,
    step_size: Jittered[float],
    num_steps: Jittered[int],
    inverse_mass_matrix: MetricTypes | Metric,
) -> SamplingAlgorithm:
    """Return leapfrog along mini-batch gradients, made exact by a test on the true potential."""
    metric = default_metric(inverse_mass_matrix)

    def propose(launch: Launch) -> tuple[HMCState, Array, Path]:
        key, state, momentum, step_size, num_steps = launch
        position, momentum = _trajectory(
            batch_gradient, metric, key, state.position, momentum, step_size, num_steps
        )
        proposal = HMCState(position, potential(position), state.gradient)
        return proposal, momentum, Path.empty(0, position)

    def init(position: Array, rng_key: PRNGKeyArray | None = None) -> HMCState:
        return HMCState(position, potential(position), jnp.zeros_like(position))

    length = (step_size, num_steps)
    return SamplingAlgorithm(
        init, metropolis_transition(propose, metric, length, DIVERGENCE_THRESHOLD)
    )


def _trajectory(
    batch_gradient: BatchGradient,
    metric: Metric,
    key: PRNGKeyArray,
    position: Array,
    momentum: Array,
    step_size: Array | float,
    num_steps: Array | int,
) -> tuple[Array, Array]:
    """Follow a leapfrog trajectory with one mini-batch for its start and one for each step."""

    def gradient_at(index: Array | int) -> Callable[[Array], Array]:
        return lambda position: batch_gradient(jax.random.fold_in(key, index), position)

    def body(index: Array, state: IntegratorState) -> IntegratorState:
        step = leapfrog(gradient_alone(gradient_at(index + 1)), metric.kinetic_energy)
        return step(state, step_size)

    unknown = jnp.asarray(jnp.nan, position.dtype)
    start = IntegratorState(position, momentum, unknown, -gradient_at(0)(position))
    end = jax.lax.fori_loop(0, num_steps, body, start)
    return end.position, end.momentum


def _untested(
    move: Callable[[PRNGKeyArray, Array, Array, Array], Array],
    step_size: Jittered[float],
    num_steps: Jittered[int],
) -> SamplingAlgorithm:
    """Return a transition that accepts every result of `move`; its energies are NaN."""

    def init(position: Array, rng_key: PRNGKeyArray | None = None) -> HMCState:
        return _unevaluated(position)

    def step(rng_key: PRNGKeyArray, state: HMCState) -> tuple[HMCState, HMCInfo]:
        length_key, move_key = jax.random.split(rng_key)
        size, number = drawn_length(length_key, step_size, num_steps)
        position = move(move_key, state.position, jnp.asarray(size), jnp.asarray(number))
        lost = ~jnp.all(jnp.isfinite(position))
        unknown = jnp.asarray(jnp.nan, position.dtype)
        info = HMCInfo(
            acceptance_rate=unknown,
            is_accepted=jnp.asarray(True),
            is_divergent=lost,
            is_nonfinite=lost,
            energy=unknown,
            energy_error=unknown,
            proposed_energy_error=unknown,
            step_size=jnp.asarray(size, position.dtype),
            num_integration_steps=jnp.asarray(number, jnp.int32),
            path=Path.empty(0, position),
        )
        return HMCState(position, unknown, state.gradient), info

    return SamplingAlgorithm(init, step)


class SGLDKernel(TrajectoryKernel):
    """Stochastic-gradient Langevin dynamics."""

    batch_gradient: BatchGradient
    tuning: Tuning

    def algorithm(
        self, step_size: Jittered[float], num_steps: Jittered[int], metric: MetricTypes
    ) -> SamplingAlgorithm:
        """Return Langevin dynamics, which has no mass matrix."""
        return sgld(self.batch_gradient, step_size, num_steps)

    def init(self, position: Array, potential: Array | None = None) -> HMCState:
        """Return the state of one chain without any evaluation."""
        return _unevaluated(position)

    def evaluations(self, statistics: Statistics) -> Evaluations:
        """Return the evaluations: one mini-batch gradient per step."""
        return Evaluations(batch_gradients=num_steps(statistics))


class SGHMCKernel(TrajectoryKernel):
    """Stochastic-gradient HMC with friction."""

    batch_gradient: BatchGradient
    tuning: Tuning
    friction: float = eqx.field(static=True)
    noise: float = eqx.field(static=True)

    def algorithm(
        self, step_size: Jittered[float], num_steps: Jittered[int], metric: MetricTypes
    ) -> SamplingAlgorithm:
        """Return SGHMC with friction, which has no mass matrix."""
        return sghmc(
            self.batch_gradient, step_size, num_steps, friction=self.friction, noise=self.noise
        )

    def init(self, position: Array, potential: Array | None = None) -> HMCState:
        """Return the state of one chain without any evaluation."""
        return _unevaluated(position)

    def evaluations(self, statistics: Statistics) -> Evaluations:
        """Return the evaluations: one mini-batch gradient per step."""
        return Evaluations(batch_gradients=num_steps(statistics))


class NaiveSGHMCKernel(TrajectoryKernel):
    """Leapfrog along mini-batch gradients that accepts every proposal."""

    batch_gradient: BatchGradient
    tuning: Tuning

    def algorithm(
        self, step_size: Jittered[float], num_steps: Jittered[int], metric: MetricTypes
    ) -> SamplingAlgorithm:
        """Return leapfrog without a Metropolis test."""
        return naive_sghmc(self.batch_gradient, step_size, num_steps, metric)

    def init(self, position: Array, potential: Array | None = None) -> HMCState:
        """Return the state of one chain without any evaluation."""
        return _unevaluated(position)

    def evaluations(self, statistics: Statistics) -> Evaluations:
        """Return the evaluations: one mini-batch gradient per step, and one per trajectory."""
        return Evaluations(batch_gradients=num_steps(statistics) + number_of_draws(statistics))


class MetropolisSGHMCKernel(TrajectoryKernel):
    """Leapfrog along mini-batch gradients with a Metropolis test on the true potential."""

    potential: Callable[[Array], Array]
    batch_gradient: BatchGradient
    tuning: Tuning

    def algorithm(
        self, step_size: Jittered[float], num_steps: Jittered[int], metric: MetricTypes
    ) -> SamplingAlgorithm:
        """Return leapfrog with a Metropolis test."""
        return metropolis_sghmc(self.potential, self.batch_gradient, step_size, num_steps, metric)

    def init(self, position: Array, potential: Array | None = None) -> HMCState:
        """Return the state of one chain, with the true potential."""
        known = self.potential(position) if potential is None else potential
        return HMCState(position, known, jnp.zeros_like(position))

    def evaluations(self, statistics: Statistics) -> Evaluations:
        """Return the mini-batch gradients of the trajectories, and one true potential per draw."""
        draws = number_of_draws(statistics)
        return Evaluations(true_potentials=draws, batch_gradients=num_steps(statistics) + draws)


def _unevaluated(position: Array) -> HMCState:
    """Return a state whose potential is unknown, for kernels that never evaluate it."""
    unknown = jnp.asarray(jnp.nan, position.dtype)
    return HMCState(position, unknown, jnp.zeros_like(position))
