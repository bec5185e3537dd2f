"""A NumPy function becomes a posterior: the same numbers, checked calls, counted failures."""

import gc
import threading
from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from host_functions import DEADLY, SCALES, counting, gaussian, gaussian_value, raising, walled
from nnghmc import Posterior, from_callable
from nnghmc.errors import GradientWarning, PosteriorError, SettingsError
from nnghmc.model.blackbox.evaluation import UNUSABLE, Evaluation
from support import logistic_data, logistic_log_likelihood, logistic_log_prior


def logistic_in_numpy(parameters):
    data = logistic_data()
    logits = data["features"] @ parameters["beta"]
    errors = data["labels"] - 1 / (1 + np.exp(-logits))
    value = data["labels"] @ logits - np.logaddexp(0, logits).sum()
    value -= 0.5 * np.sum(parameters["beta"] ** 2) / 10 + parameters["spare"] ** 2
    slope = errors @ data["features"] - parameters["beta"] / 10
    return value, {"beta": slope, "spare": -2 * parameters["spare"]}


def test_density_and_gradient_are_those_of_the_model_in_jax():
    initial = {"beta": np.zeros(3), "spare": 0.5}
    ours = from_callable(logistic_in_numpy, initial)
    jax_posterior = Posterior(
        logistic_log_likelihood,
        lambda p: logistic_log_prior(p) - p["spare"] ** 2,
        logistic_data(),
        initial,
    )
    assert ours.layout == jax_posterior.layout
    positions = jnp.asarray(np.random.default_rng(0).normal(size=(5, 4)))
    for function in ("potential", "gradient", "potential_and_gradient"):
        seen, wanted = (
            jax.jit(jax.vmap(getattr(posterior, function)))(positions)
            for posterior in (ours, jax_posterior)
        )
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-10), seen, wanted)


@pytest.mark.parametrize("initial", [4, np.ones((2, 2)), (np.zeros(1), [np.zeros((1, 3))]), 1.5])
def test_gets_and_returns_whatever_form_the_parameters_have(initial):
    def function(parameters):
        for part in jax.tree.leaves(parameters):
            assert isinstance(part, np.ndarray)
            assert part.dtype == np.float64
        if not isinstance(initial, int):
            assert jax.tree.map(np.shape, parameters) == jax.tree.map(np.shape, initial)
        squares = sum(float((part**2).sum()) for part in jax.tree.leaves(parameters))
        return -0.5 * squares, jax.tree.map(lambda part: -part, parameters)

    posterior = from_callable(function, initial)
    position = jnp.arange(1.0, posterior.dim + 1)
    assert posterior.potential(position) == pytest.approx(0.5 * float(position @ position))
    np.testing.assert_allclose(posterior.gradient(position), position)
    assert posterior.calls.failures == {}


def test_the_function_may_write_to_what_it_gets():
    def function(x):
        value, gradient = gaussian(x)
        x[:] = np.nan
        return value, gradient

    posterior = from_callable(function, np.ones(3))
    position = jnp.ones(3)
    assert posterior.potential(position) == posterior.potential(position) == 0.5 * 5.25


def test_making_it_takes_few_calls():
    counts = Counter()
    functions = (
        counting(gaussian, counts, "gradients"),
        counting(gaussian_value, counts, "values"),
    )
    from_callable(functions[0], 3)
    assert counts == {"gradients": 3}
    counts.clear()
    from_callable(functions[0], 3, value=functions[1])
    assert counts == {"gradients": 1, "values": 3}


@pytest.mark.parametrize("returned", [None, "text", (1.0,), (1.0, None), (1.0, np.zeros(2)), {}])
def test_what_is_returned_later_on_may_be_anything(returned):
    posterior = from_callable(lambda x: returned if x[0] > 0.5 else gaussian(x), 3)
    potential, gradient = jax.jit(posterior.potential_and_gradient)(jnp.ones(3))
    assert np.isnan(potential)
    assert np.isnan(gradient).all()
    assert posterior.calls.failures == {UNUSABLE: 1}


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x: None, r"pair \(log density, gradient\), got None\. Return both"),
        (lambda x: 1.0, r"pair \(log density, gradient\), got 1\.0 \(float\)"),
        (lambda x: (x, x), r"as its first part, got an array of shape \(3,\) and type float64"),
        (lambda x: ("a", x), r"one real number.*got 'a' \(str\)"),
        (lambda x: (1j, x), r"one real number.*got 1j \(complex\)"),
        (lambda x: (1.0, x[:2]), r"x has shape \(3,\), and its gradient \(2,\)"),
        (lambda x: (1.0, "no"), r"that of x is 'no' \(str\)\. Make it a NumPy array"),
        (lambda x: (np.nan, x), r"finite where chains start, but at \[0\. 0\. 0\.\].*is nan"),
        (lambda x: (1.0, x / 0.0), r"the gradient is nan in coordinate 0\. Give initial"),
        (lambda x: 1 / 0, r"failed at the initial.*ZeroDivisionError.*line \d+ of test_callable"),
        ("no function", "value_and_grad must be a function, got 'no function'"),
    ],
)
@pytest.mark.filterwarnings("ignore:invalid value encountered")
def test_the_first_call_is_checked(function, words):
    with pytest.raises(PosteriorError, match=words):
        from_callable(function, 3)


def test_the_gradient_has_the_names_of_the_parameters():
    with pytest.raises(PosteriorError, match=r"same names \(a, b\), got \{'a': .*'c'"):
        from_callable(lambda p: (0.0, {"a": p["a"], "c": p["b"]}), {"a": 1.0, "b": 2.0})


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"initial_or_dim": 0}, SettingsError, "number of dimensions must be a positive whole"),
        ({"initial_or_dim": True}, PosteriorError, "must hold real numbers"),
        ({"workers": 0}, SettingsError, "workers must be a positive whole number"),
        ({"value": 3}, PosteriorError, "value must be a function, got 3"),
        ({"value": lambda x: 7.0}, PosteriorError, "same log density.* it is 7.0 and -0.0"),
        ({"value": lambda x: x}, PosteriorError, r"^value must return one real number"),
        ({"processes": True}, PosteriorError, "sent to another process.*top level of a module"),
        ({"constrain": lambda x: 1 / 0}, PosteriorError, "constrain failed.*ZeroDivisionError"),
    ],
)
def test_arguments_are_checked(arguments, error, words):
    with pytest.raises(error, match=words):
        from_callable(lambda x: gaussian(x), **{"initial_or_dim": 3, **arguments})


def shifted(sign, factor):
    return lambda x: (sign * -0.5 * np.sum((x - 3) ** 2), -factor * (x - 3))


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (shifted(1, -1), "it points the other way: .* without the minus sign"),
        (shifted(-1, 1), "it points the other way"),
        (shifted(1, 2), r"rate of 4.57, and the gradient says 9.15. Return the gradient of the"),
        (shifted(1, 0), "the gradient says 0"),
    ],
)
def test_a_gradient_of_something_else_is_noticed(function, words):
    with pytest.warns(GradientWarning, match=words) as caught:
        posterior = from_callable(function, 3)
    assert posterior.monitor.doubt == str(caught[0].message)


@pytest.mark.parametrize(
    "function",
    [
        shifted(1, 1.1),
        lambda x: (-np.abs(x).sum(), -np.sign(x)),
        lambda x: (-0.5 * np.sum((x - 3) ** 2 * STIFF), -(x - 3) * STIFF),
        lambda x: (-np.sum((x - 3) ** 4 * STIFF), -4 * (x - 3) ** 3 * STIFF),
        lambda x: (-1e5 * (1 + 1e-7 * np.sin(1e9 * x[0])) - 0.5 * np.sum((x - 3) ** 2), 3 - x),
    ],
    ids=["nearly right", "kinks", "stiff", "quartic", "noisy"],
)
def test_nothing_is_said_of_a_gradient_that_may_be_right(function):
    assert from_callable(function, 3).monitor.doubt == ""


STIFF = np.array([1.0, 1e4, 1e8])


def test_many_failures_in_a_row_are_no_end_where_the_function_still_works():
    def writing(x):
        found = walled(x)
        x[:] = np.nan  # what is remembered must not be what the function has written over
        return found

    posterior = from_callable(writing, 2)
    outside = jnp.full((3, 2), -3.0)
    for _ in range(25):
        assert np.isnan(jax.vmap(posterior.potential)(outside)).all()
    posterior.monitor.check()
    assert posterior.potential(jnp.ones(2)) == 1.0
    assert posterior.calls.failures == {"ValueError": 75}
    assert posterior.calls.calls == 3 + 75 + 3 + 1  # made, failed, tried again, the last


def test_a_process_that_dies_is_the_failure_of_one_chain_alone():
    in_processes = from_callable(gaussian, 3, workers=2, processes=True)
    positions = jnp.asarray([[1.0, 0, 0], [2 * DEADLY, 0, 0]])
    potentials = jax.jit(jax.vmap(in_processes.potential))(positions)
    np.testing.assert_array_equal(potentials, [2.0, np.nan])
    assert in_processes.calls.failures == {"the process died": 1}


def test_several_chains_are_called_at_the_same_time():
    """Each call waits until the others have come; one after the other they would wait for ever."""
    together = threading.Barrier(3, timeout=20)

    def function(x):
        if x[0] > 0.5:
            together.wait()
        return gaussian(x)

    posterior = from_callable(function, 3, workers=3)
    potentials = jax.vmap(posterior.potential)(jnp.ones((3, 3)))
    np.testing.assert_allclose(potentials, 2.625)


def test_words_of_a_process_name_the_line():
    evaluation = Evaluation(raising, None, from_callable(gaussian, 3).layout)
    assert evaluation(2 * SCALES, True).problem == ""
    outcome = evaluation(9 * SCALES, True)
    assert outcome.words == "FileNotFoundError: mesh.vtk (line 20 of host_functions.py)"


def test_the_function_may_use_jax_itself():
    compiled = jax.jit(jax.value_and_grad(lambda x: -0.5 * jnp.sum(x**2)))

    def function(x):
        value, gradient = compiled(x)
        return float(value), np.asarray(gradient)

    posterior = from_callable(function, 50_000, workers=2)

    @jax.jit
    def several(positions):
        def body(_, positions):
            return positions - 0.1 * jax.vmap(posterior.gradient)(positions)

        return jax.lax.fori_loop(0, 10, body, positions)

    np.testing.assert_allclose(several(jnp.ones((4, 50_000))), 0.9**10, rtol=1e-12)


def test_reports_what_constrain_makes_of_the_draws_in_numpy():
    posterior = from_callable(
        lambda p: (-0.5 * float(p["log_s"] @ p["log_s"]), {"log_s": -p["log_s"]}),
        {"log_s": np.zeros(2)},
        constrain=lambda p: {"s": np.exp(p["log_s"]), "first": float(p["log_s"][0])},
        dims={"s": ["which"]},
        coords={"which": ["a", "b"]},
    )
    draws = np.random.default_rng(0).normal(size=(2, 5, 2))
    reported = posterior.variables(draws)
    np.testing.assert_allclose(reported["s"], np.exp(draws))
    np.testing.assert_allclose(reported["first"], draws[..., 0])


def test_draws_that_constrain_cannot_take_are_nan_and_told():
    def constrain(x):
        if x[0] > 0:
            raise ValueError("no such place")
        return {"y": x[:2]}

    posterior = from_callable(gaussian, 3, constrain=constrain)
    with pytest.warns(UserWarning, match=r"1 of 2 draws.*ValueError: no such place"):
        reported = posterior.variables(np.array([[[1.0, 2, 3], [-1.0, 2, 3]]]))
    np.testing.assert_array_equal(reported["y"], [[[np.nan, np.nan], [-1.0, 2.0]]])


def test_workers_end_with_the_last_copy_of_the_posterior():
    others = set(threading.enumerate())
    posterior = from_callable(gaussian, 3, workers=2)
    copied = posterior.with_origin("file.py:name")
    jax.jit(jax.vmap(posterior.potential))(jnp.ones((4, 3)))
    threads = [t for t in set(threading.enumerate()) - others if t.name.startswith("nnghmc")]
    assert len(threads) == 2
    del posterior
    gc.collect()
    assert copied.potential(jnp.ones(3)) == 2.625
    assert all(thread.is_alive() for thread in threads)
    del copied
    gc.collect()
    for thread in threads:
        thread.join(20)
    assert not any(thread.is_alive() for thread in threads)


def around_one(q):
    """A log likelihood around one, with its gradient."""
    return -0.5 * np.sum((q - 1) ** 2), 1 - q


def test_a_prior_in_jax_stays_exact():
    posterior = from_callable(around_one, 2, log_prior=lambda q: -jnp.sum(q**4))
    split, position = posterior.split(), jnp.array([0.5, 2.0])
    assert (split.num_inputs, split.has_exact_part) == (2, True)
    assert split.exact(position) == 0.5**4 + 2.0**4
    value, gradient = split.expensive_and_gradient(position)
    assert value == -around_one(np.array([0.5, 2.0]))[0]
    np.testing.assert_allclose(gradient, position - 1)
    potential, slope = posterior.potential_and_gradient(position)
    assert potential == pytest.approx(float(value + split.exact(position)))
    assert posterior.potential(position) == pytest.approx(float(potential))
    np.testing.assert_allclose(slope, position - 1 + 4 * position**3)


def test_a_log_prior_must_return_one_number():
    with pytest.raises(PosteriorError, match="log_prior must return one real number"):
        from_callable(around_one, 2, log_prior=lambda q: q)
