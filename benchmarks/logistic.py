"""The paper's logistic regression (section 4.2): synthetic, prior variance 10."""

import jax
import jax.numpy as jnp
import numpy as np

from nnghmc import Posterior


def log_likelihood(beta, data):
    """The log likelihood of 0/1 labels."""
    logits = data["features"] @ beta
    return jnp.sum(data["labels"] * logits - jax.nn.softplus(logits))


def log_prior(beta):
    """Independent normals of variance 10."""
    return -0.05 * jnp.sum(beta**2)


def logistic_posterior(rows: int = 50_000, columns: int = 200, seed: int = 0) -> Posterior:
    """Standard normal features; the chains start at the coefficients that made the labels.

    The paper does not say how large its coefficients are. With a standard deviation of 0.6,
    standard HMC with its ε = 0.01 and L = 20 accepts near the 0.8 that it reports.
    """
    generator = np.random.default_rng(seed)
    features = generator.normal(size=(rows, columns))
    beta = 0.6 * generator.normal(size=columns)
    labels = generator.random(rows) < 1 / (1 + np.exp(-features @ beta))
    data = {"features": features, "labels": labels.astype(float)}
    return Posterior(log_likelihood, log_prior, data, beta)
