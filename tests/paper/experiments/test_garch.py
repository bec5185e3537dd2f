"""The GARCH model: its recursion, its prior with the Jacobian, and a race at a small size."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nnghmc.paper.experiments import garch
from nnghmc.paper.race import PAPER_TRAINING
from support import remembered


def test_the_likelihood_is_that_of_the_recursion():
    values = garch.series(50)
    posterior = garch.garch(values)
    natural = posterior.variables(np.asarray(posterior.initial))
    spreads = garch.spreads(values, garch.Natural(*natural.values()))[2:]
    expected = -np.sum(np.log(spreads) + 0.5 * (values[2:] / spreads) ** 2)
    parameters = posterior.layout.unflatten(posterior.initial)
    assert posterior.log_likelihood(parameters, posterior.data) == pytest.approx(expected)


def test_the_prior_has_the_jacobian_of_the_map_to_the_natural_scale():
    """Its density, mapped, is half normal in α₀ and flat in the others."""

    def natural(q):
        values = garch.constrain({"level": q[0], "weights": q[1:]})
        return jnp.stack([values[name] for name in garch.Natural._fields])

    def mapped(q):
        jacobian = jnp.linalg.slogdet(jax.jacfwd(natural)(q))[1]
        return garch.log_prior({"level": q[0], "weights": q[1:]}) - jacobian

    points = jnp.asarray(np.random.default_rng(0).normal(size=(20, 4)))
    found = jax.vmap(mapped)(points)
    expected = -0.5 * jnp.exp(points[:, 0]) ** 2
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_the_experiment_at_a_small_size(monkeypatch):
    course = replace(
        garch.COURSE,
        draws=200,
        collected=200,
        warmup=20,
        training=replace(PAPER_TRAINING, epochs=5),
    )
    monkeypatch.setattr(garch, "COURSE", course)
    monkeypatch.setattr(garch, "series", partial(garch.series, 80))
    races = remembered(monkeypatch, garch, "race")
    result = garch.run(progress=False)
    for run in races[0].runs:
        natural = run.posterior.variables(run.draws)
        assert all((part > 0).all() for part in natural.values())
        assert (natural["alpha1"] + natural["alpha2"] + natural["beta"] < 1).all()
    table = result.parts[1]
    assert float(table.rows[0][1]) > 0.6
    assert table.rows[-1][9] == "4.98"
    assert set(result.figures) == {"garch-series.png", "garch-marginals.png"}
    assert len(result.figures["garch-series.png"].axes[0].lines) == 3
