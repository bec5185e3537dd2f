"""Leapfrog under any gradient function, learned or true.

The integrator is BlackJAX's; only the position update is ours, because BlackJAX's evaluates the
density on every step. Whatever function stands in for the gradient, each update shears one half of
phase space along the other, so a step is reversible and preserves volume.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from blackjax.mcmc.integrators import (
    IntegratorState,
    euclidean_momentum_update_fn,
    format_euclidean_state_output,
    generalized_two_stage_integrator,
    velocity_verlet_coefficients,
)
from blackjax.mcmc.metrics import KineticEnergy, default_metric
from jaxtyping import Array, Float

Field = Callable[[Array], tuple[Array, Array]]
"""q -> (U, gradient), with NaN in the place of U where the field does not know it."""

Leapfrog = Callable[[IntegratorState, Array | float], IntegratorState]


class Path(NamedTuple):
    """What a trajectory met: its start, then a row a step; rows beyond the last step are NaN."""

    positions: Float[Array, "steps dim"]
    potentials: Float[Array, " steps"]
    gradients: Float[Array, "steps dim"]

    @classmethod
    def empty(cls, num_rows: int, position: Array) -> "Path":
        """Room for `num_rows` points."""
        rows = jnp.full((num_rows, *position.shape), jnp.nan, position.dtype)
        return cls(rows, rows[:, 0], rows)

    @staticmethod
    def num_rows(record_steps: int) -> int:
        """How many rows so many recorded steps take: the start has one too."""
        return record_steps + 1 if record_steps else 0

    def write(self, row: Array | int, state: IntegratorState) -> "Path":
        """The path with one more point in it."""
        return Path(
            self.positions.at[row].set(state.position),
            self.potentials.at[row].set(-state.logdensity),
            self.gradients.at[row].set(-state.logdensity_grad),
        )


def gradient_alone(gradient: Callable[[Array], Array]) -> Field:
    """A field that knows its gradient and not its potential."""

    def field(position: Array) -> tuple[Array, Array]:
        return jnp.asarray(jnp.nan, position.dtype), gradient(position)

    return field


def leapfrog(field: Field, kinetic_energy: KineticEnergy) -> Leapfrog:
    """One leapfrog step: half a momentum step, a position step, half a momentum step."""

    def position_update(
        position: Array, velocity: Array, step_size: Array, coefficient: float, _: None
    ) -> tuple[Array, Array, Array, None]:
        position = position + step_size * coefficient * velocity
        potential, gradient = field(position)
        return position, -potential, -gradient, None

    return generalized_two_stage_integrator(
        euclidean_momentum_update_fn(kinetic_energy),
        position_update,
        velocity_verlet_coefficients,
        format_euclidean_state_output,
    )


def integrate(
    step: Leapfrog,
    start: IntegratorState,
    step_size: Array | float,
    num_steps: Array | int,
    record_steps: int = 0,
) -> tuple[IntegratorState, Path]:
    """Take `num_steps` leapfrog steps; record the start and the first `record_steps` of them."""

    def body(index: Array, carry: tuple) -> tuple:
        state, path = carry
        state = step(state, step_size)
        return state, path.write(index + 1, state) if record_steps else path

    path = Path.empty(Path.num_rows(record_steps), start.position)
    path = path.write(0, start) if record_steps else path
    return jax.lax.fori_loop(0, num_steps, body, (start, path))


def simulate(
    gradient: Callable[[Array], Array],
    position: Array,
    momentum: Array,
    step_size: float,
    num_steps: int,
    inverse_mass_matrix: Array | None = None,
) -> tuple[Array, Array, Path]:
    """Follow one trajectory, with no Metropolis test: last position, last momentum, and the path.

    The path begins with the start.

    For looking at a gradient, true or learned: does its dynamics stay on the energy surface?
    """
    if inverse_mass_matrix is None:
        inverse_mass_matrix = jnp.ones_like(position)
    field = gradient_alone(gradient)
    step = leapfrog(field, default_metric(inverse_mass_matrix).kinetic_energy)
    start = IntegratorState(position, momentum, *(-part for part in field(position)))
    end, path = integrate(step, start, step_size, num_steps, record_steps=num_steps)
    return end.position, end.momentum, path
