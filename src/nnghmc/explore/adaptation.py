"""Estimates the mass matrix from positions and gradients of all chains, and makes tunings."""

import jax.numpy as jnp
import numpy as np

from nnghmc.kernels.tuning import Tuning
from nnghmc.surrogates.data import GradientData

PRIOR_DRAWS = 5
"""Number of draws that the current matrix counts as in an estimate from draws, as in Stan."""
DRAWS_PER_DIMENSION = 2
"""Draws per dimension from which on a dense mass matrix is estimated."""
STEEPEST = 1e50
"""Slope from which on products of slopes may overflow."""
MOST_STEPS = 16
"""Largest number of leapfrog steps per trajectory."""
QUARTER_PERIOD = 1.6
"""Trajectory length after which a standard normal has forgotten its start."""


def as_tuning(
    step_size: float, num_steps: tuple[int, int], inverse_mass_matrix: np.ndarray
) -> Tuning:
    """Make a tuning whose arrays always have the same types, so that compiled code is reused."""
    low, high = (jnp.asarray(max(1, int(number)), int) for number in num_steps)
    matrix = jnp.asarray(inverse_mass_matrix, float)
    return Tuning(jnp.asarray(step_size, float), (low, high), matrix)


def with_usable_gradients(data: GradientData) -> GradientData:
    """Return the points with a gradient that is not absurdly steep, as far up a wall."""
    return data.select(np.abs(data.gradients.astype(float)).max(axis=1) < STEEPEST)


def fisher_inverse_mass_matrix(current: np.ndarray, data: GradientData) -> np.ndarray:
    """Estimate the inverse mass matrix that fits positions and gradients of draws best.

    It is the geometric mean of the covariance of the positions and the inverse covariance of the
    gradients, which minimises the Fisher divergence (nutpie's estimate, Seyboldt et al.). For a
    normal posterior it is exact from dim + 1 draws on. Both covariances count the current matrix
    as `PRIOR_DRAWS` draws. A dense matrix keeps the current correlations, and only the scales are
    estimated, until there are `DRAWS_PER_DIMENSION` draws per dimension.
    """
    positions = data.positions - data.positions.mean(axis=0)
    gradients = data.gradients - data.gradients.mean(axis=0)
    if current.ndim == 1:
        return np.asarray(
            current * _fisher_scales(positions / np.sqrt(current), gradients * np.sqrt(current))
        )
    root = np.linalg.cholesky(current)
    positions, gradients = np.linalg.solve(root, positions.T).T, gradients @ root
    scales = np.sqrt(_fisher_scales(positions, gradients))
    root = root * scales
    if len(positions) < DRAWS_PER_DIMENSION * len(current):
        return np.asarray(root @ root.T)
    spread, stiffness = _covariance(positions / scales), _covariance(gradients * scales)
    half, inverse_half = _power(stiffness, 0.5), _power(stiffness, -0.5)
    mean = inverse_half @ _power(half @ spread @ half, 0.5) @ inverse_half
    return np.asarray(root @ mean @ root.T)


def _fisher_scales(positions: np.ndarray, gradients: np.ndarray) -> np.ndarray:
    """Return the diagonal inverse mass matrix that fits best, relative to unit scales."""
    number = len(positions)
    spread = number * (positions**2).mean(axis=0) + PRIOR_DRAWS
    return np.sqrt(spread / (number * (gradients**2).mean(axis=0) + PRIOR_DRAWS))


def _covariance(rows: np.ndarray) -> np.ndarray:
    """Return the covariance of rows with mean zero, shrunk towards the identity."""
    return (rows.T @ rows + PRIOR_DRAWS * np.eye(rows.shape[1])) / (len(rows) + PRIOR_DRAWS)


def _power(matrix: np.ndarray, exponent: float) -> np.ndarray:
    """Return a power of a symmetric positive definite matrix."""
    values, vectors = np.linalg.eigh(matrix)
    return (
        vectors * np.maximum(values, np.finfo(float).eps * values.max()) ** exponent
    ) @ vectors.T
