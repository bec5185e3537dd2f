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


def drawn_length(
    key: PRNGKeyArray, step_size: Jittered[float], num_steps: Jittered[int]
) -> tuple[Array | float, Array | int]:
    """Step size and number of steps of one trajectory."""
    size_key, number_key = jax.random.split(key)
    if isinstance(step_size, tuple):
        step_size = jax.random.uniform(size_key, minval=step_size[0], maxval=step_size[1])
    if isinstance(num_steps, tuple):
        num_steps = jax.random.randint(number_key, (), num_steps[0], num_steps[1] + 1)
    return step_size, num_steps


class Tuning(eqx.Module):
    """How trajectories are made. A pytree of arrays: other values need no new compilation."""

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
    if not isinstance(value, tuple | list):
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
    matrix = np.asarray(value, float)
    if matrix.shape not in ((dim,), (dim, dim)):
        raise SettingsError(
            f"inverse_mass_matrix must have shape ({dim},) or ({dim}, {dim}) for {dim} dimensions, "
            f"got {matrix.shape}."
        )
    if not _is_positive_definite(matrix):
        raise SettingsError(
            "inverse_mass_matrix must be finite, symmetric and positive definite, and this one is "
            f"not ({_what_is_wrong(matrix)}). Estimates of posterior variances always serve."
        )
    return matrix


def _is_positive_definite(matrix: np.ndarray) -> bool:
    if not np.all(np.isfinite(matrix)):
        return False
    if matrix.ndim == 1:
        return bool(np.all(matrix > 0))
    if not np.allclose(matrix, matrix.T):
        return False
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return False
    return True


def _what_is_wrong(matrix: np.ndarray) -> str:
    if not np.all(np.isfinite(matrix)):
        return "it has values that are not finite"
    if matrix.ndim == 1:
        return f"smallest value {matrix.min():.3g}"
    if not np.allclose(matrix, matrix.T):
        return f"it differs from its transpose by {np.max(np.abs(matrix - matrix.T)):.3g}"
    return f"smallest eigenvalue {np.linalg.eigvalsh(matrix).min():.3g}"
