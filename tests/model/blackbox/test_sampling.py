"""Runs of a function outside JAX: no call too many, and failures that are rejections."""

from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from host_functions import SCALES, WALL, counting, gaussian, gaussian_value, walled
from nnghmc import HMC, Auto, GradientMLP, NNgHMC, TrainingSchedule, estimate, from_callable, sample
from nnghmc.engine.statistics import standard_errors
from nnghmc.errors import PosteriorError
from support import FALSE_ALARMS

BY_HMC = {"method": HMC(step_size=0.4, num_steps=(1, 5), warmup=3), "progress": False}


def assert_moments(run, means, spreads):
    """First and second moments, in units of Monte Carlo error, with one bound for all."""
    draws = (run.draws - means) / spreads
    functions = np.concatenate([draws, draws**2], axis=2)
    expected = np.repeat([0.0, 1.0], draws.shape[2])
    z = (functions.mean(axis=(0, 1)) - expected) / standard_errors(functions)
    assert np.abs(z).max() < stats.norm.isf(FALSE_ALARMS / 2 / len(z)), z


def test_one_call_per_draw_and_none_beyond_the_cost_but_for_timing():
    counts, chains = Counter(), 4
    functions = (
        counting(gaussian, counts, "gradients"),
        counting(gaussian_value, counts, "values"),
    )
    posterior = from_callable(functions[0], 3, value=functions[1])
    before = posterior.calls
    expected = estimate(posterior, 500, chains)
    timing = posterior.calls.since(before)
    for calls in (timing.potentials, timing.gradients):
        assert calls >= 4 * chains  # one for compiling, three to take the time of
        assert calls % chains == 0
    counts.clear()
    before, method = posterior.calls, Auto(way="learn", estimate=expected)
    run = sample(posterior, 500, chains, method=method, progress=False)
    assert run.handed_over
    calls, total, sampled = posterior.calls.since(before), run.cost.total, run.cost.sample
    assert counts == {"values": calls.potentials, "gradients": calls.gradients}
    assert calls.potentials == total.true_potentials
    assert calls.gradients == total.true_gradients
    along_the_truth = run.stats["component"] == 1
    afterwards = sampled.true_gradients - (run.stats["n_steps"] + 1)[along_the_truth].sum()
    assert sampled.true_potentials == np.size(along_the_truth) - along_the_truth.sum()
    probe = run.warmup_stats["component"] == 0
    assert run.cost.warmup.true_potentials == chains + probe.sum()
    assert 0 < afterwards <= 64 + 9 * 32 + 80  # hot draws, outward trajectories, rays
    assert run.notes == ()
    assert_moments(run, 0.0, SCALES)


def test_nuts_runs_on_it_and_calls_also_for_chains_that_wait():
    posterior = from_callable(gaussian, 3)
    before = posterior.calls
    run = sample(posterior, 300, 2, method="nuts", progress=False)
    calls = posterior.calls.since(before).gradients
    assert run.cost.total.true_gradients < calls < 2 * run.cost.total.true_gradients
    assert_moments(run, 0.0, SCALES)


def test_a_wall_where_it_raises_is_the_edge_of_the_distribution():
    posterior = from_callable(walled, 2)
    schedule = TrainingSchedule.once(20, tolerance=1.0, probe_draws=5)
    settings = {"warmup": 20, "epochs": 5, "network": GradientMLP(16), "schedule": schedule}
    run = sample(posterior, 2000, 4, method=NNgHMC(0.5, (1, 4), **settings), progress=False)
    assert run.handed_over
    assert run.draws[..., 0].min() >= WALL
    cut = stats.truncnorm(WALL, np.inf)
    assert_moments(run, [cut.mean(), 0.0], [cut.std(), 1.0])
    assert run.stats["nonfinite"].sum() > 100
    calls = run.cost.total.true_potentials + run.cost.total.true_gradients
    assert run.calls.failures == posterior.calls.failures
    (note,) = (note for note in run.notes if note.kind == "failed calls")
    assert str(run.calls) in note.text
    assert note.text in str(run)
    assert run.calls.last_error.startswith("ValueError: outside (line ")
    assert posterior.calls.calls - 3 < calls  # nothing is called where a trajectory was lost


def test_infinity_and_nan_are_rejections_and_no_failures():
    def function(x):
        value, gradient = gaussian(x)
        return (-np.inf if x[0] > 0.5 else value), gradient

    posterior = from_callable(function, 3)
    run = sample(posterior, 100, 2, **BY_HMC)
    tally = posterior.calls
    assert run.draws[..., 0].max() <= 0.5
    assert tally.nonfinite > 0
    assert tally.failures == {}
    assert f"returned infinity or NaN {tally.nonfinite} times" in str(run.calls)
    assert str(run.calls) in run.notes[0].text


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
    with pytest.raises(
        PosteriorError, match=r"now fails every time.*OSError: the licence"
    ) as caught:
        sample(posterior, 1000, 2, **BY_HMC)
    assert caught.value.__cause__ is None
    assert str(caught.value).count("licence") == 1
    assert 10 <= function.failed < 30
    function.left = 10**6
    run = sample(posterior, 20, 2, **BY_HMC)
    assert run.calls.failures == {}


def test_ctrl_c_inside_the_function_ends_the_run_as_such():
    posterior = from_callable(Breaking(KeyboardInterrupt(), 60), 3, workers=2)
    with pytest.raises(KeyboardInterrupt):
        sample(posterior, 1000, 2, **BY_HMC)


def test_starts_outside_the_support_are_told_with_the_words_of_the_function():
    with pytest.raises(PosteriorError, match=r"finite where chains start.*ValueError: outside"):
        sample(from_callable(walled, 2), 10, 2, initial_positions=np.full((2, 2), -3.0), **BY_HMC)


def test_draws_do_not_depend_on_who_calls():
    in_processes = from_callable(gaussian, 3, workers=2, processes=True)
    serial, threads = from_callable(gaussian, 3), from_callable(gaussian, 3, workers=3)
    drawn = [sample(p, 15, 3, **BY_HMC).draws for p in (serial, threads, in_processes)]
    np.testing.assert_array_equal(drawn[0], drawn[1])
    np.testing.assert_array_equal(drawn[0], drawn[2])


def test_single_precision():
    with jax.enable_x64(False):
        posterior = from_callable(gaussian, 3)
        run = sample(posterior, 20, 2, **BY_HMC)
        assert posterior.initial.dtype == np.float32
        potential = posterior.potential(jnp.full(3, -1e30))
    assert run.stats["lp"].dtype == np.float32
    assert run.acceptance > 0.5
    assert potential == np.inf


def around_one(q):
    """A log likelihood around one, with its gradient."""
    return -0.5 * np.sum((q - 1) ** 2), 1 - q


def test_what_was_learned_of_a_likelihood_serves_under_another_prior():
    wide, narrow = (
        from_callable(around_one, 2, log_prior=lambda q, s=s: -0.5 * jnp.sum((q / s) ** 2))
        for s in (10.0, 0.5)
    )
    first = sample(wide, 20, method=Auto(way="learn"), progress=False)
    again = sample(narrow, 1000, method=Auto(surrogate=first.surrogate), progress=False)
    assert again.handed_over
    assert again.events_of("Explored") == ()
    np.testing.assert_allclose(again.draws.mean(axis=(0, 1)), 0.2, atol=0.05)
