"""Simulates one trajectory along any gradient function and measures how well it conserves energy.

There is no Metropolis test. Along a learned gradient a simulation needs no true evaluation, so it
shows cheaply how large the integrator's energy error is and how fast a trajectory moves away from
its start.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from blackjax.mcmc.integrators import IntegratorState
from blackjax.mcmc.metrics import default_metric
from jaxtyping import Array, Float, PRNGKeyArray

from nnghmc.kernels.leapfrog import gradient_alone, leapfrog


class Stops(NamedTuple):
    """Positions at regular stops along one trajectory, and the energy error H - H(start) there."""

    positions: Float[Array, "stops dim"]
    energy_errors: Float[Array, " stops"]


def follow_trajectory(
    gradient: Callable[[Array], Array],
    position: Float[Array, " dim"],
    momentum_key: PRNGKeyArray,
    inverse_mass_matrix: Array,
    step_size: Array | float,
    steps_between_stops: Array | int,
    *,
    num_stops: int = 1,
    potential: Callable[[Array], Array] | None = None,
) -> Stops:
    """Simulate leapfrog steps from `position` with a random momentum, and return every stop.

    The energy is the one that belongs to `gradient`, not the true one. Its potential part is taken
    from `potential` where one is given. Otherwise it is the integral of the gradient along the
    path by the trapezoidal rule, which is accurate to the same order as leapfrog.
    """
    metric = default_metric(inverse_mass_matrix)
    leapfrog_step = leapfrog(gradient_alone(gradient), metric.kinetic_energy)
    momentum = metric.sample_momentum(momentum_key, position)
    start_kinetic = metric.kinetic_energy(momentum)

    def step(_: Array, carry: tuple[IntegratorState, Array]) -> tuple[IntegratorState, Array]:
        before, work = carry
        after = leapfrog_step(before, step_size)
        mean_gradient = -0.5 * (before.logdensity_grad + after.logdensity_grad)
        return after, work + mean_gradient @ (after.position - before.position)

    def to_next_stop(carry: tuple, _: None) -> tuple[tuple, Stops]:
        state, work = carry = jax.lax.fori_loop(0, steps_between_stops, step, carry)
        rise = work if potential is None else potential(state.position) - potential(position)
        error = metric.kinetic_energy(state.momentum) + rise - start_kinetic
        return carry, Stops(state.position, error)

    unknown = jnp.asarray(jnp.nan, position.dtype)
    start = IntegratorState(position, momentum, unknown, -gradient(position))
    carry = (start, jnp.zeros((), position.dtype))
    return jax.lax.scan(to_next_stop, carry, None, length=num_stops)[1]
