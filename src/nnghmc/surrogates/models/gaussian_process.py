"""A Gaussian process on the potential; the learned gradient is that of its posterior mean."""

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.optimize import minimize

from nnghmc.errors import check_fields, positive_integer
from nnghmc.platform.memory import require_memory
from nnghmc.surrogates.learned import Learned, Learning
from nnghmc.surrogates.parts.scaling import Standardisation
from nnghmc.surrogates.training import Lesson, Training

MATRICES_AT_ONCE = 8
"""Number of points × points matrices that fitting holds in memory, derivatives included."""

NOISE_BOUNDS = (-18.0, 2.0)
"""Bounds on the logarithm of the noise variance, relative to the variance of the signal."""


class ProcessMean(Learned):
    """The posterior mean Σ αᵢ k(q, qᵢ) of a Gaussian process with a squared exponential kernel."""

    positions: Standardisation
    points: Float[Array, "points dim"]
    squares: Float[Array, " points"]
    weights: Float[Array, " points"]
    length: Float[Array, ""]

    @property
    def conservative(self) -> bool:
        """Always True: this is the gradient of a scalar function."""
        return True

    def potential(self, position: Float[Array, " dim"]) -> Float[Array, ""]:
        """Evaluate the posterior mean, which is the potential up to a constant."""
        return jnp.sum(self._weighted_kernel(self.positions.apply(position)))

    def gradient(self, position: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """Evaluate the gradient of the posterior mean in closed form."""
        standard = self.positions.apply(position)
        weighted = self._weighted_kernel(standard)
        slope = (weighted @ self.points - jnp.sum(weighted) * standard) / self.length**2
        return slope / self.positions.scale

    def _weighted_kernel(self, standard: Float[Array, " dim"]) -> Float[Array, " points"]:
        distances = jnp.sum(standard**2) - 2 * self.points @ standard + self.squares
        return self.weights * jnp.exp(-0.5 * distances / self.length**2)


@dataclass(frozen=True)
class GaussianProcess:
    """A Gaussian process on potentials, with squared exponential kernel and white noise.

    Length scale and noise maximise the marginal likelihood.

    Args:
        points: largest number of points to learn from, spread evenly over all points. The cost of
            fitting grows with its cube, the cost of a gradient in proportion to it. None uses all
            points.
    """

    points: int | None = 2000
    training: ClassVar[Training] = Training()

    def __post_init__(self) -> None:
        check_fields(self, points=positive_integer)

    def learn(self, lesson: Lesson) -> Learning:
        """Maximise the marginal likelihood, then solve for the weights, without epochs."""
        data = lesson.data.with_potentials("GaussianProcess").thinned(self.points)
        require_memory(
            MATRICES_AT_ONCE * 8 * len(data) ** 2,
            f"a Gaussian process of {len(data):,} points",
            "Use fewer points, as in GaussianProcess(points=2000).",
        )
        positions = Standardisation.of(data.positions)
        points = jnp.asarray(positions.apply(data.positions))
        values = data.potentials - data.potentials.mean()
        spread = values.std() if values.std() > 0 else 1.0
        targets = jnp.asarray(values / spread)
        length, noise = _best_hyperparameters(points, targets)
        weights = spread * _weights(points, targets, length, noise)
        remark = f"length scale {float(length):.3g} standard deviations, noise {float(noise):.2g}"
        squares = jnp.sum(points**2, axis=1)
        return Learning(ProcessMean(positions, points, squares, weights, length), remarks=(remark,))


def _covariance(points: Array, length: Array, noise: Array) -> Array:
    """Compute the covariance matrix of all points, with the noise on its diagonal."""
    squares = jnp.sum(points**2, axis=1)
    distances = squares[:, jnp.newaxis] + squares - 2 * points @ points.T
    kernel = jnp.exp(-0.5 * jnp.maximum(distances, 0.0) / length**2)
    return kernel + noise * jnp.eye(len(points))


@jax.jit
def _weights(points: Array, targets: Array, length: Array, noise: Array) -> Array:
    """Solve for the weights αᵢ of the posterior mean."""
    factor = jax.scipy.linalg.cho_factor(_covariance(points, length, noise), lower=True)
    return jax.scipy.linalg.cho_solve(factor, targets)


@jax.jit
@jax.value_and_grad
def _minus_log_likelihood(logarithms: Array, points: Array, targets: Array) -> Array:
    """Compute minus the log marginal likelihood per point, up to a constant.

    `logarithms` are those of length scale and noise. The variance of the signal is set to its
    maximum likelihood estimate.
    """
    length, noise = jnp.exp(logarithms)
    factor = jnp.linalg.cholesky(_covariance(points, length, noise))
    whitened = jax.scipy.linalg.solve_triangular(factor, targets, lower=True)
    number = len(targets)
    return 0.5 * jnp.log(jnp.sum(whitened**2) / number) + jnp.mean(jnp.log(jnp.diag(factor)))


def _best_hyperparameters(points: Array, targets: Array) -> tuple[Array, Array]:
    """Maximise the marginal likelihood over length scale and relative noise, from two starts."""
    dim = points.shape[1]

    def objective(logarithms: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = _minus_log_likelihood(jnp.asarray(logarithms), points, targets)
        if not np.isfinite(value):
            return 1e6, np.zeros(2)
        return float(value), np.asarray(slope)

    middle = 0.5 * np.log(dim)
    bounds = [(middle - 4, middle + 5), NOISE_BOUNDS]
    results = [
        minimize(objective, (middle + shift, -7.0), jac=True, method="L-BFGS-B", bounds=bounds)
        for shift in (0.0, 1.5)
    ]
    best = min(results, key=lambda result: result.fun)
    length, noise = np.exp(best.x)
    return jnp.asarray(length), jnp.asarray(noise)
