"""PyMC models: the density on the free scale, what is reported, what is refused."""

import os
from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from scipy import special, stats

from nnghmc import HMC, NUTS, from_pymc, sample
from nnghmc.engine.statistics import standard_errors
from nnghmc.errors import PosteriorError
from support import (
    FALSE_ALARMS,
    assert_natural_scale_of_regression,
    assert_split,
    regression_log_densities,
)

GENERATOR = np.random.default_rng(0)
X, Y = GENERATOR.normal(size=(90, 3)), GENERATOR.normal(size=90)


def regression():
    with pm.Model(coords={"feature": ["a", "b", "c"], "row": np.arange(90) * 10}) as model:
        x = pm.Data("x", X, dims=("row", "feature"))
        beta = pm.Normal("beta", 0, 2, dims="feature")
        sigma = pm.HalfNormal("sigma", 1)
        mean = pm.Deterministic("mean", x @ beta, dims="row")
        pm.Normal("y", mean, sigma, observed=Y, dims="row")
    return model


def every_transform():
    with pm.Model() as model:
        low = pm.Normal("low", 0, 1)
        pm.Uniform("above", low, low + 3)
        pm.Uniform("between", -1, 3, shape=2)
        pm.Beta("share", 2, 3, initval=0.9)
        pm.Dirichlet("simplex", np.array([1.0, 2.0, 3.0]))
        deviations = pm.HalfNormal.dist(1)
        pm.LKJCholeskyCov("factor", n=2, eta=2.0, sd_dist=deviations, compute_corr=False)
        pm.Potential("penalty", -(low**2))
        scale = pm.Normal("scale", 1, 1)  # may be negative: no density there
        pm.Normal("y", 0, scale, observed=Y[:5])
    return model


def missing_values():
    values = np.ma.masked_invalid([1.0, np.nan, 3.0])
    with pm.Model() as model:
        mean = pm.Normal("mean", 0, 1)
        with pytest.warns(pm.exceptions.ImputationWarning):
            pm.Normal("y", mean, 1, observed=values)
    return model


def flat_index():
    """Arrays of integers that choose, a mask, and a shared variable of the user's own."""
    shift = pytensor.shared(np.full(90, 0.5), name="shift")
    with pm.Model() as model:
        level = pm.Normal("level", 0, 1, shape=4)
        mean = level[np.arange(90) % 4] + shift
        pm.Normal("y", mean[X[:, 0] > 0], 1, observed=Y[X[:, 0] > 0])
    return model


MODELS = [regression, every_transform, missing_values, flat_index]


@cache
def model_and_posterior(make):
    model = make()
    return model, from_pymc(model)


@pytest.mark.parametrize("make", MODELS)
def test_density_and_gradient_are_pymc_own_at_random_points(make):
    model, posterior = model_and_posterior(make)
    value, gradient = model.compile_logp(), model.compile_dlogp()
    points = GENERATOR.normal(size=(6, posterior.dim))
    evaluate = eqx.filter_jit(lambda function, points: jax.vmap(function)(points))
    potentials, gradients = evaluate(posterior.potential_and_gradient, jnp.asarray(points))
    for i, point in enumerate(points):
        parameters = posterior.layout.unflatten(point)
        theirs = {model.rvs_to_values[rv].name: parameters[rv.name] for rv in model.free_RVs}
        expected = value(theirs)
        np.testing.assert_allclose(-potentials[i], expected, rtol=1e-9)
        if np.isfinite(expected):
            order = [rv.name for rv in model.free_RVs]
            ours = posterior.layout.unflatten(np.asarray(-gradients[i]))
            mine = np.concatenate([np.ravel(ours[name]) for name in order])
            np.testing.assert_allclose(mine, gradient(theirs), rtol=1e-8, atol=1e-10)
    assert np.isfinite(potentials).any()
    assert make is not every_transform or not np.isfinite(potentials).all()


def test_density_is_that_of_the_formula_jacobian_included():
    _, posterior = model_and_posterior(regression)
    found, expected = regression_log_densities(posterior, X, Y)
    assert float(found) == pytest.approx(expected, rel=1e-10)  # PyMC rounds its log(2π) to that


def test_public_names_on_their_natural_scale_with_dims_and_coords():
    _, posterior = model_and_posterior(regression)
    assert_natural_scale_of_regression(posterior, X)
    rows = {"mean": ["row"], "y": ["row"], "x": ["row", "feature"]}
    assert posterior.dims == {"beta": ["feature"], **rows}
    assert posterior.coords == {"feature": ["a", "b", "c"], "row": list(range(0, 900, 10))}
    np.testing.assert_array_equal(posterior.observed["y"], Y)
    np.testing.assert_array_equal(posterior.constants["x"], X)
    assert repr(posterior) == "Posterior(beta[3], sigma; 4 dimensions, observed y[90])"


def test_a_large_model_is_translated_without_complaints(caplog):
    from_pymc(every_transform())
    assert not caplog.records


def test_every_transform_is_undone():
    model, posterior = model_and_posterior(every_transform)
    found = posterior.variables(GENERATOR.normal(size=(1, 50, posterior.dim)))
    assert not any(name.endswith("__") for name in found)
    assert np.all(found["above"] > found["low"])
    assert np.all((found["between"] > -1) & (found["between"] < 3))
    np.testing.assert_allclose(found["simplex"].sum(axis=-1), 1.0)
    assert np.all(found["factor"][..., [0, 2]] > 0)  # the diagonal of a Cholesky factor
    start = posterior.variables(np.asarray(posterior.initial)[np.newaxis])
    assert start["share"][0] == pytest.approx(0.9)
    assert model.rvs_to_initial_values[model["share"]] == 0.9  # the user's model stays as it was


def test_data_are_inputs_of_compiled_code_with_the_values_they_had():
    model = regression()
    posterior = from_pymc(model)
    before = posterior.potential(posterior.initial + 0.1)
    evaluate = eqx.filter_jit(lambda function, q: function(q))
    parameters = posterior.layout.unflatten(posterior.initial)
    for function, argument in (
        (posterior.potential, posterior.initial),
        (posterior.constrain, parameters),
    ):
        program = evaluate.lower(function, argument).as_text()
        assert "tensor<90x3xf64>" in program.split("@main(")[1].splitlines()[0]
        assert 'dense<"0x' not in program
    with model:
        pm.set_data({"x": 2 * X})
    assert posterior.potential(posterior.initial + 0.1) == before
    assert from_pymc(model).potential(posterior.initial + 0.1) != before


def test_loading_the_front_end_leaves_the_settings_of_jax_alone():
    model_and_posterior(regression)
    assert "host_platform_device_count" not in os.environ.get("XLA_FLAGS", "")
    assert jnp.zeros(1).dtype == np.float64


class NoTranslation(Op):
    """An operation that JAX does not know."""

    def make_node(self, x):
        return Apply(self, [pt.as_tensor(x)], [pt.as_tensor(x).type()])

    def perform(self, node, inputs, outputs):
        outputs[0][0] = inputs[0]


def discrete():
    pm.Poisson("count", 3)
    pm.Bernoulli("side", 0.5)
    pm.Normal("a", 0, 1)


def nothing_free():
    pm.Normal("y", 0, 1, observed=Y)


def mini_batch():
    a = pm.Normal("a", 0, 1)
    pm.Normal("y", a, 1, observed=pm.Minibatch(Y, batch_size=10), total_size=90)


def untranslatable():
    a = pm.Normal("a", 0, 1)
    pm.Potential("p", NoTranslation()(a))


def outside():
    scale = pm.HalfNormal("scale", 1)
    pm.Exponential("y", scale, observed=[-1.0])


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (discrete, ["discrete", "Got count, side.", "pymc.Mixture"]),
        (nothing_free, ["free variable", "none"]),
        (mini_batch, ["must not be random", "pymc.Minibatch"]),
        (untranslatable, ["cannot translate", "NoTranslation", "from_callable"]),
        (outside, ["must be finite where chains start"]),
    ],
)
def test_what_cannot_be_sampled_is_told_clearly(build, words):
    with pm.Model() as model:
        build()
    with pytest.raises(PosteriorError) as caught:
        from_pymc(model)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_only_a_model_will_do():
    with pytest.raises(PosteriorError, match=r"needs a pymc\.Model, got int"):
        from_pymc(3)


def test_observations_have_their_log_likelihood_and_are_simulated_anew():
    _, posterior = model_and_posterior(regression)
    draws = np.tile([0.3, -0.2, 0.5, -3.0], (2, 100, 1))
    means, sigma = X @ draws[0, 0, :3], np.exp(-3.0)
    found = posterior.log_likelihoods(draws[:, :2])
    expected = stats.norm.logpdf(Y, means, sigma)
    assert {name: part.shape for name, part in found.items()} == {"y": (2, 2, 90)}
    np.testing.assert_allclose(found["y"][1, 1], expected, rtol=1e-10)
    simulated = posterior.predictions(draws, seed=0)["y"]
    z = (simulated - means) / sigma  # far wider, if PyMC drew beta or sigma from their priors
    assert simulated.shape == (2, 100, 90)
    assert abs(z.mean()) < 5 / np.sqrt(z.size)
    assert abs(z.std() - 1) < 5 / np.sqrt(2 * z.size)


def test_simulating_is_refused_where_pymc_would_forget_what_was_sampled():
    shift = pytensor.shared(0.5, name="shift")
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("a", shift, 1), 1, observed=Y)
    posterior = from_pymc(model)
    with pytest.raises(PosteriorError, match=r"pymc.Data.*depend on shift"):
        posterior.predictions(np.zeros((1, 2, 1)), seed=0)


def test_draws_are_the_same_with_every_version():
    """Recorded with PyMC 5 and JAX 0.10: other versions differ by rounding alone.

    Chains that share their randomness come together again after each rounding, so that it does not
    add up. Where a network is trained in between, it does.
    """
    x, y = X[:, 0], Y + X[:, 0]
    with pm.Model() as model:
        slope = pm.Normal("slope", 0, 1)
        sigma = pm.HalfNormal("sigma", 1)
        pm.Normal("y", slope * x, sigma, observed=y)
    for method, last in LAST_DRAWS.items():
        run = sample(model, 200, 2, seed=4, method=method, progress=False)
        np.testing.assert_allclose(run.draws[:, -1], last, rtol=1e-8)


LAST_DRAWS = {
    HMC(step_size=0.05, num_steps=(3, 9), warmup=20): [
        [0.052081116335941535, 0.9895604794844753],
        [0.13450925739048364, 0.9316550967840016],
    ],
    NUTS(): [
        [0.04215708789645825, 0.9165563744161055],
        [-0.016064905286911742, 0.9636527772265184],
    ],
}
"""Of each chain: sigma on the log scale, and the slope."""


def directions():
    """An angle whose mass lies around ±π, three that are hardly known, and a plain parameter."""
    with pm.Model() as model:
        pm.VonMises("home", mu=np.pi, kappa=3.0)
        pm.VonMises("wind", mu=1.0, kappa=0.2, shape=3)
        pm.Normal("level", 2, 3)
    return model


def test_an_angle_is_a_point_in_the_plane():
    posterior = from_pymc(directions())
    assert dict(zip(posterior.layout.names, posterior.layout.shapes, strict=True)) == {
        "home": (2,),
        "wind": (3, 2),
        "level": (),
    }
    point = {"home": [-0.4, 0.3], "wind": [[0.0, 2.0], [1.0, 0.0], [0.6, -0.8]], "level": 1.0}
    flat = posterior.layout.flatten(point, float)
    found = posterior.variables(np.asarray(flat)[np.newaxis])
    np.testing.assert_allclose(found["home"], [np.arctan2(0.3, -0.4)])
    np.testing.assert_allclose(found["wind"], [[np.pi / 2, 0.0, np.arctan2(-0.8, 0.6)]])
    distances = np.array([0.5, 2.0, 1.0, 1.0])
    expected = (
        stats.vonmises.logpdf(found["home"], 3.0, np.pi).sum()
        + stats.vonmises.logpdf(found["wind"], 0.2, 1.0).sum()
        + stats.norm.logpdf(1.0, 2, 3)
        - 0.5 * np.sum(((distances - 1) / 0.25) ** 2)
    )
    assert float(-posterior.potential(flat)) == pytest.approx(expected, rel=1e-8)


def test_angles_are_sampled_rightly_and_hinder_no_other_parameter():
    run = sample(directions(), seed=3, method=NUTS(), progress=False)
    assert not run.notes
    draws = run.to_arviz().posterior
    home, wind, level = (draws[name].values for name in ("home", "wind", "level"))
    centred = np.stack(
        [np.cos(home - np.pi), np.sin(home), *np.cos(np.moveaxis(wind, -1, 0) - 1), level], axis=-1
    )
    ratios = [special.ive(1, kappa) / special.ive(0, kappa) for kappa in (3.0, 0.2)]
    known = [ratios[0], 0.0, *3 * [ratios[1]], 2.0]
    z = (centred.mean(axis=(0, 1)) - known) / standard_errors(centred)
    assert np.abs(z).max() < stats.norm.isf(FALSE_ALARMS / 2 / len(z))


@pytest.mark.parametrize("centred", [True, False])
def test_the_likelihood_is_split_from_priors_and_cheap_maps(centred):
    group = np.arange(90) % 4
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 2, shape=3)
        tau = pm.HalfNormal("tau", 1)
        effects = pm.Normal("effects", 0, tau if centred else 1, shape=4)
        level = effects if centred else tau * effects
        pm.Poisson("y", pm.math.exp(X @ beta + level[group]), observed=np.arange(90) % 5)
    assert_split(from_pymc(model), inputs=3 + 4)
