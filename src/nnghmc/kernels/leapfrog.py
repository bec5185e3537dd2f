"""Leapfrog integration under any gradient function, learned or true.

The integrator is BlackJAX's, except for the position update: BlackJAX's own evaluates the density
on every step. Whatever function replaces the gradient, each update shears one half of phase space
along the other, so a step is reversible and preserves volume.
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
"""q -> (U, gradient), with NaN instead of U if the field does not know it."""

Leapfrog = Callable[[IntegratorState, Array | float], IntegratorState]
"""(state, step size) -> state after one leapfrog step."""


class Path(NamedTuple):
    """The points of a trajectory: its start, then one row per step, then rows of NaN."""

    positions: Float[Array, "steps dim"]
    potentials: Float[Array, " steps"]
    gradients: Float[Array, "steps dim"]

    @classmethod
    def empty(cls, num_rows: int, position: Array) -> "Path":
        """Return a path with `num_rows` rows of NaN."""
        rows = jnp.full((num_rows, *position.shape), jnp.nan, position.dtype)
        return cls(rows, rows[:, 0], rows)

    @staticmethod
    def num_rows(record_steps: int) -> int:
        """Return the number of rows for the start and `record_steps` steps; 0 for no steps."""
        return record_steps + 1 if record_steps else 0

    def write(self, row: Array | int, state: IntegratorState) -> "Path":
        """Return the path with a state written to one row."""
        return Path(
            self.positions.at[row].set(state.position),
            self.potentials.at[row].set(-state.logdensity),
            self.gradients.at[row].set(-state.logdensity_grad),
        )


def gradient_alone(gradient: Callable[[Array], Array]) -> Field:
    """Return a field that has this gradient, and NaN for its potential."""

    def field(position: Array) -> tuple[Array, Array]:
        return jnp.asarray(jnp.nan, position.dtype), gradient(position)

    return field


def leapfrog(field: Field, kinetic_energy: KineticEnergy) -> Leapfrog:
    """Return a leapfrog step: half a momentum step, a position step, half a momentum step."""

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
    """Make `num_steps` leapfrog steps, and record the start and the first `record_steps` steps."""

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
    """Simulate one trajectory without a Metropolis test.

    Use it to see whether the dynamics of a gradient, true or learned, stay on the energy surface.
    Returns the last position, the last momentum, and the path, which begins with the start.
    """
    if inverse_mass_matrix is None:
        inverse_mass_matrix = jnp.ones_like(position)
    field = gradient_alone(gradient)
    step = leapfrog(field, default_metric(inverse_mass_matrix).kinetic_energy)
    start = IntegratorState(position, momentum, *(-part for part in field(position)))
    end, path = integrate(step, start, step_size, num_steps, record_steps=num_steps)
    return end.position, end.momentum, path
