"""A NumPy function becomes a posterior: the same numbers, no call too many, failures told."""

import threading
from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from host_functions import DEADLY, SCALES, gaussian, raising
from nnghmc import Automatic, Posterior, from_callable, sample
from nnghmc.diagnostics import standard_errors
from nnghmc.errors import GradientWarning, PosteriorError, SettingsError
from nnghmc.frontends import workers
from support import (
    FALSE_ALARMS,
    QUICK,
    logistic_data,
    logistic_log_likelihood,
    logistic_log_prior,
)

HMC = {"method": "hmc", "step_size": 0.4, "num_steps": (1, 5), "warmup": 3, "progress": False}


def logistic_in_numpy(parameters):
    data = logistic_data()
    logits = data["features"] @ parameters["beta"]
    errors = data["labels"] - 1 / (1 + np.exp(-logits))
    value = data["labels"] @ logits - np.logaddexp(0, logits).sum()
    value -= 0.5 * np.sum(parameters["beta"] ** 2) / 10 + parameters["spare"] ** 2
    slope = errors @ data["features"] - parameters["beta"] / 10
    return value, {"beta": slope, "spare": -2 * parameters["spare"]}


def counting(function, counts, name):
    def counted(parameters):
        counts[name] += 1
        return function(parameters)

    return counted


def gaussian_value(x):
    return gaussian(x)[0]


def assert_moments(run, means, spreads):
    """First and second moments, in units of Monte Carlo error, with one bound for all."""
    draws = (run.draws - means) / spreads
    functions = np.concatenate([draws, draws**2], axis=2)
    expected = np.repeat([0.0, 1.0], draws.shape[2])
    z = (functions.mean(axis=(0, 1)) - expected) / standard_errors(functions)
    assert np.abs(z).max() < stats.norm.isf(FALSE_ALARMS / 2 / len(z)), z


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
    assert posterior.calls.tally.failures == {}


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


def test_one_call_a_draw_and_none_that_the_automatic_run_does_not_tell(monkeypatch):
    """Beyond the cost there are those of timing: 4 of each kind for each chain."""
    monkeypatch.setattr("nnghmc.payoff.LEAST_SECONDS_OF_TIMING", 0.0)
    counts, timing = Counter(), 4 * 4
    functions = (
        counting(gaussian, counts, "gradients"),
        counting(gaussian_value, counts, "values"),
    )
    posterior = from_callable(functions[0], 3, value=functions[1])
    counts.clear()
    before = posterior.calls.begin()
    run = sample(posterior, 500, 4, automatic=Automatic(way="learn"), progress=False)
    assert run.handed_over
    calls, total, sampled = posterior.calls.tally.since(before), run.cost.total, run.cost.sample
    assert counts == {"values": calls.potentials, "gradients": calls.gradients}
    assert calls.potentials == total.true_potentials + timing
    assert calls.gradients == total.true_gradients + timing
    insured = run.stats["insurance"]
    rays = sampled.true_gradients - (run.stats["n_steps"] + 1)[insured].sum()
    assert sampled.true_potentials + insured.sum() == total.true_potentials + insured.sum() == 2000
    assert 0 < rays <= 80  # a look beyond the outermost draws, at the end
    assert run.notes == ()
    assert_moments(run, 0.0, SCALES)


def test_nuts_runs_on_it_and_calls_also_for_chains_that_wait():
    posterior = from_callable(gaussian, 3)
    before = posterior.calls.begin()
    run = sample(posterior, 300, 2, method="nuts", progress=False)
    calls = posterior.calls.tally.since(before).gradients
    assert run.cost.total.true_gradients < calls < 2 * run.cost.total.true_gradients
    assert_moments(run, 0.0, SCALES)


WALL = -0.3


def walled(x):
    if x[0] < WALL:
        raise ValueError("outside")
    return -0.5 * float(x @ x), -x


def test_a_wall_where_it_raises_is_the_edge_of_the_distribution():
    posterior = from_callable(walled, 2)
    tuning = {**QUICK, "step_size": 0.5, "num_steps": (1, 4)}
    run = sample(posterior, 2000, 4, **tuning)
    assert run.handed_over
    assert run.draws[..., 0].min() >= WALL
    cut = stats.truncnorm(WALL, np.inf)
    assert_moments(run, [cut.mean(), 0.0], [cut.std(), 1.0])
    assert run.stats["nonfinite"].sum() > 100
    failures = posterior.calls.tally.failures["ValueError"]
    calls = run.cost.total.true_potentials + run.cost.total.true_gradients
    assert run.remarks[-1].startswith(f"the function failed {failures:,} times in ")
    assert run.remarks[-1] in str(run)
    assert "(ValueError: outside (line " in run.remarks[-1]
    assert posterior.calls.tally.calls - 3 < calls  # nothing is called where a trajectory was lost


def test_infinity_and_nan_are_rejections_and_no_failures():
    def function(x):
        value, gradient = gaussian(x)
        return (-np.inf if x[0] > 0.5 else value), gradient

    posterior = from_callable(function, 3)
    run = sample(posterior, 100, 2, **HMC)
    tally = posterior.calls.tally
    assert run.draws[..., 0].max() <= 0.5
    assert tally.nonfinite > 0
    assert tally.failures == {}
    assert f"returned infinity or NaN {tally.nonfinite} times" in run.notes[0]


@pytest.mark.parametrize("returned", [None, "text", (1.0,), (1.0, None), (1.0, np.zeros(2)), {}])
def test_what_is_returned_later_on_may_be_anything(returned):
    posterior = from_callable(lambda x: returned if x[0] > 0.5 else gaussian(x), 3)
    potential, gradient = jax.jit(posterior.potential_and_gradient)(jnp.ones(3))
    assert np.isnan(potential)
    assert np.isnan(gradient).all()
    assert posterior.calls.tally.failures == {workers.UNUSABLE: 1}


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
    with pytest.warns(GradientWarning, match=words):
        posterior = from_callable(function, 3)
    assert posterior.calls.remarks_since(posterior.calls.begin()) == [posterior.calls.doubt]


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
    assert from_callable(function, 3).calls.doubt == ""


STIFF = np.array([1.0, 1e4, 1e8])


class Breaking:
    """A Gaussian that works for so many calls, and then raises until it is mended."""

    def __init__(self, error, good_calls):
        self.error, self.left, self.failed = error, good_calls, 0

    def __call__(self, x):
        self.left -= 1
        if self.left < 0:
            self.failed += 1
            raise self.error
        return gaussian(x)


def test_a_function_that_begins_to_fail_always_ends_the_run_with_its_own_words():
    function = Breaking(OSError("the licence has expired"), 100)
    posterior = from_callable(function, 3)
    with pytest.raises(PosteriorError, match=r"fails always now.*OSError: the licence") as caught:
        sample(posterior, 1000, 2, **HMC)
    assert caught.value.__cause__ is None
    assert str(caught.value).count("licence") == 1
    assert 10 <= function.failed < 30
    function.left = 10**6
    run = sample(posterior, 20, 2, **HMC)
    assert run.remarks == ()


def test_ctrl_c_inside_the_function_ends_the_run_as_such():
    posterior = from_callable(Breaking(KeyboardInterrupt(), 60), 3, workers=2)
    with pytest.raises(KeyboardInterrupt):
        sample(posterior, 1000, 2, **HMC)


def test_starts_outside_the_support_are_told_with_the_words_of_the_function():
    with pytest.raises(PosteriorError, match=r"finite where chains start.*ValueError: outside"):
        sample(from_callable(walled, 2), 10, 2, initial_positions=np.full((2, 2), -3.0), **HMC)


def test_many_failures_in_a_row_are_no_end_where_the_function_still_works():
    def writing(x):
        found = walled(x)
        x[:] = np.nan  # what is remembered must not be what the function has written over
        return found

    posterior = from_callable(writing, 2)
    outside = jnp.full((3, 2), -3.0)
    for _ in range(25):
        assert np.isnan(jax.vmap(posterior.potential)(outside)).all()
    posterior.calls.check()
    assert posterior.potential(jnp.ones(2)) == 1.0
    assert posterior.calls.tally.failures == {"ValueError": 75}
    assert posterior.calls.tally.calls == 3 + 75 + 3 + 1  # made, failed, tried again, the last


@pytest.fixture(scope="module")
def in_processes():
    return from_callable(gaussian, 3, workers=2, processes=True)


def test_draws_do_not_depend_on_who_calls(in_processes):
    serial, threads = from_callable(gaussian, 3), from_callable(gaussian, 3, workers=3)
    drawn = [sample(p, 15, 3, **HMC).draws for p in (serial, threads, in_processes)]
    np.testing.assert_array_equal(drawn[0], drawn[1])
    np.testing.assert_array_equal(drawn[0], drawn[2])


def test_a_process_that_dies_is_the_failure_of_one_chain_alone(in_processes):
    positions = jnp.asarray([[1.0, 0, 0], [2 * DEADLY, 0, 0]])
    potentials = jax.jit(jax.vmap(in_processes.potential))(positions)
    np.testing.assert_array_equal(potentials, [2.0, np.nan])
    assert in_processes.calls.tally.failures == {"the process died": 1}


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
    outcome = workers.Evaluation(raising, None, from_callable(gaussian, 3).layout)(2 * SCALES, True)
    assert outcome.problem == ""
    outcome = workers.Evaluation(raising, None, from_callable(gaussian, 3).layout)(9 * SCALES, True)
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


def test_single_precision():
    with jax.enable_x64(False):
        posterior = from_callable(gaussian, 3)
        run = sample(posterior, 20, 2, **HMC)
        assert posterior.initial.dtype == np.float32
        potential = posterior.potential(jnp.full(3, -1e30))
    assert run.stats["lp"].dtype == np.float32
    assert run.acceptance > 0.5
    assert potential == np.inf


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
