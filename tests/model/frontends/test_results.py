"""Results as ArviZ takes those of PyMC, from every front end and from plain JAX."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import numpyro
import numpyro.distributions as dist
import pymc as pm
import pytest
from jax.scipy.stats import norm as normal
from scipy import stats

from nnghmc import HMC, Posterior, from_log_density, sample
from nnghmc.errors import PosteriorError
from nnghmc.run.arviz import load_arviz

az = load_arviz()
Y = np.random.default_rng(1).normal(0.4, 1.0, size=12)
SETTINGS = {"method": HMC(step_size=0.2, num_steps=(3, 8), warmup=10), "progress": False}


def in_jax(kind=Posterior, **options):
    given = {
        "dims": {"y": ["row"]},
        "coords": {"row": list("abcdefghijkl")},
        "observed": {"y": Y},
        "constants": {"width": np.ones(12)},
        "pointwise": lambda p, data: normal.logpdf(data, p["a"]),
        "predict": lambda key, p, data: p["a"] + jax.random.normal(key, data.shape),
    }
    return kind(
        lambda p, data: jnp.sum(normal.logpdf(data, p["a"])),
        lambda p: normal.logpdf(p["a"]),
        Y,
        {"a": 0.0},
        **{**given, **options},
    )


def in_numpyro():
    a = numpyro.sample("a", dist.Normal(0, 1))
    with numpyro.plate("row", len(Y)):
        numpyro.sample("y", dist.Normal(a, 1), obs=Y)


def in_pymc():
    with pm.Model(coords={"row": range(12)}) as model:
        pm.Normal("y", pm.Normal("a", 0, 1), 1, observed=Y, dims="row")
    return model


@pytest.fixture(scope="module")
def runs():
    models = {"JAX": in_jax(), "NumPyro": in_numpyro, "PyMC": in_pymc()}
    return {name: sample(model, 300, 2, **SETTINGS) for name, model in models.items()}


@pytest.fixture(scope="module")
def results(runs):
    everything = {"log_likelihood": True, "posterior_predictive": True}
    return {name: run.to_arviz(**everything) for name, run in runs.items()}


def test_groups_hold_the_observations_with_their_dims(results):
    for data in results.values():
        np.testing.assert_array_equal(data.observed_data["y"], Y)
        assert data.observed_data["y"].dims == ("row",)
        for group in ("log_likelihood", "posterior_predictive"):
            assert data[group]["y"].dims == ("chain", "draw", "row")
        expected = stats.norm.logpdf(Y, data.posterior["a"].values[..., np.newaxis])
        np.testing.assert_allclose(data.log_likelihood["y"], expected, rtol=1e-7)
        noise = data.posterior_predictive["y"] - data.posterior["a"]
        assert abs(float(noise.mean())) < 5 / np.sqrt(noise.size)
        assert abs(float(noise.std()) - 1) < 5 / np.sqrt(2 * noise.size)
    assert list(results["JAX"].observed_data["row"].values) == list("abcdefghijkl")
    assert results["JAX"].constant_data["width"].shape == (12,)


def test_arviz_takes_them_as_pymc_own(results):
    table = az.compare(results)
    assert set(table.index) == set(results)
    assert np.ptp(table["elpd" if "elpd" in table else "elpd_loo"].astype(float)) < 0.3
    check_predictions = getattr(az, "plot_ppc_dist", None) or az.plot_ppc
    for data in results.values():
        assert list(az.summary(data, kind="stats").index) == ["a"]
        assert not az.loo(data).warning
        check_predictions(data)
        assert plt.gcf().axes[0].lines
        az.plot_trace(data)
    plt.close("all")


def test_without_asking_nothing_is_evaluated(runs):
    class Untouched(Posterior):
        def log_likelihoods(self, positions):
            raise AssertionError

        def predictions(self, positions, seed):
            raise AssertionError

    groups = replace(runs["JAX"], posterior=in_jax(Untouched)).to_tree().children
    assert {"observed_data", "constant_data"} <= set(groups)
    assert not {"log_likelihood", "posterior_predictive"} & set(groups)


def test_what_a_posterior_does_not_know_is_told(runs):
    run = replace(runs["JAX"], posterior=in_jax(pointwise=None, predict=None))
    with pytest.raises(PosteriorError, match=r"log likelihood of every.*pointwise="):
        run.to_arviz(log_likelihood=True)
    with pytest.raises(PosteriorError, match=r"simulated data.*predict="):
        run.to_arviz(posterior_predictive=True)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"observed": Y}, ["observed must be a dictionary", "ndarray"]),
        ({"observed": {"chain": Y}}, ["must not be called 'chain'"]),
        ({"observed": {"y": Y[:5]}, "coords": {}}, ["pointwise", "(5,)", "(12,)"]),
        ({"predict": lambda key, p, data: p["a"]}, ["predict", "(12,)", "()"]),
        ({"predict": lambda key, p, data: p["b"]}, ["predict failed", "KeyError"]),
        ({"dims": {"z": ["row"]}}, ["reported or observed", "(width, y, a)", "'z'"]),
    ],
)
def test_mistakes_are_told_before_sampling(options, words):
    with pytest.raises(PosteriorError) as caught:
        in_jax(**options)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_several_observed_variables_go_by_their_names():
    posterior = from_log_density(
        lambda p: -0.5 * p["a"] ** 2,
        {"a": 0.0},
        observed={"counts": np.arange(3), "y": Y},
        pointwise=lambda p, data: {"counts": p["a"] * jnp.arange(3), "y": p["a"] * jnp.asarray(Y)},
    )
    found = posterior.log_likelihoods(np.full((1, 2, 1), 2.0))
    np.testing.assert_allclose(found["counts"], [[[0, 2, 4]] * 2])
    assert found["y"].shape == (1, 2, 12)


def test_a_multivariate_observation_has_one_log_likelihood(runs):
    posterior = from_log_density(
        lambda p: -0.5 * p**2,
        0.0,
        dims={"pairs": ["row", "side"]},
        observed={"pairs": np.zeros((4, 2))},
        pointwise=lambda p, data: p * jnp.ones(4),
    )
    data = replace(runs["JAX"], posterior=posterior).to_arviz(log_likelihood=True)
    assert data.log_likelihood["pairs"].dims == ("chain", "draw", "row")


@pytest.mark.parametrize(
    ("initial", "names"),
    [
        (0.0, ["x"]),
        (np.zeros((2, 2)), ["x"]),
        ((0.0, np.zeros(3)), ["0", "1"]),
        ({"a": {"b": 0.0, "c": np.zeros(2)}, "d": (0.0, [0.0])}, ["a.b", "a.c", "d.0", "d.1.0"]),
    ],
)
def test_parameters_of_any_shape_reach_the_results(initial, names):
    def log_density(p):
        return -0.5 * sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(p))

    posterior = from_log_density(log_density, initial)
    found = posterior.variables(np.zeros((2, 5, posterior.dim)))
    assert list(found) == names
    shapes = [np.shape(leaf) for leaf in jax.tree.leaves(initial)]
    assert [value.shape for value in found.values()] == [(2, 5, *shape) for shape in shapes]
