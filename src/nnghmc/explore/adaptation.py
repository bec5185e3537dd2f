"""Adapts step size and mass matrix after each round of draws, on all chains together."""

from dataclasses import dataclass, field

import jax.numpy as jnp
import numpy as np

from nnghmc.engine.history import History
from nnghmc.kernels.nuts import ACCEPTANCE_LEAD
from nnghmc.kernels.tuning import Tuning
from nnghmc.surrogates.data import GradientData
from nnghmc.surrogates.parts.regression import symmetric_regression

SHRINKAGE = 0.05
"""Ridge weight of the current matrix, as a fraction of unit variance in whitened coordinates."""
CURVATURE_CHANGE = (0.01, 100.0)
"""Bounds on the factor by which one refinement may change a curvature."""
PRIOR_DRAWS = 5
"""Number of draws that the current matrix counts as in an estimate from draws, as in Stan."""
DRAWS_PER_DIMENSION = 2
"""Draws per dimension from which on a dense mass matrix is estimated."""
DOUBLING_ACCEPTANCE = 0.97
"""Acceptance above which the step size doubles in one of the first `DOUBLING_ROUNDS` rounds."""
DOUBLING_ROUNDS = 10
"""Number of rounds in which the step size may double; later, such an acceptance is chance."""
TARGET_ACCEPTANCE = 0.8
"""Acceptance that the step size of standard HMC is adapted to."""
MOST_STEPS = 16
"""Largest number of leapfrog steps per trajectory."""
QUARTER_PERIOD = 1.6
"""Trajectory length after which a standard normal has forgotten its start."""


@dataclass
class Adaptation:
    """Step size and mass matrix in use, and the step sizes of the rounds so far.

    Attributes:
        step_size: leapfrog step size for the next round.
        inverse_mass_matrix: matrix, or its diagonal.
        tried: step sizes of all rounds so far.
    """

    step_size: float
    inverse_mass_matrix: np.ndarray
    tried: list[float] = field(default_factory=list)

    def after(self, history: History) -> float:
        """Lengthen the step after high acceptance, and shorten it after low acceptance.

        Returns the acceptance that counts: the mean over the chains, but at most `ACCEPTANCE_LEAD`
        more than that of the worst chain. It is computed over the whole round at once. Sums over
        chunks would round differently, and the size of chunks depends on timing.
        """
        rates = history.stats["acceptance_rate"] if history.length else np.zeros((1, 1))
        acceptance = float(min(rates.mean(), rates.mean(axis=1).min() + ACCEPTANCE_LEAD))
        self.tried.append(self.step_size)
        change = 2.0 / np.sqrt(len(self.tried)) * (acceptance - TARGET_ACCEPTANCE)
        if acceptance > DOUBLING_ACCEPTANCE and len(self.tried) <= DOUBLING_ROUNDS:
            change = np.log(2)
        self.step_size *= float(np.exp(np.clip(change, -1.5, 0.7)))
        return acceptance

    def settle(self) -> None:
        """Set the step size to the geometric mean over the later half of the rounds.

        The step size of the last round alone is noisy.
        """
        later = self.tried[len(self.tried) // 2 :]
        if later:
            self.step_size = float(np.exp(np.mean(np.log(later))))

    @property
    def dense_matrix(self) -> np.ndarray:
        """The inverse mass matrix as a square matrix, also where only its diagonal is kept."""
        matrix = self.inverse_mass_matrix
        return np.diag(matrix) if matrix.ndim == 1 else matrix

    @property
    def tuning(self) -> Tuning:
        """The tuning for the next round: trajectories of up to about a quarter of a period."""
        steps = int(np.clip(np.ceil(QUARTER_PERIOD / self.step_size), 2, MOST_STEPS))
        return as_tuning(self.step_size, (steps // 2, steps), self.inverse_mass_matrix)


def as_tuning(
    step_size: float, num_steps: tuple[int, int], inverse_mass_matrix: np.ndarray
) -> Tuning:
    """Make a tuning whose arrays always have the same types, so that compiled code is reused."""
    low, high = (jnp.asarray(max(1, int(number)), int) for number in num_steps)
    matrix = jnp.asarray(inverse_mass_matrix, float)
    return Tuning(jnp.asarray(step_size, float), (low, high), matrix)


def refined_inverse_mass_matrix(current: np.ndarray, data: GradientData) -> np.ndarray:
    """Estimate the posterior covariance from positions and gradients of all chains.

    In coordinates where the current matrix is the identity, the gradient is regressed on the
    position by a symmetric matrix that is shrunk towards the identity. In directions that the
    chains have hardly visited, the current matrix therefore stays.
    """
    positions = data.positions - data.positions.mean(axis=0)
    gradients = data.gradients - data.gradients.mean(axis=0)
    if current.ndim == 1:
        slopes = (positions * gradients).mean(axis=0) + SHRINKAGE
        curvatures = slopes / ((positions**2).mean(axis=0) / current + SHRINKAGE)
        return np.asarray(current / np.clip(curvatures, *CURVATURE_CHANGE))
    root = np.linalg.cholesky(current)
    whitened = np.linalg.solve(root, positions.T).T
    curvature = symmetric_regression(whitened, gradients @ root, SHRINKAGE, np.ones(len(current)))
    values, vectors = np.linalg.eigh(curvature)
    half = root @ vectors / np.sqrt(np.clip(values, *CURVATURE_CHANGE))
    return np.asarray(half @ half.T)


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
