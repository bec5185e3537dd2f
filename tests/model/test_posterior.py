import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from nnghmc import Posterior, from_log_density
from nnghmc.errors import PosteriorError
from support import logistic_data, logistic_log_likelihood, logistic_log_prior

evaluate = eqx.filter_jit(lambda function, position: function(position))


def sum_of_squares(parameters):
    return -0.5 * sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(parameters))


def test_potential_is_minus_the_log_posterior(logistic):
    q = jnp.array([0.3, -0.2, 0.9])
    parameters = {"beta": q}
    expected = -logistic_log_likelihood(parameters, logistic.data) - logistic_log_prior(parameters)
    np.testing.assert_allclose(logistic.potential(q), expected, rtol=1e-14)


def test_gradient_is_that_of_the_potential(logistic):
    q, shift = jnp.array([0.3, -0.2, 0.9]), 1e-6
    differences = [
        (logistic.potential(q + d) - logistic.potential(q - d)) / (2 * shift)
        for d in shift * jnp.eye(3)
    ]
    np.testing.assert_allclose(logistic.gradient(q), differences, rtol=1e-6)
    value, gradient = logistic.potential_and_gradient(q)
    np.testing.assert_allclose(value, logistic.potential(q), rtol=1e-14)
    np.testing.assert_allclose(gradient, logistic.gradient(q), rtol=1e-14)


def test_flat_prior_and_single_function():
    flat = Posterior(lambda p, data: -jnp.sum((p - data) ** 2), None, np.zeros(4), np.zeros(4))
    single = from_log_density(lambda p: -jnp.sum(p**2), np.zeros(4))
    q = jnp.arange(4.0)
    assert flat.potential(q) == single.potential(q) == 14.0


def test_data_are_inputs_of_compiled_code_not_constants(logistic):
    """A megabyte of data must not appear in the program, or compiling grows with the data."""
    for function in (logistic.potential, logistic.gradient, logistic.potential_and_gradient):
        lowered = evaluate.lower(function, logistic.initial)
        assert "300x3" in lowered.as_text()
        assert 'dense<"0x' not in lowered.as_text()


def test_variables_are_named_and_shaped():
    initial = {"scale": 0.0, "weights": {"first": np.zeros((2, 3)), "second": np.zeros(2)}}
    posterior = from_log_density(sum_of_squares, initial)
    draws = np.arange(5 * 7 * 9.0).reshape(5, 7, 9)
    variables = posterior.variables(draws)
    assert {name: value.shape for name, value in variables.items()} == {
        "scale": (5, 7),
        "weights.first": (5, 7, 2, 3),
        "weights.second": (5, 7, 2),
    }
    np.testing.assert_array_equal(variables["scale"], draws[..., 0])
    np.testing.assert_array_equal(variables["weights.first"][..., 1, 2], draws[..., 6])


def test_constrain_maps_what_is_reported():
    def constrain(p):
        return {"sigma": jnp.exp(p["log_sigma"]), "ordered": jnp.sort(p["free"])}

    initial = {"log_sigma": 0.0, "free": np.zeros(2)}
    posterior = from_log_density(sum_of_squares, initial, constrain=constrain)
    draws = np.random.default_rng(0).normal(size=(2, 5, 3))
    variables = posterior.variables(draws)
    free, log_sigma = draws[..., :2], draws[..., 2]  # dictionaries flatten by sorted key
    np.testing.assert_allclose(variables["sigma"], np.exp(log_sigma))
    np.testing.assert_allclose(variables["ordered"], np.sort(free, axis=-1))


def test_bare_array_is_called_x():
    assert list(
        from_log_density(lambda p: -jnp.sum(p**2), np.zeros(2)).variables(np.ones((1, 1, 2)))
    ) == ["x"]


def test_repr_says_what_it_is(logistic):
    assert repr(logistic) == "Posterior(beta[3]; 3 dimensions, 300 observations)"


def normal(parameters):
    return -0.5 * jnp.sum(parameters**2)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda: from_log_density(lambda p: -0.5 * p**2, np.zeros(3)),
            ["one real number", "(3,)", "Sum"],
        ),
        (
            lambda: from_log_density(lambda p: jnp.argmax(p), np.zeros(3)),
            ["one real number", "int"],
        ),
        (lambda: from_log_density(lambda p: (p[0], p[1]), np.zeros(3)), ["one real number"]),
        (
            lambda: from_log_density(lambda p: p["missing"], {"a": 0.0}),
            ["log_density failed", "KeyError", "line"],
        ),
        (lambda: from_log_density("not a function", np.zeros(3)), ["failed", "not callable"]),
        (
            lambda: from_log_density(normal, np.array([0.0, np.nan])),
            ["initial must be finite", "nan"],
        ),
        (lambda: from_log_density(normal, "text"), ["real numbers", "'text'"]),
        (lambda: from_log_density(normal, {}), ["at least one parameter"]),
        (
            lambda: Posterior(
                logistic_log_likelihood,
                logistic_log_prior,
                {"features": np.zeros((4, 3)), "labels": np.zeros(5)},
                {"beta": np.zeros(3)},
            ),
            ["leading axis", "features 4", "labels 5"],
        ),
        (
            lambda: Posterior(lambda p, d: normal(p), None, {"n": 7}, np.zeros(2)),
            ["leading axis", "scalar 7", "close over"],
        ),
        (
            lambda: Posterior(
                lambda p, d: normal(p), None, np.array([1.0, np.nan, np.nan]), np.zeros(2)
            ),
            ["NaN", "2 of 3", "impute"],
        ),
        (
            lambda: Posterior(lambda p, d: normal(p), lambda p: -(p**2), None, np.zeros(2)),
            ["log_prior must return one real number", "(2,)"],
        ),
    ],
)
def test_bad_input_is_told_clearly(make, words):
    with pytest.raises(PosteriorError) as caught:
        make()
    message = str(caught.value)
    assert len(message) < 300
    assert all(word in message for word in words), message


BETA = {"beta": np.zeros(3)}


def labelled(**options):
    return lambda: from_log_density(lambda p: normal(p["beta"]), BETA, **options)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (labelled(dims={"beta": "feature"}), ["dims must be a dictionary of lists"]),
        (labelled(dims=["feature"]), ["dims must be a dictionary of lists"]),
        (labelled(dims={"betta": ["feature"]}), ["(beta)", "'betta'"]),
        (labelled(dims={"beta": ["a", "b"]}), ["one name per axis", "(3,)", "['a', 'b']"]),
        (labelled(dims={"beta": ["chain"]}), ["other than chain and draw"]),
        (labelled(dims={"beta": ["beta"]}), ["own", "['beta']"]),
        (labelled(dims={"beta": ["f"]}, coords={"f": [1, 2]}), ["2 labels", "'f'", "3"]),
        (labelled(coords={"f": [1, 2, 3]}), ["coords must label the axes of dims"]),
        (labelled(constrain=lambda p: {}), ["at least one variable"]),
        (labelled(constrain=lambda p: {"draw": p["beta"]}), ["must not be called 'draw'"]),
        (lambda: from_log_density(lambda p: p["a/b"], {"a/b": 0.0}), ["'a/b'", "netCDF"]),
        (
            lambda: from_log_density(lambda p: p["a.b"], {"a.b": 0.0, "a": {"b": 0.0}}),
            ["different names", "'a.b'"],
        ),
        (lambda: from_log_density(lambda p: p[1], {1: 0.0, "a": 0.0}), ["keys of one type"]),
        (
            lambda: from_log_density(sum_of_squares, {"a\x1b[2J": 0.0}),
            ["name that can be printed", r"'a\x1b[2J'"],
        ),
        (
            labelled(constrain=lambda p: {"b\nc": p["beta"]}),
            ["name that can be printed", r"'b\nc'"],
        ),
    ],
)
def test_names_that_would_not_fit_the_results_are_told_before_sampling(make, words):
    with pytest.raises(PosteriorError) as caught:
        make()
    assert all(word in str(caught.value) for word in words), str(caught.value)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (np.array(["a", "b"]), ["real numbers", "<U1", "integers"]),
        (np.array([1j, 2j]), ["real numbers", "complex"]),
        (np.empty((0, 3)), ["at least one observation"]),
        ([1.0, 2.0], ["scalar 1.0", "NumPy arrays"]),
        (jnp.array([1.0, jnp.nan]), ["NaN", "1 of 2", "impute"]),
        (jnp.array([1j, 2j]), ["real numbers", "complex"]),
        (jax.random.split(jax.random.key(0)), ["real numbers", "key"]),
        (pd.DataFrame({"a": [1.0]}), ["arrays", "x is a DataFrame", "to_numpy"]),
        ({"y": pd.Series([1.0])}, ["arrays", "y is a Series", "to_numpy"]),
    ],
)
def test_data_of_the_wrong_kind_are_told(data, words):
    with pytest.raises(PosteriorError) as caught:
        Posterior(lambda p, d: normal(p), None, data, np.zeros(2))
    assert all(word in str(caught.value) for word in words), str(caught.value)


@pytest.mark.parametrize(
    "function", [lambda p: np.sum(np.sin(p)), lambda p: p[0] if p[0] > 0 else p[1]]
)
def test_what_jax_cannot_trace_is_told_with_a_remedy(function):
    with pytest.raises(PosteriorError) as caught:
        from_log_density(function, np.zeros(2))
    assert "jax.numpy" in str(caught.value)
    assert "jnp.where" in str(caught.value)
    assert "(line " in str(caught.value)


def test_a_constant_prior_may_be_a_plain_number():
    posterior = Posterior(lambda p, d: normal(p), lambda p: 0, None, np.zeros(2))
    assert posterior.potential(jnp.ones(2)) == 1.0


def test_a_function_that_cannot_be_hashed_is_told():
    class Density:
        __hash__ = None

        def __call__(self, p):
            return normal(p)

    with pytest.raises(PosteriorError, match="hashable"):
        Posterior(lambda p, d: normal(p), Density(), None, np.zeros(2))


def test_a_new_posterior_sees_what_its_function_closes_over_now():
    scale = [1.0]

    def log_density(x):
        return -0.5 * jnp.sum((x / scale[0]) ** 2)

    for value in (1.0, 10.0):
        scale[0] = value
        posterior = from_log_density(log_density, np.zeros(2))
        assert evaluate(posterior.potential, jnp.ones(2)) == pytest.approx(1 / value**2)
        assert evaluate(posterior.gradient, jnp.ones(2)) == pytest.approx(1 / value**2)


def test_two_posteriors_of_the_same_functions_share_compiled_code():
    first, second = (
        Posterior(
            logistic_log_likelihood,
            logistic_log_prior,
            logistic_data(seed=s),
            {"beta": np.zeros(3)},
        )
        for s in (0, 1)
    )
    structures = [jax.tree_util.tree_structure(p.potential) for p in (first, second)]
    assert structures[0] == structures[1]


@pytest.mark.parametrize("name", ["origin", "initial", "monitor", "calls", "anything_else"])
def test_it_cannot_be_changed(logistic, name):
    before = dict(vars(logistic))
    with pytest.raises(AttributeError, match=f"cannot be changed after it was made, so {name} "):
        setattr(logistic, name, 3)
    with pytest.raises(AttributeError, match="cannot be changed after it was made"):
        delattr(logistic, name)
    assert vars(logistic) == before


def test_copies_differ_in_what_they_are_asked_for_alone(logistic):
    copied = logistic.with_origin("file.py:name")
    assert (logistic.origin, copied.origin) == (None, "file.py:name")
    assert {name for name, value in vars(copied).items() if value is not vars(logistic)[name]} == {
        "origin"
    }
    assert repr(copied) == repr(logistic)
    with pytest.raises(AttributeError, match="cannot be changed"):
        copied.origin = None


def test_simulated_data_may_come_from_a_function_outside_jax(logistic):
    posterior = logistic.simulated_by(lambda positions, seed: {"y": positions[..., 0] + seed})
    np.testing.assert_array_equal(
        posterior.predictions(np.ones((2, 4, 3)), 5)["y"], np.full((2, 4), 6)
    )
    with pytest.raises(PosteriorError, match="simulated data need a function"):
        logistic.predictions(np.ones((2, 4, 3)), 5)


def test_a_posterior_in_jax_has_nothing_to_count(logistic):
    logistic.monitor.begin()
    logistic.monitor.check()
    assert logistic.monitor.doubt == ""
    assert logistic.monitor.tally.calls == 0
    assert logistic.calls is None
