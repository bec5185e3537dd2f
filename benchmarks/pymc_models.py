"""The targets that can be written as plain PyMC models, which nutpie samples."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from nnghmc.paper.targets import Banana
from targets import EFFECTS, ERRORS, posterior_of


def _regression(target, prior, likelihood, features, outcome):
    """Return a model with the target's data as constants."""
    data = _data(target)
    with pm.Model() as model:
        beta = prior(data[features].shape[1])
        likelihood(pt.dot(data[features], beta), data[outcome])
    return model


def logistic(target, prior):
    def likelihood(logits, labels):
        pm.Bernoulli("labels", logit_p=logits, observed=labels)

    return _regression(target, prior, likelihood, "features", "labels")


def normal_prior(columns):
    return pm.Normal("beta", 0, np.sqrt(10), shape=columns)


def laplace_prior(columns):
    return pm.Laplace("beta", 0, 1, shape=columns)


def poisson(target):
    def likelihood(rates, counts):
        level = pm.Normal("level", 0, 5)
        pm.Poisson("counts", pt.exp(rates + level), observed=counts)

    def prior(columns):
        return pm.Normal("beta", 0, 1, shape=columns)

    return _regression(target, prior, likelihood, "features", "counts")


def _logistic(logits, data):
    pm.Bernoulli("labels", logit_p=logits, observed=data["labels"])


def _data(target):
    return {name: np.asarray(part) for name, part in posterior_of(target).data.items()}


def random_intercepts(target, centred, groups=100):
    data = _data(target)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 2.5, shape=data["features"].shape[1])
        log_tau = pm.Normal("log_tau", -1, 1)
        if centred:
            effects = pm.Normal("effects", 0, pt.exp(log_tau), shape=groups)
        else:
            effects = pt.exp(log_tau) * pm.Normal("z", 0, 1, shape=groups)
        _logistic(pt.dot(data["features"], beta) + effects[data["group"]], data)
    return model


def intercepts_and_slopes(target, groups=1000):
    data = _data(target)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 2.5, shape=data["features"].shape[1])
        means = pm.Normal("means", 0, 2.5, shape=2)
        scales = pt.exp(pm.Normal("log_scales", -1, 1, shape=2))
        intercepts = pm.Normal("intercepts", means[0], scales[0], shape=groups)
        slopes = pm.Normal("slopes", means[1], scales[1], shape=groups)
        of_groups = intercepts[data["group"]] + slopes[data["group"]] * data["covariate"]
        _logistic(of_groups + pt.dot(data["features"], beta), data)
    return model


def small_groups(target, groups=10):
    data = _data(target)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 2.5, shape=data["features"].shape[1])
        tau = pt.exp(pm.Normal("log_tau", -1, 1.5))
        effects = pt.concatenate([pt.zeros(1), tau * pm.Normal("z", 0, 1, shape=groups)])
        _logistic(pt.dot(data["features"], beta) + effects[data["group"]], data)
    return model


def hierarchical(target):
    values = np.asarray(posterior_of(target).data)
    with pm.Model() as model:
        mu, log_tau = pm.Normal("mu", 0, 5), pm.Normal("log_tau", 0, 1)
        theta = pm.Normal("theta", mu, pt.exp(log_tau), shape=len(values))
        pm.Normal("values", theta[:, np.newaxis], 1, observed=values)
    return model


def funnel(target):
    with pm.Model() as model:
        width = pm.Normal("width", 0, 3)
        pm.Normal("x", 0, pt.exp(width / 2), shape=9)
    return model


def eight_schools(target):
    with pm.Model() as model:
        mu, tau = pm.Normal("mu", 0, 5), pm.HalfCauchy("tau", 5)
        theta = pm.Normal("theta", 0, 1, shape=len(EFFECTS))
        pm.Normal("effects", mu + tau * theta, ERRORS, observed=EFFECTS)
    return model


def banana(target):
    shape = Banana()
    with pm.Model() as model:
        first = pm.Normal("first", 0, shape.a)
        pm.Normal("second", shape.b * first**2, shape.c)
    return model


MODELS = {
    "logistic 50,000 × 200": lambda target: logistic(target, normal_prior),
    "logistic 500,000 × 50": lambda target: logistic(target, normal_prior),
    "Cover Type": lambda target: logistic(target, laplace_prior),
    "Cover Type, standardised": lambda target: logistic(target, laplace_prior),
    "random intercepts, centred": lambda target: random_intercepts(target, True),
    "random intercepts, non-centred": lambda target: random_intercepts(target, False),
    "intercepts and slopes, 1,000 groups": intercepts_and_slopes,
    "funnel, 10 small groups": small_groups,
    "Poisson 20,000 × 51": poisson,
    "hierarchical": hierarchical,
    "funnel": funnel,
    "eight schools": eight_schools,
    "banana": banana,
}
