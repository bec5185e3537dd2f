"""One model, written in each of the ways that a user may write it: the posteriors agree."""

from itertools import combinations

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pymc as pm
from jax.scipy.stats import norm as normal
from scipy import stats

from nnghmc import NUTS, Posterior, from_callable, from_numpyro, from_pymc, sample
from nnghmc.engine.statistics import standard_errors

GROUPS, ROWS = 8, 64  # with a prior of tau away from zero: no funnel, so nothing diverges
VARIABLES = ("mu", "tau", "beta", "sigma", "level")
FALSE_ALARMS = 1e-3
"""How often this test may fail for posteriors that agree, all comparisons together."""


def data():
    generator = np.random.default_rng(5)
    group = np.arange(ROWS) % GROUPS
    x = generator.normal(size=ROWS)
    levels = generator.normal(1.0, 0.7, size=GROUPS)
    return {"x": x, "group": group, "y": levels[group] + 0.5 * x + generator.normal(size=ROWS)}


def in_pymc():
    given = data()
    with pm.Model() as model:
        x = pm.Data("x", given["x"])
        mu, tau = pm.Normal("mu", 0, 2), pm.LogNormal("tau", 0, 0.5)
        beta, sigma = pm.Normal("beta", 0, 1), pm.Exponential("sigma", 1)
        z = pm.Normal("z", 0, 1, shape=GROUPS)
        level = pm.Deterministic("level", mu + tau * z)
        pm.Normal("y", level[given["group"]] + beta * x, sigma, observed=given["y"])
    return model


def in_numpyro(x, group, y):
    mu = numpyro.sample("mu", dist.Normal(0, 2))
    tau = numpyro.sample("tau", dist.LogNormal(0, 0.5))
    beta = numpyro.sample("beta", dist.Normal(0, 1))
    sigma = numpyro.sample("sigma", dist.Exponential(1))
    with numpyro.plate("group", GROUPS):
        z = numpyro.sample("z", dist.Normal(0, 1))
        level = numpyro.deterministic("level", mu + tau * z)
    with numpyro.plate("row", len(y)):
        numpyro.sample("y", dist.Normal(level[group] + beta * x, sigma), obs=y)


def natural(p):
    tau, sigma = jnp.exp(p["log_tau"]), jnp.exp(p["log_sigma"])
    level = p["mu"] + tau * p["z"]
    return {"mu": p["mu"], "tau": tau, "beta": p["beta"], "sigma": sigma, "level": level}


def log_likelihood(p, rows):
    q = natural(p)
    means = q["level"][rows["group"]] + q["beta"] * rows["x"]
    return jnp.sum(normal.logpdf(rows["y"], means, q["sigma"]))


def log_prior(p):
    q = natural(p)
    scales = normal.logpdf(p["log_tau"], 0, 0.5) - q["sigma"] + p["log_sigma"]
    effects = normal.logpdf(p["mu"], 0, 2) + normal.logpdf(p["beta"])
    return scales + effects + jnp.sum(normal.logpdf(p["z"]))


INITIAL = {"mu": 0.0, "log_tau": 0.0, "beta": 0.0, "log_sigma": 0.0, "z": np.zeros(GROUPS)}


def in_jax():
    return Posterior(log_likelihood, log_prior, data(), INITIAL, constrain=natural)


def in_numpy():
    """A black box: log density and gradient by hand."""
    rows = data()
    group, x, y = rows["group"], rows["x"], rows["y"]

    @np.errstate(over="ignore")  # far out; there the density is zero
    def value_and_grad(p):
        tau, sigma = np.exp(p["log_tau"]), np.exp(p["log_sigma"])
        rest = y - (p["mu"] + tau * p["z"])[group] - p["beta"] * x
        pull = rest / sigma**2
        by_group = np.bincount(group, pull, GROUPS)
        priors = p["mu"] ** 2 / 4 + 4 * p["log_tau"] ** 2 + p["beta"] ** 2 + np.sum(p["z"] ** 2)
        value = -0.5 * (np.sum(rest * pull) + priors) - ROWS * p["log_sigma"]
        slopes = {
            "mu": by_group.sum() - p["mu"] / 4,
            "log_tau": tau * by_group @ p["z"] - 4 * p["log_tau"],
            "beta": pull @ x - p["beta"],
            "log_sigma": rest @ pull - ROWS - sigma + 1,
            "z": tau * by_group - p["z"],
        }
        return value - sigma + p["log_sigma"], slopes

    return from_callable(value_and_grad, INITIAL, constrain=natural)


POSTERIORS = {
    "PyMC": lambda: from_pymc(in_pymc()),
    "NumPyro": lambda: from_numpyro(in_numpyro, **data()),
    "JAX": in_jax,
    "black box": in_numpy,
}


def sampled_by_us(posterior, seed):
    # Different seeds: draws that share their randomness would agree too well.
    run = sample(posterior, 1500, 3, seed, NUTS(target_acceptance=0.95), progress=False)
    assert not [note for note in run.notes if note.kind != "failed calls"]
    return run.to_arviz().posterior


def sampled_by_pymc():
    options = {"random_seed": 9, "cores": 1, "chains": 2, "progressbar": False}
    with in_pymc():
        return pm.sample(500, tune=400, compile_kwargs={"mode": "JAX"}, **options).posterior


def moments(posterior):
    """First and second moments of every variable, each with its Monte Carlo error."""
    found = []
    for name in VARIABLES:
        values = posterior[name].values
        draws = values.reshape(*values.shape[:2], -1)
        for power in (draws, draws**2):
            found.append((power.mean(axis=(0, 1)), standard_errors(power)))
    return np.concatenate(found, axis=1)


def test_posteriors_agree_with_each_other_and_with_pymc_own_nuts():
    draws = {
        name: sampled_by_us(make(), seed) for seed, (name, make) in enumerate(POSTERIORS.items())
    }
    found = {name: moments(posterior) for name, posterior in draws.items()}
    found["PyMC's own NUTS"] = moments(sampled_by_pymc())
    pairs = list(combinations(found, 2))
    number = len(pairs) * len(found["JAX"][0])
    assert number == 10 * 2 * (4 + GROUPS)
    largest = stats.norm.isf(FALSE_ALARMS / 2 / number)
    for first, second in pairs:
        (means, errors), (others, other_errors) = found[first], found[second]
        z = (means - others) / np.hypot(errors, other_errors)
        assert np.abs(z).max() < largest, f"{first} and {second}: {np.round(z, 1)}"
