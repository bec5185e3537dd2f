"""Step size, number of steps and mass matrix: checked once, then inputs of compiled code."""

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from nnghmc.errors import SettingsError, positive_integer, positive_number

Number = TypeVar("Number", int, float)
Jittered: TypeAlias = Number | tuple[Number, Number] | Array | tuple[Array, Array]
"""A fixed number, or a pair (low, high): uniform between them, both ends included."""

ROUNDING = 1e-9
"""How far from symmetric a matrix may be by rounding, relative to its largest entry."""


def drawn_length(
    key: PRNGKeyArray, step_size: Jittered[float], num_steps: Jittered[int]
) -> tuple[Array | float, Array | int]:
    """Step size and number of steps of one trajectory."""
    size_key, number_key = jax.random.split(key)
    if isinstance(step_size, tuple | list):
        step_size = jax.random.uniform(size_key, minval=step_size[0], maxval=step_size[1])
    if isinstance(num_steps, tuple | list):
        num_steps = jax.random.randint(number_key, (), num_steps[0], num_steps[1] + 1)
    return step_size, num_steps


class Tuning(eqx.Module):
    """How trajectories are made: a pytree of arrays, so that step sizes can change freely."""

    step_size: Jittered[float]
    num_steps: Jittered[int]
    inverse_mass_matrix: Array

    @classmethod
    def checked(
        cls, step_size: Any, num_steps: Any, inverse_mass_matrix: Any, dim: int
    ) -> "Tuning":
        """Tuning from what a user gave, or an error that says what is wrong with it."""
        return cls(
            _checked("step_size", step_size, positive_number),
            _checked("num_steps", num_steps, positive_integer),
            jnp.asarray(_checked_inverse_mass_matrix(inverse_mass_matrix, dim), float),
        )

    def drawn_length(self, key: PRNGKeyArray) -> tuple[Array | float, Array | int]:
        """Step size and number of steps of one trajectory."""
        return drawn_length(key, self.step_size, self.num_steps)

    @property
    def most_steps(self) -> int:
        """The longest trajectory there can be."""
        return int(jnp.max(jnp.asarray(self.num_steps)))


def _checked(name: str, value: Any, check: Callable[[str, Any], Any]) -> Any:
    if isinstance(value, str) or np.ndim(value) == 0:
        return jnp.asarray(check(name, value))
    if len(value) != 2:
        raise SettingsError(f"{name} must be a number or a pair (low, high), got {value!r}.")
    low, high = (check(name, bound) for bound in value)
    if low > high:
        raise SettingsError(f"{name} as a pair must have low <= high, got {value!r}.")
    return jnp.asarray(low), jnp.asarray(high)


def _checked_inverse_mass_matrix(value: Any, dim: int) -> np.ndarray:
    if value is None:
        return np.ones(dim)
    try:
        matrix = np.asarray(value, float)
    except (TypeError, ValueError):
        raise SettingsError(
            f"inverse_mass_matrix must be an array of numbers, got {value!r}."
        ) from None
    if matrix.shape not in ((dim,), (dim, dim)):
        raise SettingsError(
            f"inverse_mass_matrix must have shape ({dim},) or ({dim}, {dim}) for {dim} dimensions, "
            f"got {matrix.shape}."
        )
    problem = _what_is_wrong(matrix)
    if problem is not None:
        raise SettingsError(
            "inverse_mass_matrix must be finite, symmetric and positive definite, and this one is "
            f"not ({problem}). Estimates of posterior variances always serve."
        )
    return matrix if matrix.ndim == 1 else 0.5 * (matrix + matrix.T)


def _what_is_wrong(matrix: np.ndarray) -> str | None:
    if not np.all(np.isfinite(matrix)):
        return "it has values that are not finite"
    if matrix.ndim == 1:
        return None if np.all(matrix > 0) else f"smallest value {matrix.min():.3g}"
    asymmetry = np.max(np.abs(matrix - matrix.T))
    if asymmetry > ROUNDING * np.max(np.abs(matrix)):  # relative: the scale is the user's
        return f"it differs from its transpose by {asymmetry:.3g}"
    smallest = np.linalg.eigvalsh(matrix).min()
    return None if smallest > 0 else f"smallest eigenvalue {smallest:.3g}"
