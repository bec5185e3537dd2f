"""Holds step size, number of steps and mass matrix, checked once, as inputs of compiled code."""

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from nnghmc.errors import SettingsError, positive_integer, positive_number
from nnghmc.platform.matrices import checked_inverse_mass_matrix

Number = TypeVar("Number", int, float)
Jittered: TypeAlias = Number | tuple[Number, Number] | Array | tuple[Array, Array]
"""A fixed number, or a pair (low, high) to draw from uniformly, both ends included."""


def drawn_length(
    key: PRNGKeyArray, step_size: Jittered[float], num_steps: Jittered[int]
) -> tuple[Array | float, Array | int]:
    """Draw the step size and the number of steps of one trajectory."""
    size_key, number_key = jax.random.split(key)
    if isinstance(step_size, tuple | list):
        step_size = jax.random.uniform(size_key, minval=step_size[0], maxval=step_size[1])
    if isinstance(num_steps, tuple | list):
        num_steps = jax.random.randint(number_key, (), num_steps[0], num_steps[1] + 1)
    return step_size, num_steps


class Tuning(eqx.Module):
    """Step size, number of steps and inverse mass matrix of trajectories.

    All of them are arrays, so that they can change without a new compilation.
    """

    step_size: Jittered[float]
    num_steps: Jittered[int]
    inverse_mass_matrix: Array

    @classmethod
    def checked(
        cls, step_size: Any, num_steps: Any, inverse_mass_matrix: Any, dim: int
    ) -> "Tuning":
        """Return the tuning for a user's settings, or raise an error that says what is wrong."""
        matrix = checked_inverse_mass_matrix("inverse_mass_matrix", inverse_mass_matrix, dim)
        return cls(
            _checked("step_size", step_size, positive_number),
            _checked("num_steps", num_steps, positive_integer),
            jnp.asarray(matrix, float),
        )

    def drawn_length(self, key: PRNGKeyArray) -> tuple[Array | float, Array | int]:
        """Draw the step size and the number of steps of one trajectory."""
        return drawn_length(key, self.step_size, self.num_steps)

    @property
    def largest_step(self) -> float:
        """The largest possible step size."""
        return float(jnp.max(jnp.asarray(self.step_size)))

    @property
    def most_steps(self) -> int:
        """The largest possible number of steps per trajectory."""
        return int(jnp.max(jnp.asarray(self.num_steps)))


def _checked(name: str, value: Any, check: Callable[[str, Any], Any]) -> Any:
    """Return a checked number or pair (low, high) as arrays."""
    if isinstance(value, str) or np.ndim(value) == 0:
        return jnp.asarray(check(name, value))
    if len(value) != 2:
        raise SettingsError(f"{name} must be a number or a pair (low, high), got {value!r}.")
    low, high = (check(name, bound) for bound in value)
    if low > high:
        raise SettingsError(f"{name} as a pair must have low <= high, got {value!r}.")
    return jnp.asarray(low), jnp.asarray(high)
