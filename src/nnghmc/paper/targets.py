"""Build the paper's synthetic targets, with constants that it leaves open, and true moments."""

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from nnghmc import Posterior, from_log_density


@dataclass(frozen=True)
class Banana:
    """A curved density in two dimensions: x₁ ~ N(0, A²) and x₂ given x₁ ~ N(B x₁², C²).

    The paper does not print its constants. These make standard HMC with its ε = 0.1 and L = 5
    accept close to the 0.58 that it reports, and the bend is so gentle that leapfrog stays stable
    far into the tails: with a sharper bend both methods seldom get there, and a finite run
    understates the tails.
    """

    a: float = 1.0
    b: float = 0.05
    c: float = 0.0572

    def log_density(self, x: Float[Array, " 2"]) -> Float[Array, ""]:
        """Return the log density up to a constant."""
        return -0.5 * (x[0] / self.a) ** 2 - 0.5 * ((x[1] - self.b * x[0] ** 2) / self.c) ** 2

    def exact_draws(self, number: int, seed: int) -> np.ndarray:
        """Return independent draws, shape (number, 2)."""
        first, second = np.random.default_rng(seed).normal(size=(2, number))
        return np.stack([self.a * first, self.b * (self.a * first) ** 2 + self.c * second], axis=1)

    @property
    def mean(self) -> np.ndarray:
        """The true mean."""
        return np.array([0.0, self.b * self.a**2])

    @property
    def variance(self) -> np.ndarray:
        """The true variances."""
        return np.array([self.a**2, 2 * self.b**2 * self.a**4 + self.c**2])

    @property
    def correlation(self) -> float:
        """The true correlation of x₁² with x₂."""
        spread = np.sqrt(2) * self.a**2
        return float(self.b * spread / np.sqrt(self.variance[1]))


def banana() -> Posterior:
    """Return the paper's banana (section 4.1)."""
    return from_log_density(Banana().log_density, jnp.array([0.0, 0.0]))


def gaussian_variances() -> np.ndarray:
    """Return the variances 0.1 and 1000, and 28 evenly spaced ones between 1 and 100."""
    return np.concatenate([[0.1, 1000.0], np.linspace(1.0, 100.0, 28)])


def gaussian() -> Posterior:
    """Return the paper's 30-dimensional Gaussian with independent coordinates (section 4.1)."""
    variances = jnp.asarray(gaussian_variances())

    def log_density(x: Float[Array, " 30"]) -> Float[Array, ""]:
        return -0.5 * jnp.sum(x**2 / variances)

    return from_log_density(log_density, jnp.zeros(30))


def standard_normal(dim: int) -> Posterior:
    """Return the standard normal on which the paper compares surrogates (section 4.5)."""
    return from_log_density(lambda x: -0.5 * jnp.sum(x**2), jnp.zeros(dim))


def logistic(
    rows: int = 50_000,
    columns: int = 200,
    spread: float = 0.6,
    prior_variance: float = 10.0,
    seed: int = 0,
) -> Posterior:
    """Return the paper's synthetic logistic regression (section 4.2): standard normal features.

    The paper does not say how large its coefficients are. With a `spread` of 0.6, standard HMC
    with its ε = 0.01 and L = 20 accepts close to the 0.8 that it reports. The chains start at
    the coefficients that generated the labels.
    """
    generator = np.random.default_rng(seed)
    features = generator.normal(size=(rows, columns))
    beta = spread * generator.normal(size=columns)
    labels = generator.random(rows) < 1 / (1 + np.exp(-features @ beta))
    data = {"features": features, "labels": labels.astype(float)}
    prior = partial(normal_log_prior, variance=prior_variance)
    return Posterior(logistic_log_likelihood, prior, data, beta)


def logistic_log_likelihood(
    beta: Float[Array, " columns"], data: dict[str, Array]
) -> Float[Array, ""]:
    """Return the log likelihood of labels 0 and 1, given features."""
    logits = data["features"] @ beta
    return jnp.sum(data["labels"] * logits - jax.nn.softplus(logits))


def normal_log_prior(beta: Float[Array, " columns"], variance: float) -> Float[Array, ""]:
    """Return the log density of independent normal coefficients with mean zero."""
    return -0.5 * jnp.sum(beta**2) / variance


TARGETS = {"banana": banana, "gaussian": gaussian}
