"""A Gaussian process that learns a function from its gradients, and from its values if known.

The kernel is squared exponential, exp(-|x - x'|² / 2 length²). Its derivatives are the covariances
of values and gradients, so that the posterior mean and its gradient are sums over the points. Where
there are no points near, the mean falls back to zero.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.linalg import LinAlgError, cho_factor, cho_solve, cholesky, solve_triangular

from nnghmc.surrogates.parts.storable import Storable

LENGTHS = (0.6, 1.0, 1.5, 2.2, 3.3, 5.0, 8.0, 13.0)
"""Length scales tried, in standard deviations."""
NOISES = tuple(10.0**power for power in (-8, -6, -5, -4, -3, -2, -1, 0, 1))
"""Noise variances tried, relative to the variance of a gradient of the process."""
FEW_POINTS, LEAST_NOISE_OF_FEW = 25, 1e-6
"""Number of points per direction below which the noise is at least this large: a process that goes
through few points exactly may go anywhere between them."""
ROWS_TO_COMPARE = 400
"""Largest number of equations from which length and noise are chosen."""
VARIANCE_OF_LEVEL = 1e4
"""Prior variance of the level, relative to that of the process: values are known up to a level."""
JITTER = 1e-10
"""Variance that is added to every equation, so that nearly equal points do no harm."""


class GradientProcess(Storable):
    """The posterior mean of the process, as a function of x = directions (s - centre).

    Rows of points beyond those that were learned from have weights of zero. All processes of the
    same size share compiled code.
    """

    centre: Float[Array, " inputs"]
    directions: Float[Array, "rank inputs"]
    points: Float[Array, "points rank"]
    value_weights: Float[Array, " points"]
    gradient_weights: Float[Array, "points rank"]
    length: Float[Array, ""]

    @classmethod
    def zero(cls, inputs: int, rank: int, capacity: int) -> "GradientProcess":
        """Return a process that has learned nothing."""
        nothing = jnp.zeros((capacity, rank))
        return cls(
            centre=jnp.zeros(inputs),
            directions=jnp.zeros((rank, inputs)),
            points=nothing,
            value_weights=jnp.zeros(capacity),
            gradient_weights=nothing,
            length=jnp.ones(()),
        )

    def value_and_gradient(
        self, inputs: Float[Array, " inputs"]
    ) -> tuple[Float[Array, ""], Float[Array, " inputs"]]:
        """Return the posterior mean, up to a constant, and its gradient.

        Squared distances and projections are matrix products: for several chains these take a
        fraction of the time that arrays of all differences take.
        """
        points, weights, precision = self.points, self.gradient_weights, 1 / self.length**2
        x = self.directions @ (inputs - self.centre)
        distances = jnp.sum(points**2, axis=1) - 2 * (points @ x) + x @ x
        kernel = jnp.exp(-0.5 * precision * distances)
        along = weights @ x - jnp.sum(weights * points, axis=1)
        weighted = kernel * (self.value_weights + precision * along)
        total = jnp.sum(weighted)
        slope = precision * (kernel @ weights + weighted @ points - total * x)
        return total, slope @ self.directions


class Observations(NamedTuple):
    """What a process learns from; one row per point.

    Attributes:
        points: positions x, of about unit variance.
        gradients: gradients with respect to x, or to its last coordinates alone.
        values: values up to a level, or None where they belong to more than this process.
        noise: factor on the noise variance of each point.
    """

    points: np.ndarray
    gradients: np.ndarray
    values: np.ndarray | None
    noise: np.ndarray

    def select(self, rows: np.ndarray) -> "Observations":
        """Select some points."""
        values = None if self.values is None else self.values[rows]
        return Observations(self.points[rows], self.gradients[rows], values, self.noise[rows])

    @property
    def equations_per_point(self) -> int:
        """The number of equations that each point gives."""
        return self.gradients.shape[1] + (self.values is not None)

    @property
    def right_side(self) -> np.ndarray:
        """The values, if known, followed by the gradients."""
        values = np.empty(0) if self.values is None else self.values
        return np.concatenate([values, self.gradients.ravel()])

    def noises(self, length: float, noise: float) -> np.ndarray:
        """Return the noise variances of the right side."""
        of_gradients = np.repeat(noise * self.noise / length**2, self.gradients.shape[1])
        of_values = np.empty(0) if self.values is None else noise * self.noise
        return np.concatenate([of_values, of_gradients]) + JITTER

    def covariance(self, length: float) -> np.ndarray:
        """Return the covariance matrix of the right side, without noise."""
        number, known = self.gradients.shape
        bends = bends_between(self.points, self.points, length)[:, :, -known:, -known:]
        gradients = bends.transpose(0, 2, 1, 3).reshape(number * known, number * known)
        if self.values is None:
            return np.asarray(gradients)
        kernel, slopes = _kernel_and_slopes(self.points, self.points, length)
        mixed = (kernel[..., np.newaxis] * slopes).reshape(number, number * known)
        return np.block([[kernel + VARIANCE_OF_LEVEL, mixed], [mixed.T, gradients]])


def bends_between(points: np.ndarray, others: np.ndarray, length: float) -> np.ndarray:
    """Return the covariances of the gradients at all pairs of points, of all coordinates."""
    kernel, slopes = _kernel_and_slopes(points, others, length)
    products = slopes[..., np.newaxis] * slopes[:, :, np.newaxis]
    bends = np.eye(points.shape[1]) / length**2 - products
    return np.asarray(bends * kernel[..., np.newaxis, np.newaxis])


def _kernel_and_slopes(
    points: np.ndarray, others: np.ndarray, length: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the kernel at all pairs of points, and the derivatives of its logarithm."""
    away = points[:, np.newaxis] - others
    return np.exp(-0.5 * (away**2).sum(axis=2) / length**2), away / length**2


def spread_rows(points: np.ndarray, weights: np.ndarray, most: int) -> np.ndarray:
    """Choose at most so many rows, far from each other; those that hardly matter come last."""
    if len(points) <= most:
        return np.arange(len(points))
    importance = np.sqrt(weights)
    chosen = [int(np.argmax(weights))]
    distances = np.linalg.norm(points - points[chosen[0]], axis=1)
    while len(chosen) < most:
        chosen.append(int(np.argmax(distances * importance)))
        distances = np.minimum(distances, np.linalg.norm(points - points[chosen[-1]], axis=1))
    return np.sort(chosen)


class Fit(NamedTuple):
    """The weights of a posterior mean, with the length scale and the noise that were chosen."""

    value_weights: np.ndarray
    gradient_weights: np.ndarray
    length: float
    noise: float


def fit_process(
    observations: Observations, least_noise: float, lengths: Sequence[float] = LENGTHS
) -> Fit:
    """Choose length and noise by the marginal likelihood, and solve for the weights."""
    length, noise = most_likely([observations], least_noise, lengths)
    return solve_for_weights(observations, length, noise)


def solve_for_weights(observations: Observations, length: float, noise: float) -> Fit:
    """Return the weights of the posterior mean for this length scale and noise."""
    covariance = observations.covariance(length)
    covariance[np.diag_indices_from(covariance)] += observations.noises(length, noise)
    factor = cho_factor(covariance, lower=True, overwrite_a=True, check_finite=False)
    weights = cho_solve(factor, observations.right_side)
    number, known = observations.gradients.shape
    values = weights[:number] if observations.values is not None else np.zeros(number)
    return Fit(values, weights[-number * known :].reshape(number, known), length, noise)


def most_likely(
    parts: Sequence[Observations], least_noise: float = 0.0, lengths: Sequence[float] = LENGTHS
) -> tuple[float, float]:
    """Return the length and the noise with the largest marginal likelihood of some points.

    Several processes, which learn from the same points, have them in common.
    """
    number, equations = len(parts[0].points), sum(part.equations_per_point for part in parts)
    most = max(2, ROWS_TO_COMPARE // equations)
    rows = np.random.default_rng(0).permutation(number)[:most]
    if number < FEW_POINTS * parts[0].points.shape[1]:
        least_noise = max(least_noise, LEAST_NOISE_OF_FEW)
    noises = [noise for noise in NOISES if noise >= least_noise]
    some = [part.select(rows) for part in parts]
    likely = [
        np.sum([_log_likelihoods(part, length, noises) for part in some], axis=0)
        for length in lengths
    ]
    best_length, best_noise = divmod(int(np.argmax(likely)), len(noises))
    return lengths[best_length], noises[best_noise]


def _log_likelihoods(
    observations: Observations, length: float, noises: Sequence[float]
) -> np.ndarray:
    """Return the log marginal likelihoods with the best variance, up to a constant."""
    covariance, target = observations.covariance(length), observations.right_side
    found = []
    for noise in noises:
        noisy = covariance.copy()
        noisy[np.diag_indices_from(noisy)] += observations.noises(length, noise)
        try:
            factor = cholesky(noisy, lower=True, overwrite_a=True, check_finite=False)
        except LinAlgError:
            found.append(-np.inf)
            continue
        whitened = solve_triangular(factor, target, lower=True, check_finite=False)
        variance = max(float(whitened @ whitened) / len(target), np.finfo(float).tiny)
        log_determinant = 2 * np.log(np.diag(factor)).sum()
        found.append(float(-0.5 * (len(target) * np.log(variance) + log_determinant)))
    return np.array(found)
