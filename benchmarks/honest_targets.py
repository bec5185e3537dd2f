"""Posteriors of many kinds with known means and standard deviations, for the honesty benchmark."""

import json
from functools import cache
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy import stats as jstats
from jax.scipy.special import gammaln
from scipy import integrate, special, stats

from hard_targets import hard_posterior, raw_columns
from nnghmc import Posterior, from_log_density

REFERENCES = Path(__file__).parent / "references" / "honesty.json"


class Known(NamedTuple):
    """A posterior with its exact means and standard deviations; NaN is not judged."""

    posterior: Posterior
    mean: np.ndarray
    sd: np.ndarray


def independent(log_density, mean, variance, dim, mix=None):
    """Return a product of one-dimensional densities, or a linear map of it."""
    mix = np.eye(dim) if mix is None else mix
    back = jnp.asarray(np.linalg.inv(mix))
    posterior = from_log_density(lambda q: jnp.sum(log_density(back @ q)), np.zeros(dim))
    covariance = mix @ np.diag(np.broadcast_to(variance, dim)) @ mix.T
    return Known(posterior, mix @ np.broadcast_to(mean, dim), np.sqrt(np.diag(covariance)))


def mixing(dim, seed=0):
    """Return a matrix with correlations, and scales that differ by a thousand."""
    matrix = np.random.default_rng(seed).normal(size=(dim, dim)) + 2 * np.eye(dim)
    return np.geomspace(0.03, 30, dim)[:, np.newaxis] * matrix


def log_gamma(shapes, mix=None):
    shapes = np.asarray(shapes)
    return independent(
        lambda x: shapes * x - jnp.exp(x),
        special.digamma(shapes),
        special.polygamma(1, shapes),
        len(shapes),
        mix,
    )


def logit_beta(pairs, mix=None):
    a, b = np.transpose(pairs)
    return independent(
        lambda x: -a * jax.nn.softplus(-x) - b * jax.nn.softplus(x),
        special.digamma(a) - special.digamma(b),
        special.polygamma(1, a) + special.polygamma(1, b),
        len(a),
        mix,
    )


def student_product(freedom, dim):
    variance = freedom / (freedom - 2)
    return independent(
        lambda x: -0.5 * (freedom + 1) * jnp.log1p(x**2 / freedom), 0.0, variance, dim
    )


def student(freedom, dim):
    posterior = from_log_density(
        lambda q: -0.5 * (freedom + dim) * jnp.log1p(jnp.sum(q**2) / freedom), np.zeros(dim)
    )
    return Known(posterior, np.zeros(dim), np.full(dim, np.sqrt(freedom / (freedom - 2))))


def cauchy(dim):
    posterior = from_log_density(lambda q: -jnp.sum(jnp.log1p(q**2)), np.zeros(dim))
    return Known(posterior, np.full(dim, np.nan), np.full(dim, np.nan))


def banana(bend=1.0, spread=1.0, others=0):
    """Return x₁ | x₀ ~ N(bend (x₀² - spread²), 1), x₀ ~ N(0, spread), and independent normals."""

    def log_density(q):
        ridge = q[1] - bend * (q[0] ** 2 - spread**2)
        return -0.5 * (q[0] / spread) ** 2 - 0.5 * ridge**2 - 0.5 * jnp.sum(q[2:] ** 2)

    sd = np.ones(2 + others)
    sd[:2] = spread, np.sqrt(1 + 2 * bend**2 * spread**4)
    return Known(from_log_density(log_density, np.zeros(2 + others)), np.zeros(2 + others), sd)


def ring(radius=4.0, width=0.5):
    def log_density(q):
        return -0.5 * ((jnp.sqrt(q @ q + 1e-12) - radius) / width) ** 2

    def moment(power):
        return integrate.quad(
            lambda r: r ** (1 + power) * np.exp(-0.5 * ((r - radius) / width) ** 2), 0, 10
        )[0]

    posterior = from_log_density(log_density, np.array([radius, 0.0]))
    return Known(posterior, np.zeros(2), np.full(2, np.sqrt(moment(2) / moment(0) / 2)))


def two_modes(share, apart, dim):
    centre = np.zeros(dim)
    centre[0] = apart

    def log_density(q):
        main = jnp.log(1 - share) - 0.5 * q @ q
        return jnp.logaddexp(main, jnp.log(share) - 0.5 * jnp.sum((q - centre) ** 2))

    sd = np.ones(dim)
    sd[0] = np.sqrt(1 + share * (1 - share) * apart**2)
    return Known(from_log_density(log_density, np.zeros(dim)), share * centre, sd)


def funnel(spread, dim):
    def log_density(q):
        inner = -0.5 * jnp.sum(q[1:] ** 2) * jnp.exp(-q[0]) - 0.5 * (dim - 1) * q[0]
        return -0.5 * (q[0] / spread) ** 2 + inner

    sd = np.full(dim, np.nan)
    sd[0] = spread
    return Known(from_log_density(log_density, np.zeros(dim)), np.zeros(dim), sd)


def raw_regression():
    """Return a linear regression on raw columns; its posterior is normal-gamma."""
    x, y = raw_columns()
    freedom = len(y) - x.shape[1]
    root = np.linalg.qr(x)[1]
    coefficients = np.linalg.lstsq(x, y, rcond=None)[0]
    squares = np.sum((y - x @ coefficients) ** 2)
    inverse = np.linalg.inv(root)
    spread = np.sqrt(squares / (freedom - 2) * np.sum(inverse**2, axis=1))
    level = 0.5 * (np.log(squares / 2) - special.digamma(freedom / 2))
    width = 0.5 * np.sqrt(special.polygamma(1, freedom / 2))
    return Known(
        hard_posterior("regression on raw columns"),
        np.append(coefficients, level),
        np.append(spread, width),
    )


def skew_normal(shape, dim):
    delta = shape / np.sqrt(1 + shape**2)
    mean = delta * np.sqrt(2 / np.pi)
    return independent(
        lambda x: -0.5 * x**2 + jstats.norm.logcdf(shape * x), mean, 1 - mean**2, dim
    )


def quartic(dim, mix=None):
    variance = 2 * special.gamma(0.75) / special.gamma(0.25)
    return independent(lambda x: -(x**4) / 4, 0.0, variance, dim, mix)


def correlated(dim, correlation):
    covariance = (1 - correlation) * np.eye(dim) + correlation
    precision = jnp.asarray(np.linalg.inv(covariance))
    posterior = from_log_density(lambda q: -0.5 * q @ precision @ q, np.zeros(dim))
    return Known(posterior, np.zeros(dim), np.ones(dim))


EXACT = {
    "normal, 5": lambda: independent(lambda x: -0.5 * x**2, 0.0, 1.0, 5),
    "normal, scales, 10": lambda: independent(lambda x: -0.5 * x**2, 0.0, 1.0, 10, mixing(10)),
    "normal, correlation 0.99, 20": lambda: correlated(20, 0.99),
    "autoregression, 50": lambda: Known(
        hard_posterior("autoregression, 50"), np.zeros(50), np.ones(50)
    ),
    "log gamma, 3": lambda: log_gamma([0.8, 2.0, 5.0]),
    "log gamma, light, 2": lambda: log_gamma([0.3, 0.5]),
    "log gamma, mixed, 6": lambda: log_gamma([0.7, 1.0, 2.0, 3.0, 5.0, 9.0], mixing(6)),
    "logit beta, 4": lambda: logit_beta([(2, 5), (0.7, 0.7), (20, 3), (1, 1)]),
    "logit beta, mixed, 5": lambda: logit_beta(
        [(2, 5), (1, 1), (20, 3), (3, 3), (2, 2)], mixing(5)
    ),
    "logistic, 3": lambda: logit_beta([(1, 1)] * 3),
    "Gumbel, 4": lambda: independent(lambda x: -x - jnp.exp(-x), np.euler_gamma, np.pi**2 / 6, 4),
    "secant, 4": lambda: independent(
        lambda x: -jnp.logaddexp(np.pi * x / 2, -np.pi * x / 2), 0.0, 1.0, 4
    ),
    "log half Cauchy, 3": lambda: independent(
        lambda x: x - jnp.logaddexp(0.0, 2 * x), 0.0, np.pi**2 / 4, 3
    ),
    "quartic, 4": lambda: quartic(4),
    "quartic, mixed, 4": lambda: quartic(4, mixing(4)),
    "skew normal, 3": lambda: skew_normal(4.0, 3),
    "Student, 8 degrees, 3": lambda: student_product(8, 3),
    "Student, 8 degrees, 5": lambda: student(8, 5),
    "Student, 6 degrees, 2": lambda: student_product(6, 2),
    "Cauchy, 2": lambda: cauchy(2),
    "banana": banana,
    "banana, long, 2": lambda: banana(0.03, 10.0),
    "banana, 10": lambda: banana(0.5, 1.0, 8),
    "ring": ring,
    "two modes, 0.05 at 6": lambda: two_modes(0.05, 6.0, 2),
    "two modes, 0.5 at 4": lambda: two_modes(0.5, 4.0, 2),
    "two modes, 0.3 at 5, 4": lambda: two_modes(0.3, 5.0, 4),
    "two modes, 0.05 at 4, 5": lambda: two_modes(0.05, 4.0, 5),
    "funnel, 3": lambda: funnel(1.0, 3),
    "funnel, 10": lambda: funnel(3.0, 10),
    "regression on raw columns": raw_regression,
}
"""Targets whose answers are exact."""


def generalised(name, rows, columns, seed=0, prior=2.0):
    """Return a small generalised linear model with an intercept."""
    generator = np.random.default_rng(seed)
    x = np.column_stack([np.ones(rows), generator.normal(size=(rows, columns))])
    linear = x @ generator.normal(0, 0.6, columns + 1)
    if name == "logistic":
        y = 1.0 * (generator.random(rows) < special.expit(linear))
    elif name == "probit":
        y = 1.0 * (generator.random(rows) < stats.norm.cdf(linear))
    else:
        y = 1.0 * generator.poisson(np.exp(0.5 * linear))

    def log_likelihood(p, data):
        linear = data["x"] @ p
        if name == "logistic":
            return jnp.sum(data["y"] * linear - jax.nn.softplus(linear))
        if name == "probit":
            return jnp.sum(jstats.norm.logcdf((2 * data["y"] - 1) * linear))
        if name == "Poisson":
            return jnp.sum(data["y"] * linear - jnp.exp(linear))
        size = 3.0  # negative binomial
        return jnp.sum(
            gammaln(data["y"] + size)
            + data["y"] * linear
            - (data["y"] + size) * jnp.logaddexp(jnp.log(size), linear)
        )

    return Posterior(
        log_likelihood,
        lambda p: -0.5 * jnp.sum((p / prior) ** 2),
        {"x": x, "y": y},
        np.zeros(columns + 1),
    )


def intercepts(centred, rows=600, groups=15):
    """Return a logistic regression with random intercepts."""
    generator = np.random.default_rng(1)
    x, group = generator.normal(size=(rows, 3)), generator.integers(0, groups, rows)
    effects = 0.8 * generator.normal(size=groups)
    y = 1.0 * (generator.random(rows) < special.expit(x @ [0.5, -0.5, 0.2] + effects[group]))

    def log_likelihood(p, data):
        effects = p["a"] if centred else jnp.exp(p["t"]) * p["a"]
        linear = data["x"] @ p["b"] + effects[data["group"]]
        return jnp.sum(data["y"] * linear - jax.nn.softplus(linear))

    def log_prior(p):
        scale = jnp.exp(p["t"]) if centred else 1.0
        effects = jnp.sum(-0.5 * (p["a"] / scale) ** 2 - jnp.log(scale))
        return effects - 0.5 * jnp.sum(p["b"] ** 2) - 0.5 * p["t"] ** 2

    initial = {"b": np.zeros(3), "t": 0.0, "a": np.zeros(groups)}
    return Posterior(log_likelihood, log_prior, {"x": x, "y": y, "group": group}, initial)


def michaelis_menten():
    """Return a one-compartment model of a drug with saturable elimination, seen with noise."""
    times, pace = np.array([0.5, 1, 2, 3, 4, 6, 8, 10, 12]), 0.1
    rows = (times / pace).round().astype(int) - 1
    usual = np.log([1.0, 12.0, 3.0, 20.0])

    def concentrations(p):
        absorption, fastest, half, volume = jnp.exp(p)

        def change(state):
            level = state[1] / volume
            eliminated = fastest * level / (half + level)
            return jnp.stack([-absorption * state[0], absorption * state[0] - eliminated])

        def step(state, _):
            one = change(state)
            two = change(state + pace / 2 * one)
            three = change(state + pace / 2 * two)
            four = change(state + pace * three)
            state = state + pace / 6 * (one + 2 * two + 2 * three + four)
            return state, state[1] / volume

        start = jnp.array([100.0, 0.0])
        return jax.lax.scan(step, start, None, length=int(rows[-1]) + 1)[1][rows]

    seen = np.asarray(concentrations(jnp.asarray(usual)))
    seen = seen + 0.2 * np.random.default_rng(3).normal(size=len(seen))

    def log_likelihood(p, seen):
        return -0.5 * jnp.sum(((seen - concentrations(p)) / 0.2) ** 2)

    spread = np.array([0.7, 1.0, 1.0, 0.7])
    return Posterior(
        log_likelihood, lambda p: -0.5 * jnp.sum(((p - usual) / spread) ** 2), seen, usual
    )


def decay():
    """Return a sum of two exponentials, whose rates and sizes are hard to tell apart."""
    times = np.linspace(0.2, 6, 20)
    truth = 3 * np.exp(-1.5 * times) + 2 * np.exp(-0.3 * times)
    seen = truth + 0.1 * np.random.default_rng(4).normal(size=20)
    usual = np.log([3.0, 2.0, 1.5, 0.3])

    def log_likelihood(p, seen):
        curve = jnp.exp(p[0] - jnp.exp(p[2]) * times) + jnp.exp(p[1] - jnp.exp(p[3]) * times)
        return -0.5 * jnp.sum(((seen - curve) / 0.1) ** 2)

    return Posterior(log_likelihood, lambda p: -0.5 * jnp.sum((p - usual) ** 2), seen, usual)


def local_level(steps=40):
    """Return a random walk seen with noise, both with unknown scales."""
    generator = np.random.default_rng(2)
    seen = np.cumsum(0.5 * generator.normal(size=steps)) + generator.normal(size=steps)

    def log_likelihood(p, seen):
        errors = (seen - p["walk"]) / jnp.exp(p["noise"])
        return jnp.sum(-0.5 * errors**2 - p["noise"])

    def log_prior(p):
        moves = jnp.diff(p["walk"], prepend=0.0) / jnp.exp(p["move"])
        scales = -2 * (p["noise"] ** 2 + (p["move"] + 0.7) ** 2)
        return jnp.sum(-0.5 * moves**2 - p["move"]) + scales

    initial = {"walk": np.zeros(steps), "noise": 0.0, "move": 0.0}
    return Posterior(log_likelihood, log_prior, seen, initial)


LONG_RUNS = {
    "regression on raw columns, Student errors": lambda: hard_posterior(
        "the same with Student errors"
    ),
    "logistic regression, 200 × 6": lambda: generalised("logistic", 200, 5),
    "logistic regression, 20 × 4": lambda: generalised("logistic", 20, 3),
    "probit regression, 100 × 5": lambda: generalised("probit", 100, 4),
    "Poisson regression, 100 × 6": lambda: generalised("Poisson", 100, 5),
    "negative binomial regression, 100 × 5": lambda: generalised("negative binomial", 100, 4),
    "random intercepts, centred": lambda: intercepts(True),
    "random intercepts, non-centred": lambda: intercepts(False),
    "eight schools": lambda: hard_posterior("eight schools"),
    "eight schools, centred": lambda: hard_posterior("eight schools, centred"),
    "horseshoe, 42": lambda: hard_posterior("horseshoe, 42"),
    "Michaelis-Menten": michaelis_menten,
    "two exponentials": decay,
    "local level, 42": local_level,
}
"""Targets whose answers are those of long runs, which `honesty.py --references` makes."""
NAMES = (*EXACT, *LONG_RUNS)


@cache
def known(name):
    """Return a target with what is known of it."""
    if name in EXACT:
        return EXACT[name]()
    found = json.loads(REFERENCES.read_text())[name]
    return Known(LONG_RUNS[name](), np.array(found["mean"]), np.array(found["sd"]))


@cache
def errors(name):
    """Return the Monte Carlo errors of what is known: zero where it is exact."""
    if name in EXACT:
        return 0.0, 0.0
    found = json.loads(REFERENCES.read_text())[name]
    return np.array(found["mean_error"]), np.array(found["sd_error"])
