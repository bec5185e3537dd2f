"""NNgHMC on a schedule: what it collects, when it hands over, and what happens when it cannot."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nnghmc import GradientMLP, TrainingSchedule, from_log_density, sample
from nnghmc.errors import SettingsError
from support import QUICK
from support_sessions import run_stopped_in

LEARNING = QUICK["method"]


def run_of(posterior, draws, chains, **changes):
    return sample(posterior, draws, chains, method=replace(LEARNING, **changes), progress=False)


def test_gradient_data_are_the_true_gradients_of_every_step(logistic):
    run = run_of(logistic, 5, 2, num_steps=(1, 6))
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
    run = run_of(logistic, 10, 2, schedule=schedule)
    assert [decision.draws_collected for decision in run.decisions] == [10]
    assert run.handed_over
    (handed_over,) = run.events_of("HandedOver")
    assert handed_over.step_size == LEARNING.step_size
    assert handed_over.num_steps == LEARNING.num_steps
    assert handed_over.true_share == 0
    assert run.cost.sample.true_gradients == 0


def test_falls_back_to_standard_hmc_when_the_network_stays_poor():
    """A field that one hidden unit cannot learn: the run says so, and is standard HMC."""
    posterior = from_log_density(lambda x: -0.5 * jnp.sum((x / 0.1) ** 2), np.full(6, 0.05))
    schedule = TrainingSchedule(5, 10, 5, tolerance=0.0, probe_draws=20)
    run = run_of(posterior, 30, 2, schedule=schedule, network=GradientMLP(1), epochs=1)
    assert [decision.draws_collected for decision in run.decisions] == [5, 10]
    assert not any(decision.hand_over for decision in run.decisions)
    assert not run.handed_over
    assert "not handed over" in run.title
    assert run.cost.sample.true_gradients == 30 * 2 * 5
    assert run.cost.sample.learned_gradients == 0
    assert run.draws.shape == (2, 30, 6)


def test_decision_compares_the_acceptance_of_the_schedule_not_of_the_warm_up(logistic):
    run = run_of(logistic, 5, 2)
    collected = run.warmup_stats["acceptance_rate"][:, 20:]
    assert run.decisions[0].true_acceptance == pytest.approx(collected.mean())


def test_a_given_surrogate_is_compared_with_the_acceptance_of_the_warm_up(logistic):
    surrogate = run_of(logistic, 5, 2).surrogate
    run = run_of(logistic, 5, 2, surrogate=surrogate)
    rates = run.warmup_stats["acceptance_rate"]
    assert run.decisions[0].true_acceptance == pytest.approx(rates.mean())


def test_diverging_trajectories_are_not_learned_from():
    """A few of them go out to 1e4 and beyond, and would set the scale of all that is learned."""
    posterior = from_log_density(lambda x: -jnp.sum(x**4), np.full(3, 0.3))
    schedule = TrainingSchedule.once(100, tolerance=0.3)
    run = run_of(posterior, 200, 4, step_size=0.42, schedule=schedule, epochs=30)
    collected = run.warmup_stats["diverging"][:, 20:]
    assert collected.sum() > 0
    assert np.abs(run.gradient_data.positions).max() < 10
    assert len(run.gradient_data) == 6 * (collected.size - collected.sum())
    assert run.handed_over
    assert run.acceptance > 0.5


def test_nothing_to_learn_from_is_a_note_and_standard_hmc(logistic):
    run = run_of(logistic, 10, 2, step_size=1e3)
    assert not run.handed_over
    assert run.decisions == ()
    notes = {note.kind: note for note in run.notes}
    assert "after 20 draws" in notes["nothing learned"].text
    assert "stuck chains" in notes


@pytest.mark.parametrize("phase", ["collect", "train", "probe"])
def test_stopped_before_the_hand_over_the_run_has_no_draws(logistic, phase):
    run = run_stopped_in(phase, logistic, 10, 2, replace(LEARNING, warmup=0))
    assert not run.complete
    assert run.draws.shape == (2, 0, 3)
    assert run.decisions == ()
    assert not run.handed_over
    assert "interrupted" in str(run)
    with pytest.raises(SettingsError, match="needs draws"):
        run.summary()
