"""Inverse mass matrices: estimates of the posterior covariance, checked."""

from typing import Any

import numpy as np

from nnghmc.errors import SettingsError

ROUNDING = 1e-9
"""How far from symmetric a matrix may be by rounding, relative to its largest entry."""


def checked_inverse_mass_matrix(name: str, value: Any, dim: int) -> np.ndarray:
    """The matrix, or its diagonal, as an array; None is the identity."""
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
    problem = _what_is_wrong(matrix)
    if problem is not None:
        raise SettingsError(
            f"{name} must be finite, symmetric and positive definite, and this one is "
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
