import os
import signal

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nnghmc import GradientMLP, TrainingSchedule, from_log_density, sample
from nnghmc.errors import NnghmcError, PosteriorError, SettingsError
from nnghmc.sampler import _Sampling
from support import QUICK


@pytest.mark.parametrize("method", ["hmc", "nnghmc"])
def test_shapes_and_phases(logistic, method):
    run = sample(logistic, 50, 3, method=method, **QUICK)
    assert run.draws.shape == (3, 50, 3)
    assert all(values.shape == (3, 50) for values in run.stats.values())
    assert run.warmup_draws.shape == (3, 20 if method == "hmc" else 40, 3)
    assert run.complete
    assert run.handed_over is (method == "nnghmc")
    assert np.isfinite(run.draws).all()


@pytest.mark.parametrize("method", ["hmc", "nnghmc"])
@pytest.mark.parametrize("num_steps", [5, (1, 6)])
def test_same_seed_same_draws_for_any_chunk_size(logistic, method, num_steps):
    settings = {**QUICK, "num_steps": num_steps, "method": method}
    runs = [sample(logistic, 40, 2, 3, chunk_size=size, **settings) for size in (None, 1, 7, 40)]
    for run in runs[1:]:
        np.testing.assert_array_equal(run.draws, runs[0].draws)
        np.testing.assert_array_equal(run.warmup_draws, runs[0].warmup_draws)
        for name, values in run.stats.items():
            np.testing.assert_array_equal(values, runs[0].stats[name])


def test_other_seed_other_draws(logistic):
    first, second = (sample(logistic, 20, 2, seed, "hmc", **QUICK) for seed in (0, 1))
    assert not np.array_equal(first.draws, second.draws)


def test_methods_with_one_seed_are_independent(logistic):
    first, second = (sample(logistic, 20, 2, 0, method, **QUICK) for method in ("hmc", "nnghmc"))
    assert not np.array_equal(first.warmup_draws[:, 0], second.warmup_draws[:, 0])


def test_chains_differ_and_share_the_length_of_trajectories(logistic):
    run = sample(logistic, 30, 3, 0, "hmc", **{**QUICK, "num_steps": (1, 8)})
    assert not np.array_equal(run.draws[0], run.draws[1])
    steps = run.stats["n_steps"]
    np.testing.assert_array_equal(steps[0], steps[1])
    assert len(np.unique(steps)) > 3


def test_gradient_data_are_the_true_gradients_of_every_step(logistic):
    run = sample(logistic, 5, 2, **{**QUICK, "num_steps": (1, 6)})
    data = run.gradient_data
    collected = run.warmup_stats["n_steps"][:, 20:]
    assert len(data.without_starts()) == collected.sum() == run.cost.collect.true_gradients
    gradients = jax.vmap(logistic.gradient)(jnp.asarray(data.positions))
    potentials = jax.vmap(logistic.potential)(jnp.asarray(data.positions))
    np.testing.assert_allclose(data.gradients, gradients, rtol=1e-9)
    np.testing.assert_allclose(data.potentials, potentials, rtol=1e-12)
    last = (data.chains == 1) & (data.trajectories == 19)
    assert last.sum() == 1 + collected[1, 19]
    starts = data.positions[(data.steps == 0) & (data.chains == 1)]
    np.testing.assert_array_equal(starts[1:], run.warmup_draws[1, 20:-1])


def test_hands_over_at_the_first_training_point_that_is_good_enough(logistic):
    schedule = TrainingSchedule(10, 40, 10, tolerance=1.0, probe_draws=5)
    run = sample(logistic, 10, 2, **{**QUICK, "schedule": schedule})
    assert [decision.draws_collected for decision in run.decisions] == [10]
    assert run.handed_over
    assert run.cost.sample.true_gradients == 0


def test_falls_back_to_standard_hmc_when_the_network_stays_poor():
    """A field that one hidden unit cannot learn: the run says so, and is standard HMC."""
    posterior = from_log_density(lambda x: -0.5 * jnp.sum((x / 0.1) ** 2), np.full(6, 0.05))
    schedule = TrainingSchedule(5, 10, 5, tolerance=0.0, probe_draws=20)
    run = sample(
        posterior,
        30,
        2,
        **{**QUICK, "schedule": schedule, "network": GradientMLP(1), "epochs": 1},
    )
    assert [decision.draws_collected for decision in run.decisions] == [5, 10]
    assert not run.handed_over
    assert "not handed over" in run.title
    assert run.cost.sample.true_gradients == 30 * 2 * 5
    assert run.cost.sample.learned_gradients == 0
    assert run.draws.shape == (2, 30, 6)


def test_decision_compares_the_acceptance_of_the_schedule_not_of_the_warm_up(logistic):
    run = sample(logistic, 5, 2, **QUICK)
    collected = run.warmup_stats["acceptance_rate"][:, 20:]
    assert run.decisions[0].true_acceptance == pytest.approx(collected.mean())


def test_diverging_trajectories_are_not_learned_from():
    """A few of them go out to 1e4 and beyond, and would set the scale of all that is learned."""
    posterior = from_log_density(lambda x: -jnp.sum(x**4), np.full(3, 0.3))
    schedule = TrainingSchedule.once(100, tolerance=0.3)
    run = sample(
        posterior, 200, 4, **{**QUICK, "step_size": 0.42, "schedule": schedule, "epochs": 30}
    )
    collected = run.warmup_stats["diverging"][:, 20:]
    assert collected.sum() > 0
    assert np.abs(run.gradient_data.positions).max() < 10
    assert len(run.gradient_data) == 6 * (collected.size - collected.sum())
    assert run.handed_over
    assert run.acceptance > 0.5


def test_nothing_to_learn_from_is_a_remark_and_standard_hmc(logistic):
    run = sample(logistic, 10, 2, **{**QUICK, "step_size": 1e3})
    assert not run.handed_over
    assert any("nothing learned after 20 draws" in note for note in run.notes)
    assert any("never moved" in note for note in run.notes)


@pytest.mark.parametrize("phase", ["collect", "train", "probe"])
def test_ctrl_c_before_the_hand_over_ends_the_run(logistic, monkeypatch, phase):
    original = getattr(_Sampling, phase)

    def interrupted(self, *arguments, **options):
        self.supervision.stop.made = True
        return original(self, *arguments, **options)

    monkeypatch.setattr(_Sampling, phase, interrupted)
    run = sample(logistic, 10, 2, **{**QUICK, "warmup": 0})
    assert not run.complete
    assert run.draws.shape == (2, 0, 3)
    assert run.decisions == ()
    assert "interrupted" in str(run)
    with pytest.raises(SettingsError, match="needs draws"):
        run.summary()


def test_chains_may_start_apart(logistic):
    starts = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    run = sample(
        logistic,
        1,
        2,
        method="hmc",
        initial_positions=starts,
        **{**QUICK, "warmup": 0, "step_size": 1e-6},
    )
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
    settings = {**QUICK, "warmup": 50, "chunk_size": 10}
    run = sample(posterior, 100_000, 1, method="hmc", **settings)
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


def gaussian():
    return from_log_density(lambda x: -0.5 * jnp.sum(x**2), np.zeros(2))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"draws": 0}, ["draws must be a positive whole number", "0"]),
        ({"draws": 10.5}, ["draws", "10.5"]),
        ({"chains": -1}, ["chains", "-1"]),
        ({"seed": -3}, ["seed", "-3"]),
        ({"warmup": -1}, ["warmup", "-1"]),
        ({"method": "gibbs"}, ["nnghmc, hmc, sgld", "'gibbs'"]),
        ({"step_size": -0.1}, ["step_size", "-0.1"]),
        ({"num_steps": 0}, ["num_steps", "0"]),
        ({"chunk_size": 0}, ["chunk_size", "0"]),
        ({"epochs": 0}, ["epochs", "0"]),
        ({"seed": 2**64}, ["seed must be at most"]),
        ({"network": 50}, ["network must be a GradientModel", "50"]),
        ({"schedule": (10, 20, 10)}, ["schedule must be a TrainingSchedule"]),
        ({"training": {"epochs": 5}}, ["training must be a Training"]),
        ({"initial_positions": {"x": 1}}, ["initial_positions", "'x'"]),
        ({"inverse_mass_matrix": np.ones(5)}, ["inverse_mass_matrix", "(5,)"]),
        ({"initial_positions": np.zeros((1, 2))}, ["initial_positions", "(4, 2)", "(1, 2)"]),
    ],
)
def test_bad_settings_are_told_clearly(settings, words):
    with pytest.raises(SettingsError) as caught:
        sample(gaussian(), **settings)
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
def test_a_start_that_is_not_finite_is_told_clearly(posterior, words):
    with pytest.raises(PosteriorError) as caught:
        sample(posterior, progress=False)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_what_is_no_posterior_is_refused():
    with pytest.raises(NnghmcError, match=r"must be a Posterior.*got int.*from_log_density"):
        sample(5)
