"""Checks inverse mass matrices, which are estimates of the posterior covariance."""

from typing import Any

import numpy as np

from nnghmc.errors import SettingsError

ROUNDING = 1e-9
"""Largest asymmetry of a matrix that counts as rounding, relative to its largest entry."""


def checked_inverse_mass_matrix(name: str, value: Any, dim: int) -> np.ndarray:
    """Return a matrix or its diagonal as an array, or raise an error that says what is wrong.

    None is the identity. `name` is the argument that the error names.
    """
    if value is None:
        return np.ones(dim)
    try:
        matrix = np.asarray(value, float)
    except (TypeError, ValueError):
        raise SettingsError(f"{name} must be an array of numbers, got {value!r}.") from None
    if matrix.shape not in ((dim,), (dim, dim)):
        raise SettingsError(
            f"{name} must have shape ({dim},) or ({dim}, {dim}) for {dim} dimensions, "
            f"got {matrix.shape}."
        )
    problem = _problem_of(matrix)
    if problem is not None:
        raise SettingsError(
            f"{name} must be finite, symmetric and positive definite, and this one is "
            f"not ({problem}). Pass estimates of the posterior variances, or of the covariance."
        )
    return matrix if matrix.ndim == 1 else 0.5 * (matrix + matrix.T)


def _problem_of(matrix: np.ndarray) -> str | None:
    """Return why a matrix or diagonal cannot be used, or None if it can."""
    if not np.all(np.isfinite(matrix)):
        return "it has entries that are not finite"
    if matrix.ndim == 1:
        return None if np.all(matrix > 0) else f"smallest value {matrix.min():.3g}"
    asymmetry = np.max(np.abs(matrix - matrix.T))
    if asymmetry > ROUNDING * np.max(np.abs(matrix)):  # relative, since the user chooses the units
        return f"it differs from its transpose by {asymmetry:.3g}"
    smallest = np.linalg.eigvalsh(matrix).min()
    return None if smallest > 0 else f"smallest eigenvalue {smallest:.3g}"
