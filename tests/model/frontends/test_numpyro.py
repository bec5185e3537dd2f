"""NumPyro models: the density on the free scale, what is reported, what is refused."""

from functools import cache, partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.contrib.control_flow import scan
from numpyro.handlers import condition, reparam
from numpyro.infer.reparam import LocScaleReparam
from numpyro.infer.util import initialize_model
from scipy import stats

from nnghmc import from_numpyro
from nnghmc.errors import PosteriorError
from support import (
    assert_natural_scale_of_regression,
    assert_split,
    regression_log_densities,
)

GENERATOR = np.random.default_rng(0)
X, Y = GENERATOR.normal(size=(90, 3)), GENERATOR.normal(size=90)


def regression(x, y=None):
    with numpyro.plate("feature", x.shape[1]):
        beta = numpyro.sample("beta", dist.Normal(0, 2))
    sigma = numpyro.sample("sigma", dist.HalfNormal(1))
    with numpyro.plate("row", len(x)):
        mean = numpyro.deterministic("mean", x @ beta)
        numpyro.sample("y", dist.Normal(mean, sigma), obs=y)


def every_support():
    low = numpyro.sample("low", dist.Normal(0, 1))
    numpyro.sample("above", dist.TruncatedNormal(0, 1, low=low))  # its support moves
    numpyro.sample("between", dist.Uniform(-1, 3).expand([2]).to_event(1))
    numpyro.sample("share", dist.Beta(2, 3))
    numpyro.sample("simplex", dist.Dirichlet(jnp.array([1.0, 2.0, 3.0])))
    numpyro.sample("factor", dist.LKJCholesky(3, 2.0))
    numpyro.sample("flat", dist.ImproperUniform(dist.constraints.positive, (), ()))
    numpyro.factor("penalty", -(low**2))
    with numpyro.handlers.scope(prefix="inner"):
        numpyro.sample("rate", dist.Gamma(2, 2))


def walk(y):
    def step(state, observed):
        state = numpyro.sample("state", dist.LogNormal(jnp.log(state), 0.5))
        return state, numpyro.sample("y", dist.Normal(state, 1), obs=observed)

    scan(step, 1.0, y)


def centred(y):
    scale = numpyro.sample("scale", dist.HalfCauchy(1))
    with numpyro.plate("group", len(y)):
        effect = numpyro.sample("effect", dist.Normal(0, scale))
        numpyro.sample("y", dist.Normal(effect, 1), obs=y)


MODELS = {
    "regression": (regression, (X, Y)),
    "every support": (every_support, ()),
    "scan": (walk, (Y[:5],)),
    "under a handler": (reparam(centred, config={"effect": LocScaleReparam(0)}), (Y[:4],)),
    "partial": (partial(condition(regression, {"y": Y}), X), ()),
}


@cache
def posterior_of(name):
    model, arguments = MODELS[name]
    return from_numpyro(model, *arguments)


@pytest.mark.parametrize("name", MODELS)
def test_density_and_gradient_are_numpyro_own_at_random_points(name):
    (model, arguments), posterior = MODELS[name], posterior_of(name)

    def theirs(position):
        info = initialize_model(jax.random.key(0), model, model_args=arguments)
        parameters = posterior.layout.unflatten(position)
        return info.potential_fn({site: parameters[site.replace("/", ".")] for site in info[0].z})

    points = jax.random.normal(jax.random.key(1), (5, posterior.dim))
    evaluate = eqx.filter_jit(lambda function, points: jax.vmap(function)(points))
    ours = evaluate(posterior.potential_and_gradient, points)
    expected = jax.jit(jax.vmap(jax.value_and_grad(theirs)))(points)
    for mine, other in zip(ours, expected, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-10, atol=1e-10)


def test_density_is_that_of_the_formula_jacobian_included():
    posterior = posterior_of("regression")
    found, expected = regression_log_densities(posterior, X, Y)
    assert float(found) == pytest.approx(expected, rel=1e-12)


def test_variables_are_on_their_natural_scale_with_dims_of_the_plates():
    posterior = posterior_of("regression")
    assert_natural_scale_of_regression(posterior, X)
    assert posterior.dims == {"beta": ["feature"], "sigma": [], "mean": ["row"], "y": ["row"]}
    assert posterior.coords == {"feature": [0, 1, 2], "row": list(range(90))}
    np.testing.assert_array_equal(posterior.observed["y"], Y)
    assert repr(posterior) == "Posterior(beta[3], sigma; 4 dimensions, observed y[90])"


def test_every_support_is_reported_inside_it():
    posterior = posterior_of("every support")
    found = posterior.variables(GENERATOR.normal(size=(1, 50, posterior.dim)))
    assert np.all(found["above"] > found["low"])
    assert np.all((found["between"] > -1) & (found["between"] < 3))
    np.testing.assert_allclose(found["simplex"].sum(axis=-1), 1.0)
    np.testing.assert_allclose((found["factor"] ** 2).sum(axis=-1), 1.0)
    assert found["simplex"].shape == (1, 50, 3)
    assert np.all(found["inner.rate"] > 0)
    assert posterior.observed == {}


def test_names_of_axes():
    def model():
        with numpyro.plate("group", 2), numpyro.plate("school", 3):
            numpyro.sample("effect", dist.Normal(0, 1))
            event = dist.MultivariateNormal(jnp.zeros(4), jnp.eye(4))
            numpyro.sample("slopes", event, infer={"event_dims": ["feature"]})
        numpyro.sample("weights", dist.Dirichlet(jnp.ones(3)))

    posterior = from_numpyro(model)
    assert posterior.dims == {
        "effect": ["school", "group"],
        "slopes": ["school", "group", "feature"],
        "weights": ["weights_dim_0"],
    }


def lowered(posterior):
    evaluate = eqx.filter_jit(lambda potential, q: potential(q))
    return evaluate.lower(posterior.potential, posterior.initial).as_text()


def test_arrays_are_inputs_of_compiled_code_also_where_a_model_looks_into_one():
    def grouped(x, group, y):
        levels = len(np.unique(group))  # needs the numbers while the model is traced
        with numpyro.plate("group", levels):
            level = numpyro.sample("level", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(level[group] + x[:, 0], 1.0), obs=y)

    for posterior in (
        posterior_of("regression"),
        from_numpyro(grouped, X, np.arange(90) % 4, Y),
    ):
        program = lowered(posterior)
        assert "tensor<90x3xf64>" in program.split("@main(")[1].splitlines()[0]
        assert "dense<" + '"0x' not in program.replace("tensor<90xi64>", "")


def test_a_large_array_is_no_constant_of_what_is_reported():
    posterior = posterior_of("regression")
    reported = eqx.filter_jit(lambda constrain, p: constrain(p))
    parameters = posterior.layout.unflatten(posterior.initial)
    assert 'dense<"0x' not in reported.lower(posterior.constrain, parameters).as_text()


def test_start_is_where_the_priors_are_or_at_zero_if_that_is_likelier():
    def far_away():
        numpyro.sample("a", dist.Normal(1000, 1))

    def wide(y):
        a = numpyro.sample("a", dist.LogNormal(0, 10))  # with a mean of e^50
        numpyro.sample("y", dist.Normal(a, 1), obs=y)

    def no_mean():
        numpyro.sample("a", dist.HalfCauchy(1))

    assert from_numpyro(far_away).initial == 1000
    assert from_numpyro(wide, Y).initial == 0
    assert from_numpyro(no_mean).initial == 0


@pytest.mark.filterwarnings("ignore:Out-of-support values:UserWarning")
def test_a_start_that_is_nowhere_finite_is_told():
    def outside():
        scale = numpyro.sample("scale", dist.HalfNormal(1))
        numpyro.sample("y", dist.Normal(0, scale), obs=np.array([1.0, np.nan]))

    with pytest.raises(PosteriorError, match=r"must be finite where chains start.*NaN"):
        from_numpyro(outside)


def discrete():
    numpyro.sample("k", dist.Bernoulli(0.5))
    numpyro.sample("rate", dist.Gamma(1, 1))


def fixed():
    numpyro.sample("a", dist.Normal(numpyro.param("location", 0.0), 1))


def part_of_the_data():
    with numpyro.plate("row", 90, subsample_size=10):
        numpyro.sample("a", dist.Normal(0, 1))


def random_density():
    shift = jax.random.normal(numpyro.prng_key())
    numpyro.sample("a", dist.Normal(shift, 1))


def one_value():
    numpyro.sample("a", dist.Delta(1.0))


def branching():
    a = numpyro.sample("a", dist.Normal(0, 1))
    numpyro.sample("b", dist.Normal(0, 1 if a > 0 else 2))


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (discrete, ["discrete", "Got k.", "MixtureSameFamily"]),
        (fixed, ["numpyro.param", "Got location.", "ImproperUniform"]),
        (part_of_the_data, ["subsample_size", "Got row."]),
        (random_density, ["NumPyro model failed", "PRNG key", "NoneType", "(line "]),
        (one_value, ["one value", "deterministic", "Got a."]),
        (branching, ["jnp.where instead of if", "(line "]),
        (lambda: 3, ["no numpyro.sample site", "from_log_density"]),
        (lambda x: -(x**2), ["no arguments failed", "TypeError", "model_args", "from_log_density"]),
    ],
)
def test_what_cannot_be_sampled_is_told_clearly(model, words):
    with pytest.raises(PosteriorError) as caught:
        from_numpyro(model)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_parameters_of_a_network_are_held_where_priors_replace_them():
    def network(x, y):
        weights = numpyro.param("net$params", lambda key: jax.random.normal(key, (3,)))
        shift = numpyro.sample("shift", dist.Normal(0, 1).expand([3]).to_event(1))
        numpyro.sample("y", dist.Normal(x @ (weights + shift), 1), obs=y)

    posterior = from_numpyro(network, X, Y)
    assert posterior.layout.names == ("shift",)
    assert np.isfinite(posterior.potential(posterior.initial))


def test_observations_have_their_log_likelihood_and_are_simulated_anew():
    posterior = posterior_of("regression")
    draws = np.tile([0.3, -0.2, 0.5, -3.0], (2, 400, 1))
    means, sigma = X @ draws[0, 0, :3], np.exp(-3.0)
    found = posterior.log_likelihoods(draws[:, :2])
    expected = stats.norm.logpdf(Y, means, sigma)
    assert {name: part.shape for name, part in found.items()} == {"y": (2, 2, 90)}
    np.testing.assert_allclose(found["y"][1, 1], expected, rtol=1e-10)
    simulated = posterior.predictions(draws, seed=0)["y"]
    z = (simulated - means) / sigma
    assert simulated.shape == (2, 400, 90)
    assert abs(z.mean()) < 5 / np.sqrt(z.size)
    assert abs(z.std() - 1) < 5 / np.sqrt(2 * z.size)
    assert not np.array_equal(simulated[0], simulated[1])
    np.testing.assert_array_equal(simulated, posterior.predictions(draws, seed=0)["y"])


@pytest.mark.parametrize("centred", [True, False])
def test_the_likelihood_is_split_from_priors_and_cheap_maps(centred):
    def model(x, group, y):
        beta = numpyro.sample("beta", dist.Normal(0, 2).expand([3]))
        tau = numpyro.sample("tau", dist.HalfNormal(1.0))
        with numpyro.plate("groups", 4):
            effects = numpyro.sample("effects", dist.Normal(0, tau if centred else 1.0))
        level = effects if centred else tau * effects
        numpyro.sample("y", dist.Poisson(jnp.exp(x @ beta + level[group])), obs=y)

    x = np.random.default_rng(0).normal(size=(90, 3))
    arguments = {"x": x, "group": np.arange(90) % 4, "y": np.arange(90) % 5}
    assert_split(from_numpyro(model, **arguments), inputs=3 + 4)
