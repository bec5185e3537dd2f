"""Hierarchical posteriors whose likelihood is expensive, with data simulated from known parameters.

The samplers that are compared start at these parameters, which lie in the typical set.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from nnghmc import Posterior


class Simulated(NamedTuple):
    """A posterior, and the parameters that its data were simulated from."""

    posterior: Posterior
    truth: PyTree


def normal(values, mean=0.0, sd=1.0):
    """Return the log density of independent normal values, up to a constant; `sd` is fixed."""
    return -0.5 * jnp.sum(((values - mean) / sd) ** 2)


def bernoulli(logits, labels):
    return jnp.sum(labels * logits - jax.nn.softplus(logits))


def simulated_labels(generator, logits):
    return (generator.random(len(logits)) < 1 / (1 + np.exp(-logits))).astype(float)


def with_intercept(generator, rows, columns):
    """Return standard normal features, the first of which is an intercept."""
    return np.column_stack([np.ones(rows), generator.normal(size=(rows, columns - 1))])


def random_intercepts(centred, rows=100_000, columns=10, groups=100, tau=0.5):
    """Return a logistic regression with an intercept for each group, of standard deviation tau.

    Its parameters are the effects themselves if it is centred, and otherwise effects / tau.
    """
    generator = np.random.default_rng(0)
    features, group = (
        with_intercept(generator, rows, columns),
        generator.integers(groups, size=rows),
    )
    beta, z = 0.5 * generator.normal(size=columns), generator.normal(size=groups)
    labels = simulated_labels(generator, features @ beta + tau * z[group])

    def log_likelihood(p, data):
        effects = p["effects"] if centred else jnp.exp(p["log_tau"]) * p["z"]
        return bernoulli(data["features"] @ p["beta"] + effects[data["group"]], data["labels"])

    def log_prior(p):
        if centred:
            of_effects = normal(p["effects"] / jnp.exp(p["log_tau"])) - groups * p["log_tau"]
        else:
            of_effects = normal(p["z"])
        return of_effects + normal(p["beta"], sd=2.5) + normal(p["log_tau"], -1.0)

    truth = {"beta": beta, "log_tau": np.log(tau)}
    truth |= {"effects": tau * z} if centred else {"z": z}
    initial = jax.tree.map(np.zeros_like, truth)
    data = {"features": features, "labels": labels, "group": group}
    return Simulated(Posterior(log_likelihood, log_prior, data, initial), truth)


def intercepts_and_slopes(rows=200_000, groups=1000, columns=2):
    """Return a logistic regression with an intercept and a slope for each group, centred."""
    generator = np.random.default_rng(0)
    features, covariate = generator.normal(size=(rows, columns)), generator.normal(size=rows)
    group = generator.integers(groups, size=rows)
    truth = {
        "beta": np.array([0.5, -0.5]),
        "means": np.array([-0.5, 0.7]),
        "log_scales": np.log([0.6, 0.4]),
    }
    moved = np.exp(truth["log_scales"])[:, np.newaxis] * generator.normal(size=(2, groups))
    truth["intercepts"], truth["slopes"] = truth["means"][:, np.newaxis] + moved

    def logits(p, data):
        of_groups = p["intercepts"][data["group"]] + p["slopes"][data["group"]] * data["covariate"]
        return of_groups + data["features"] @ p["beta"]

    def log_likelihood(p, data):
        return bernoulli(logits(p, data), data["labels"])

    def log_prior(p):
        effects = jnp.stack([p["intercepts"], p["slopes"]], axis=1)
        of_effects = normal((effects - p["means"]) / jnp.exp(p["log_scales"]))
        scales = normal(p["log_scales"], -1.0) - groups * jnp.sum(p["log_scales"])
        return of_effects + scales + normal(p["means"], sd=2.5) + normal(p["beta"], sd=2.5)

    data = {"features": features, "covariate": covariate, "group": group}
    data["labels"] = simulated_labels(generator, logits(truth, data))
    initial = jax.tree.map(np.zeros_like, truth)
    return Simulated(Posterior(log_likelihood, log_prior, data, initial), truth)


def small_groups(rows=50_000, columns=10, sizes=(8, 11, 15, 18, 22, 26, 29, 33, 36, 40)):
    """Return a logistic regression with a large group of reference and few rows in ten others.

    These say little about the standard deviation tau of their effects tau z: the posterior of
    log tau is wide, and that of the effects is a funnel.
    """
    generator, groups = np.random.default_rng(0), len(sizes)
    group = np.concatenate([np.zeros(rows, int), np.repeat(np.arange(groups) + 1, sizes)])
    features = with_intercept(generator, len(group), columns)
    truth = {
        "beta": 0.5 * generator.normal(size=columns),
        "log_tau": np.log(0.3),
        "z": generator.normal(size=groups),
    }

    def logits(p, data):
        effects = jnp.concatenate([jnp.zeros(1), jnp.exp(p["log_tau"]) * p["z"]])
        return data["features"] @ p["beta"] + effects[data["group"]]

    def log_likelihood(p, data):
        return bernoulli(logits(p, data), data["labels"])

    def log_prior(p):
        return normal(p["z"]) + normal(p["log_tau"], -1.0, 1.5) + normal(p["beta"], sd=2.5)

    data = {"features": features, "group": group}
    data["labels"] = simulated_labels(generator, logits(truth, data))
    initial = jax.tree.map(np.zeros_like, truth)
    return Simulated(Posterior(log_likelihood, log_prior, data, initial), truth)


DOSE, HOURS = 100.0, 24.0
SAMPLED_AT = np.array([0.5, 1, 1.5, 2, 3, 4, 6, 8, 12, 16, 20, 24])


def concentrations(rates, steps=240):
    """Return concentrations (subjects, times) after a dose that is absorbed from the gut.

    `rates` are the rates of absorption and of elimination, and the volume: shape (3, subjects).
    """
    absorption, elimination, volume = rates
    pace = HOURS / steps

    def change(state):
        gut, blood = state
        absorbed = absorption * gut
        return jnp.stack([-absorbed, absorbed / volume - elimination * blood])

    def step(state, _):
        one = change(state)
        two = change(state + pace / 2 * one)
        three = change(state + pace / 2 * two)
        four = change(state + pace * three)
        state = state + pace / 6 * (one + 2 * two + 2 * three + four)
        return state, state[1]

    first = jnp.stack([jnp.full_like(volume, DOSE), jnp.zeros_like(volume)])
    taken = np.rint(SAMPLED_AT / pace).astype(int) - 1
    return jax.lax.scan(step, first, None, length=steps)[1][taken].T


def hierarchical_ode(subjects=20):
    """Return a model of a drug in the blood: three parameters for each subject, not centred."""
    generator = np.random.default_rng(0)
    usual = np.log([1.0, 0.15, 10.0])
    truth = {
        "population": usual + np.array([0.2, -0.1, 0.1]),
        "log_scales": np.log([0.4, 0.3, 0.25]),
        "log_noise": np.log(0.15),
        "z": generator.normal(size=(subjects, 3)),
    }

    def predicted(p):
        own = p["population"] + jnp.exp(p["log_scales"]) * p["z"]
        return jnp.log(jnp.maximum(concentrations(jnp.exp(own).T), 1e-10))

    def log_likelihood(p, logarithms):
        errors = (logarithms - predicted(p)) / jnp.exp(p["log_noise"])
        return jnp.sum(-0.5 * errors**2 - p["log_noise"])

    def log_prior(p):
        scales = normal(p["log_scales"], -1.0) + normal(p["log_noise"], -2.0)
        return normal(p["population"], usual) + scales + normal(p["z"])

    noise = generator.normal(size=(subjects, len(SAMPLED_AT)))
    data = np.asarray(predicted(truth)) + np.exp(truth["log_noise"]) * noise
    initial = {
        "population": usual,
        "log_scales": -np.ones(3),
        "log_noise": -1.0,
        "z": np.zeros((subjects, 3)),
    }
    return Simulated(Posterior(log_likelihood, log_prior, data, initial), truth)


SIMULATED = {
    "random intercepts, centred": partial(random_intercepts, centred=True),
    "random intercepts, non-centred": partial(random_intercepts, centred=False),
    "intercepts and slopes, 1,000 groups": intercepts_and_slopes,
    "funnel, 10 small groups": small_groups,
    "hierarchical ODE, 20 subjects": hierarchical_ode,
}
