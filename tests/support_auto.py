"""What the tests of the automatic run share: a skewed posterior, its moments, and estimates."""

from functools import cache

import jax.numpy as jnp
import numpy as np
from scipy import stats

from nnghmc import Auto, Estimate, from_log_density
from nnghmc.engine.statistics import standard_errors

LEARN = Auto(way="learn")

CHEAP = Estimate(4, 1000, 1e-6, 3.1, float("inf"))
SHORT = Estimate(4, 1000, 1e-3, 20.0, 15.0)
LONG = Estimate(4, 1000, 1e-3, 400.0, 15.0)
"""By NUTS and by learning: too short to learn at all, with little time to fail, and with more."""

GAMMA_LOGS = (
    np.array([-0.9650, 0.4228, 1.5061]),  # digamma of the shapes
    np.array([2.2995, 0.6449, 0.2213]),  # trigamma
)
"""Means and variances of the skewed posterior."""


@cache
def skewed():
    """Logarithms of gamma variables: means and variances are polygamma functions."""
    shapes = jnp.array([0.8, 2.0, 5.0])
    return from_log_density(lambda q: jnp.sum(shapes * q - jnp.exp(q)), np.zeros(3))


def student():
    """A Student distribution in 5 dimensions with 5 degrees of freedom."""
    return from_log_density(lambda q: -5.0 * jnp.log1p(jnp.sum(q**2) / 5), np.zeros(5))


def assert_moments(run, means, variances, false_alarms=1e-3):
    """Means and standard deviations in Monte Carlo standard errors, one bound for all of them."""
    flat = run.draws.reshape(-1, run.draws.shape[2])
    of_means = (flat.mean(axis=0) - means) / standard_errors(run.draws)
    of_spreads = (flat.std(axis=0) - np.sqrt(variances)) / standard_errors(run.draws, "std")
    z = np.concatenate([of_means, of_spreads])
    bound = stats.norm.isf(false_alarms / 2 / len(z))
    assert np.abs(z).max() < bound, f"z = {np.round(z, 1)}, bound {bound:.1f}"


def kinds(run):
    return {note.kind for note in run.notes}


def reasons(run):
    """Why NUTS samples instead of a learned gradient."""
    return [event.reason for event in run.events_of("FellBack")]
