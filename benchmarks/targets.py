"""The targets of the benchmarks: expensive posteriors, and some that are cheap or difficult."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

from hierarchical_targets import SIMULATED
from nnghmc import Posterior, from_log_density
from nnghmc.paper import regressions
from nnghmc.paper.targets import banana, logistic


def poisson(rows=20_000, columns=50):
    generator = np.random.default_rng(0)
    features = generator.normal(size=(rows, columns)) / np.sqrt(columns)
    coefficients = 0.7 * generator.normal(size=columns)
    counts = generator.poisson(np.exp(features @ coefficients + 0.5)).astype(float)

    def log_likelihood(p, data):
        rates = data["features"] @ p["beta"] + p["level"]
        return jnp.sum(data["counts"] * rates - jnp.exp(rates))

    def log_prior(p):
        return -0.5 * jnp.sum(p["beta"] ** 2) - p["level"] ** 2 / 50

    data = {"features": features, "counts": counts}
    return Posterior(log_likelihood, log_prior, data, {"beta": np.zeros(columns), "level": 0.0})


def cover_type():
    """Return the regression of Cover Type with a Laplace prior; chains start at zero."""
    regression = regressions.cover_type()
    start = np.zeros(regression.features.shape[1])
    return regression.posterior(start, regressions.laplace_log_prior)


@cache
def standardised_cover_type():
    """Return the data of Cover Type with every column but the intercept standardised."""
    regression = regressions.cover_type()
    columns = regression.features[:, 1:]
    features = regression.features.copy()
    features[:, 1:] = (columns - columns.mean(axis=0)) / columns.std(axis=0)
    return regression._replace(features=features)


def cover_type_standardised():
    regression = standardised_cover_type()
    start = np.zeros(regression.features.shape[1])
    return regression.posterior(start, regressions.laplace_log_prior)


def garch(length=1000):
    """Return a GARCH(2, 1): two lags of squares, one of the variance, weights on a simplex."""
    generator = np.random.default_rng(0)
    weights, level = (0.1, 0.2, 0.6), 0.1
    squares, variance = np.zeros(length), np.ones(length)
    for t in range(2, length):
        lags = (squares[t - 1], squares[t - 2], variance[t - 1])
        variance[t] = level + np.dot(weights, lags)
        squares[t] = variance[t] * generator.normal() ** 2
    first = squares.mean()
    data = {"now": squares[2:], "lag": squares[1:-1], "second": squares[:-2]}

    def shares(p):
        return jax.nn.log_softmax(jnp.append(p["weights"], 0.0))

    def log_likelihood(p, data):
        lag, second, memory = jnp.exp(shares(p))[:3]

        def step(variance, row):
            variance = (
                jnp.exp(p["level"]) + lag * row["lag"] + second * row["second"] + memory * variance
            )
            return variance, -0.5 * (jnp.log(variance) + row["now"] / variance)

        return jnp.sum(jax.lax.scan(step, first, data)[1])

    def log_prior(p):
        return jnp.sum(shares(p)) - p["level"] ** 2 / 8

    return Posterior(log_likelihood, log_prior, data, {"level": 0.0, "weights": np.zeros(3)})


def gaussian_process(points=500):
    """Return length scale, variance and noise of a Matérn 3/2 process in four dimensions."""
    generator = np.random.default_rng(0)
    places = generator.normal(size=(points, 4))
    distances = np.linalg.norm(places[:, np.newaxis] - places, axis=2)

    def covariance(length, variance, noise, distances):
        scaled = jnp.sqrt(3.0) * distances / length
        return variance * (1 + scaled) * jnp.exp(-scaled) + noise * jnp.eye(len(distances))

    factor = np.linalg.cholesky(covariance(2.0, 1.0, 0.1, distances))
    values = factor @ generator.normal(size=points)

    def log_likelihood(p, data):
        factor = jnp.linalg.cholesky(covariance(*jnp.exp(p), data["distances"]))
        white = jax.scipy.linalg.solve_triangular(factor, data["values"], lower=True)
        return -0.5 * jnp.sum(white**2) - jnp.sum(jnp.log(jnp.diag(factor)))

    data = {"distances": distances, "values": values}
    return Posterior(log_likelihood, lambda p: -0.5 * jnp.sum(p**2), data, np.zeros(3))


def lotka_volterra(observations=20, steps=400, years=20.0):
    """Return a predator-prey ODE: four rates, two first values, two scales of lognormal noise."""
    every, pace = steps // observations, years / steps

    def change(state, rates):
        prey, hunters = state
        grow, eaten, starve, feed = rates
        return jnp.stack(
            [grow * prey - eaten * prey * hunters, feed * prey * hunters - starve * hunters]
        )

    def solve(rates, first):
        def step(state, _):
            one = change(state, rates)
            two = change(state + pace / 2 * one, rates)
            three = change(state + pace / 2 * two, rates)
            four = change(state + pace * three, rates)
            state = state + pace / 6 * (one + 2 * two + 2 * three + four)
            return state, state

        return jax.lax.scan(step, first, None, length=steps)[1][every - 1 :: every]

    truth = solve(jnp.array([0.55, 0.028, 0.80, 0.024]), jnp.array([33.0, 6.0]))
    noise = 0.25 * np.random.default_rng(0).normal(size=truth.shape)
    usual = np.log([1.0, 0.05, 1.0, 0.05, 10.0, 10.0])
    spread = np.array([0.5, 0.5, 0.5, 0.5, 1.0, 1.0])

    def log_likelihood(p, logarithms):
        rates = jnp.exp(p["rates"])
        states = jnp.log(jnp.maximum(solve(rates[:4], rates[4:]), 1e-10))
        errors = (logarithms - states) / jnp.exp(p["noise"])
        return jnp.sum(-0.5 * errors**2 - p["noise"])

    def log_prior(p):
        return -0.5 * jnp.sum(((p["rates"] - usual) / spread) ** 2) - 0.5 * jnp.sum(
            (p["noise"] + 1) ** 2
        )

    data = np.log(np.asarray(truth)) + noise
    return Posterior(log_likelihood, log_prior, data, {"rates": usual, "noise": -np.ones(2)})


def funnel(dim=10):
    def log_density(q):
        return -(q[0] ** 2) / 18 - 0.5 * jnp.sum(q[1:] ** 2) * jnp.exp(-q[0]) - (dim - 1) / 2 * q[0]

    return from_log_density(log_density, np.zeros(dim))


def hierarchical(groups=20, each=5):
    generator = np.random.default_rng(0)
    values = generator.normal(size=(groups, each)) + 0.3 * generator.normal(size=(groups, 1))

    def log_likelihood(p, values):
        return -0.5 * jnp.sum((values - p["theta"][:, jnp.newaxis]) ** 2)

    def log_prior(p):
        away = (p["theta"] - p["mu"]) / jnp.exp(p["log_tau"])
        return (
            -(p["mu"] ** 2) / 50 - 0.5 * p["log_tau"] ** 2 - jnp.sum(0.5 * away**2 + p["log_tau"])
        )

    initial = {"mu": 0.0, "log_tau": 0.0, "theta": np.zeros(groups)}
    return Posterior(log_likelihood, log_prior, values, initial)


EFFECTS = np.array([28.0, 8, -3, 7, -1, 1, 18, 12])
ERRORS = np.array([15.0, 10, 16, 11, 9, 11, 10, 18])


def eight_schools():
    def log_density(p):
        tau = jnp.exp(p["log_tau"])
        seen = (EFFECTS - p["mu"] - tau * p["theta"]) / ERRORS
        prior = -(p["mu"] ** 2) / 50 - jnp.log1p((tau / 5) ** 2) + p["log_tau"]
        return prior - 0.5 * jnp.sum(p["theta"] ** 2) - 0.5 * jnp.sum(seen**2)

    return from_log_density(log_density, {"mu": 0.0, "log_tau": 0.0, "theta": np.zeros(8)})


TARGETS = {
    "logistic 50,000 × 200": logistic,
    "logistic 500,000 × 50": lambda: logistic(500_000, 50),
    "Cover Type": cover_type,
    "Cover Type, standardised": cover_type_standardised,
    "Poisson 20,000 × 51": poisson,
    "GARCH(2, 1)": garch,
    "Gaussian process": gaussian_process,
    "Lotka–Volterra": lotka_volterra,
    "hierarchical": hierarchical,
    "funnel": funnel,
    "eight schools": eight_schools,
    "banana": banana,
    **SIMULATED,
}


@cache
def made(target):
    return TARGETS[target]()


def posterior_of(target):
    """Return the posterior of a name; it is made once, since some have much data."""
    return made(target).posterior if target in SIMULATED else made(target)


def truth_of(target):
    """Return the parameters behind simulated data; the mode where the data are real."""
    if target == "Cover Type, standardised":
        return standardised_cover_type().approximation().mean
    return made(target).truth


def as_a_vector(target, parameters):
    """Return parameters in the order of the posterior's coordinates."""
    return np.asarray(posterior_of(target).layout.flatten(parameters, float))


WITHOUT_REFERENCE = ("Cover Type, standardised", *SIMULATED)
"""Targets without a long reference run; other samplers start at their `truth_of`."""
