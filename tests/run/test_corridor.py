"""From a method to a run, for all methods alike: phases, chunks, starts, Ctrl-C and settings."""

import os
import signal
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nnghmc import HMC, NNgHMC, from_log_density, sample
from nnghmc.errors import NnghmcError, PosteriorError, SettingsError
from support import QUICK
from support_sessions import run_stopped_in

METHODS = {"hmc": HMC(0.15, 5, warmup=20), "nnghmc": QUICK["method"]}


@pytest.mark.parametrize("name", METHODS)
def test_shapes_and_phases(logistic, name):
    run = sample(logistic, 50, 3, method=METHODS[name], progress=False)
    assert run.draws.shape == (3, 50, 3)
    assert all(values.shape == (3, 50) for values in run.stats.values())
    assert run.warmup_draws.shape == (3, 20 if name == "hmc" else 40, 3)
    assert run.complete
    assert run.handed_over is (name == "nnghmc")
    assert np.isfinite(run.draws).all()
    assert run.method is METHODS[name]


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("num_steps", [5, (1, 6)])
def test_same_seed_same_draws_for_any_chunk_size(logistic, name, num_steps):
    method = replace(METHODS[name], num_steps=num_steps)
    runs = [
        sample(logistic, 40, 2, 3, method, chunk_size=size, progress=False)
        for size in (None, 1, 7, 40)
    ]
    for run in runs[1:]:
        np.testing.assert_array_equal(run.draws, runs[0].draws)
        np.testing.assert_array_equal(run.warmup_draws, runs[0].warmup_draws)
        for name, values in run.stats.items():
            np.testing.assert_array_equal(values, runs[0].stats[name])


def test_other_seed_other_draws(logistic):
    first, second = (
        sample(logistic, 20, 2, seed, METHODS["hmc"], progress=False) for seed in (0, 1)
    )
    assert not np.array_equal(first.draws, second.draws)


def test_methods_with_one_seed_are_independent(logistic):
    first, second = (sample(logistic, 20, 2, 0, METHODS[name], progress=False) for name in METHODS)
    assert not np.array_equal(first.warmup_draws[:, 0], second.warmup_draws[:, 0])


def test_chains_differ_and_share_the_length_of_trajectories(logistic):
    method = replace(METHODS["hmc"], num_steps=(1, 8))
    run = sample(logistic, 30, 3, 0, method, progress=False)
    assert not np.array_equal(run.draws[0], run.draws[1])
    steps = run.stats["n_steps"]
    np.testing.assert_array_equal(steps[0], steps[1])
    assert len(np.unique(steps)) > 3


def test_chains_may_start_apart(logistic):
    starts = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    method = HMC(1e-6, 5, warmup=0)
    run = sample(logistic, 1, 2, method=method, initial_positions=starts, progress=False)
    np.testing.assert_allclose(run.draws[:, 0], starts, atol=1e-4)


@pytest.mark.parametrize("when", ["warmup", "sample"])
def test_ctrl_c_returns_the_draws_made_so_far(when):
    """The log density itself presses Ctrl-C after so many evaluations."""
    evaluations = {"left": 30 if when == "warmup" else 600}

    def press_ctrl_c(_):
        evaluations["left"] -= 1
        if evaluations["left"] == 0:
            os.kill(os.getpid(), signal.SIGINT)

    def log_density(x):
        jax.debug.callback(press_ctrl_c, x)
        return -0.5 * jnp.sum(x**2)

    before = signal.getsignal(signal.SIGINT)
    posterior = from_log_density(log_density, np.zeros(2))
    method = replace(METHODS["hmc"], warmup=50)
    run = sample(posterior, 100_000, 1, method=method, chunk_size=10, progress=False)
    assert signal.getsignal(signal.SIGINT) is before
    assert not run.complete
    assert "incomplete" in str(run)
    made = run.draws.shape[1]
    if when == "warmup":
        assert made == 0
        assert 0 < run.warmup_draws.shape[1] < 50
        assert np.isnan(run.acceptance)
        assert list(run.to_tree().children) == ["warmup_posterior", "warmup_sample_stats"]
    else:
        assert 0 < made < 1000
        assert run.to_arviz().posterior.sizes["draw"] == made
        assert run.to_arviz().posterior.attrs["complete"] == 0


@pytest.mark.parametrize("name", METHODS)
def test_a_stopped_run_goes_on_where_it_stopped(logistic, name):
    method = METHODS[name]
    run = run_stopped_in("sample", logistic, 40, 2, method, after=12, chunk_size=5)
    assert not run.complete
    assert 12 <= run.draws.shape[1] < 40
    whole = sample(logistic, 40, 2, method=method, progress=False)
    longer = run.extend(40 - run.draws.shape[1], progress=False)
    assert longer.complete
    np.testing.assert_array_equal(longer.draws, whole.draws)


def test_a_run_that_was_stopped_before_it_sampled_cannot_go_on(logistic):
    run = run_stopped_in("warmup", logistic, 40, 2, METHODS["hmc"], after=8, chunk_size=5)
    assert not run.complete
    assert run.draws.shape == (2, 0, 3)
    assert 8 <= run.warmup_draws.shape[1] < 20
    with pytest.raises(SettingsError, match="was stopped before"):
        run.extend(5)


def gaussian():
    return from_log_density(lambda x: -0.5 * jnp.sum(x**2), np.zeros(2))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"draws": 0}, ["draws must be a positive whole number", "0"]),
        ({"draws": 10.5}, ["draws", "10.5"]),
        ({"chains": -1}, ["chains", "-1"]),
        ({"chains": 0}, ["chains", "0"]),
        ({"seed": -3}, ["seed", "-3"]),
        ({"method": "gibbs"}, ["auto, nnghmc, hmc", "sgld", "'gibbs'"]),
        ({"method": "automatic"}, ["method", "auto"]),
        ({"chunk_size": 0}, ["chunk_size", "0"]),
        ({"seed": 2**64}, ["seed must be at most"]),
        ({"initial_positions": {"x": 1}}, ["initial_positions", "'x'"]),
        ({"initial_positions": np.zeros((1, 2))}, ["initial_positions", "(4, 2)", "(1, 2)"]),
    ],
)
def test_bad_arguments_are_refused_clearly(settings, words):
    with pytest.raises(SettingsError) as caught:
        sample(gaussian(), **settings)
    assert all(word in str(caught.value) for word in words), str(caught.value)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"warmup": -1}, ["warmup", "-1"]),
        ({"step_size": -0.1}, ["step_size", "-0.1"]),
        ({"num_steps": 0}, ["num_steps", "0"]),
        ({"epochs": 0}, ["epochs", "0"]),
        ({"network": 50}, ["network must be a GradientModel", "50"]),
        ({"schedule": (10, 20, 10)}, ["schedule must be a TrainingSchedule"]),
        ({"training": {"epochs": 5}}, ["training must be a Training"]),
        ({"inverse_mass_matrix": np.ones(5)}, ["inverse_mass_matrix", "(5,)"]),
    ],
)
def test_bad_settings_are_refused_clearly(settings, words):
    with pytest.raises(SettingsError) as caught:
        sample(gaussian(), method=NNgHMC(**settings))
    assert all(word in str(caught.value) for word in words), str(caught.value)


@pytest.mark.parametrize(
    ("posterior", "words"),
    [
        (
            from_log_density(lambda x: jnp.log(x[0]) - x[1] ** 2, np.array([-1.0, 0.0])),
            ["finite", "nan", "[-1."],
        ),
        (
            from_log_density(lambda x: jnp.log(x[0]) - x[1] ** 2, np.array([0.0, 0.0])),
            ["-inf", "support"],
        ),
        (
            from_log_density(lambda x: -jnp.sqrt(x[0]) - x[1] ** 2, np.array([0.0, 1.0])),
            ["gradient", "coordinate 0"],
        ),
    ],
)
@pytest.mark.parametrize("method", ["auto", "hmc"])
def test_a_start_that_is_not_finite_is_refused_clearly(posterior, words, method):
    with pytest.raises(PosteriorError) as caught:
        sample(posterior, method=method, progress=False)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_what_is_no_posterior_is_refused():
    with pytest.raises(NnghmcError, match=r"must be a Posterior.*got int.*from_log_density"):
        sample(5)
