import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nnghmc import Posterior, from_log_density
from nnghmc.errors import PosteriorError
from support import logistic_data, logistic_log_likelihood, logistic_log_prior


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
    import equinox as eqx

    def evaluate(potential, q):
        return potential(q)

    lowered = eqx.filter_jit(evaluate).lower(logistic.potential, logistic.initial)
    assert "300x3" in lowered.as_text()
    assert 'dense<"0x' not in lowered.as_text()


def test_variables_are_named_and_shaped():
    initial = {"scale": 0.0, "weights": {"first": np.zeros((2, 3)), "second": np.zeros(2)}}
    posterior = from_log_density(lambda p: -(p["scale"] ** 2), initial)
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

    posterior = from_log_density(
        lambda p: -(p["log_sigma"] ** 2),
        {"log_sigma": 0.0, "free": np.zeros(2)},
        constrain=constrain,
    )
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
            ["log_likelihood failed", "KeyError"],
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
