"""NUTS as a method: it finds its own scales, and says so when it cannot."""

import jax.numpy as jnp
import numpy as np

from nnghmc import Posterior, from_log_density, sample
from nnghmc.engine.statistics import standard_errors

BOUND = 4.5
"""Bound on z-values, for some tens of comparisons."""


def raw_columns(rows=400):
    """A year, an income in dollars and a rare indicator, as they come."""
    generator = np.random.default_rng(5)
    year = generator.integers(1950, 2020, rows)
    income = generator.lognormal(10.5, 0.6, rows)
    rare = generator.random(rows) < 0.02
    x = np.column_stack([np.ones(rows), year, income, rare]).astype(float)
    return x, x @ [-20_000.0, 12.0, 0.05, 900.0] + 800 * generator.normal(size=rows)


def known_noise(p, data):
    return -0.5 * jnp.sum(((data["y"] - data["x"] @ p) / 800) ** 2)


def test_a_regression_on_raw_columns_has_its_known_posterior():
    x, y = raw_columns()
    posterior = Posterior(known_noise, None, {"x": x, "y": y}, np.zeros(4))
    run = sample(posterior, method="nuts", progress=False)
    assert not run.notes
    assert run.cost.total.true_gradients < 80_000  # a diagonal matrix takes over a million
    covariance = 800**2 * np.linalg.inv(x.T @ x)
    mean = covariance @ x.T @ y / 800**2
    draws, sd = run.draws, np.sqrt(np.diag(covariance))
    errors = np.concatenate(
        [
            (draws.mean(axis=(0, 1)) - mean) / standard_errors(draws),
            (draws.std(axis=(0, 1)) - sd) / standard_errors(draws, "std"),
        ]
    )
    assert np.abs(errors).max() < BOUND


def test_scales_of_eight_orders_of_magnitude_are_no_local_mode():
    scales = jnp.geomspace(1e-4, 1e4, 12)
    target = from_log_density(lambda q: -0.5 * jnp.sum((q / scales) ** 2), np.zeros(12))
    run = sample(target, method="nuts", progress=False)
    assert not run.notes
    z = run.draws.std(axis=(0, 1)) / scales - 1
    assert np.abs(z / (standard_errors(run.draws, "std") / scales)).max() < BOUND
