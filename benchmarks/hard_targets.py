"""Posteriors that are cheap to evaluate and hard to sample: raw scales, funnels, ridges."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

from nnghmc import Posterior, from_log_density
from nnghmc.paper.targets import banana
from targets import EFFECTS, ERRORS, eight_schools, funnel


def raw_columns(rows=400):
    """Return columns as they come: a year, an income in dollars, a rare indicator."""
    generator = np.random.default_rng(5)
    year = generator.integers(1950, 2020, rows)
    income = generator.lognormal(10.5, 0.6, rows)
    rare = generator.random(rows) < 0.02
    x = np.column_stack([np.ones(rows), year, income, rare]).astype(float)
    return x, x @ [-20_000.0, 12.0, 0.05, 900.0] + 800 * generator.normal(size=rows)


def regression(log_density_of_errors):
    """Return a linear regression on raw columns with an unknown scale and flat priors."""
    x, y = raw_columns()

    def log_likelihood(p, data):
        errors = (data["y"] - data["x"] @ p["beta"]) / jnp.exp(p["log_scale"])
        return jnp.sum(log_density_of_errors(errors) - p["log_scale"])

    initial = {"beta": np.zeros(4), "log_scale": 0.0}
    return Posterior(log_likelihood, None, {"x": x, "y": y}, initial)


def scales(dim=20):
    widths = jnp.geomspace(1e-4, 1e4, dim)
    return from_log_density(lambda q: -0.5 * jnp.sum((q / widths) ** 2), np.zeros(dim))


def autoregression(dim=50, memory=0.95):
    """Return a stationary Gaussian path: neighbours are correlated, ends are not."""

    def log_density(q):
        return -0.5 * (q[0] ** 2 + jnp.sum((q[1:] - memory * q[:-1]) ** 2) / (1 - memory**2))

    return from_log_density(log_density, np.zeros(dim))


def random_walk(steps=200):
    """Return a random walk seen with noise, with unknown scales of both."""
    generator = np.random.default_rng(0)
    seen = np.cumsum(0.3 * generator.normal(size=steps)) + generator.normal(size=steps)

    def log_likelihood(p, seen):
        errors = (seen - p["walk"]) / jnp.exp(p["log_noise"])
        return jnp.sum(-0.5 * errors**2 - p["log_noise"])

    def log_prior(p):
        moves = jnp.diff(p["walk"], prepend=0.0) / jnp.exp(p["log_step"])
        scales = -0.5 * (p["log_step"] + 1) ** 2 - 0.5 * p["log_noise"] ** 2
        return jnp.sum(-0.5 * moves**2 - p["log_step"]) + scales

    initial = {"walk": np.zeros(steps), "log_step": 0.0, "log_noise": 0.0}
    return Posterior(log_likelihood, log_prior, seen, initial)


def centred_schools():
    def log_density(p):
        tau = jnp.exp(p["log_tau"])
        prior = -(p["mu"] ** 2) / 50 - jnp.log1p((tau / 5) ** 2) + p["log_tau"]
        away = (p["theta"] - p["mu"]) / tau
        seen = (EFFECTS - p["theta"]) / ERRORS
        return prior - jnp.sum(0.5 * away**2 + p["log_tau"]) - 0.5 * jnp.sum(seen**2)

    return from_log_density(log_density, {"mu": 0.0, "log_tau": 0.0, "theta": np.zeros(8)})


def horseshoe(rows=100, columns=20):
    generator = np.random.default_rng(0)
    x = generator.normal(size=(rows, columns))
    y = x[:, :3] @ [2.0, -1.5, 1.0] + generator.normal(size=rows)

    def log_likelihood(p, data):
        beta = p["z"] * jnp.exp(p["local"] + p["all"])
        errors = (data["y"] - data["x"] @ beta) / jnp.exp(p["log_noise"])
        return jnp.sum(-0.5 * errors**2 - p["log_noise"])

    def half_cauchy(logarithm):
        return logarithm - jnp.log1p(jnp.exp(2 * logarithm))

    def log_prior(p):
        shrinkage = jnp.sum(half_cauchy(p["local"])) + half_cauchy(p["all"] + 2)
        return -0.5 * jnp.sum(p["z"] ** 2) + shrinkage - 0.5 * p["log_noise"] ** 2

    initial = {"z": np.zeros(columns), "local": np.zeros(columns), "all": -2.0, "log_noise": 0.0}
    return Posterior(log_likelihood, log_prior, {"x": x, "y": y}, initial)


def student(dim=5, freedom=4):
    def log_density(q):
        return -0.5 * (freedom + 1) * jnp.sum(jnp.log1p(q**2 / freedom))

    return from_log_density(log_density, np.zeros(dim))


def logistic(rows=500, columns=10):
    generator = np.random.default_rng(0)
    x = generator.normal(size=(rows, columns))
    y = 1.0 * (generator.random(rows) < 1 / (1 + np.exp(-x.sum(axis=1) / 3)))

    def log_likelihood(p, data):
        logits = data["x"] @ p
        return jnp.sum(data["y"] * logits - jax.nn.softplus(logits))

    return Posterior(
        log_likelihood, lambda p: -0.5 * jnp.sum(p**2), {"x": x, "y": y}, np.zeros(columns)
    )


HARD_TARGETS = {
    "regression on raw columns": lambda: regression(lambda e: -0.5 * e**2),
    "the same with Student errors": lambda: regression(lambda e: -2.5 * jnp.log1p(e**2 / 4)),
    "scales from 1e-4 to 1e4": scales,
    "autoregression, 50": autoregression,
    "random walk, 202": random_walk,
    "eight schools, centred": centred_schools,
    "eight schools": eight_schools,
    "horseshoe, 42": horseshoe,
    "funnel": funnel,
    "banana": banana,
    "Student, 4 degrees": student,
    "logistic, 500 × 10": logistic,
}


@cache
def hard_posterior(target):
    """Return the posterior of a name."""
    return HARD_TARGETS[target]()
