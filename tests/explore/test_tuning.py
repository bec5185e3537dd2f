from functools import cache

import jax
import numpy as np
import pytest

from nnghmc import GradientData, Quadratic, assess, fit
from nnghmc.explore.tuning import QUARTER_PERIOD, tune_on_learned


@cache
def learned_normal(dim=20, number=400):
    positions = np.random.default_rng(0).normal(size=(number, dim))
    surrogate = fit(Quadratic(), GradientData.of_points(positions, positions), jax.random.key(0))
    return surrogate.learned, positions


@cache
def tuned(step_cost):
    learned, positions = learned_normal()
    return tune_on_learned(
        learned,
        positions,
        np.eye(positions.shape[1]),
        jax.random.key(1),
        step_cost=step_cost,
    )


def test_the_trajectory_length_serves_means_and_squares():
    """For a normal, half a period reverses the start, and a quarter of a period forgets it."""
    found = tuned(1e-3)
    assert np.pi / 2 < found.length < np.pi
    low, high = (int(number) for number in found.tuning.num_steps)
    assert 0.5 < low / high < 0.75
    assert high * float(found.tuning.step_size) == pytest.approx(found.length)


def test_steps_are_small_where_they_are_cheap_and_larger_where_they_are_not():
    cheap, expensive = tuned(1e-4), tuned(1.0)
    assert cheap.tuning.largest_step < 0.6 * expensive.tuning.largest_step
    assert cheap.integration_acceptance > 0.98
    assert expensive.integration_acceptance > 0.6


def test_tuning_and_assessment_agree_on_the_integration_acceptance():
    _, positions = learned_normal()
    found = tuned(0.3)
    surrogate = fit(Quadratic(), GradientData.of_points(positions, positions), jax.random.key(0))
    steps = np.stack([positions[:200], positions[:200] + 0.01], axis=1)
    held_out = GradientData.from_paths(
        steps[:, None], np.zeros((200, 1, 2)), steps[:, None], np.ones((200, 1), int), 0
    )
    tuning = found.tuning
    assessment = assess(
        surrogate,
        tuning.largest_step,
        int(tuning.num_steps[1]),
        held_out=held_out,
    )
    assert assessment.integration_acceptance == pytest.approx(
        found.integration_acceptance, abs=0.05
    )


def test_dynamics_that_diverge_get_a_cautious_tuning():
    learned, positions = learned_normal(dim=2)
    found = tune_on_learned(
        learned,
        positions,
        1e8 * np.eye(2),
        jax.random.key(1),
    )
    assert np.isnan(found.integration_acceptance)
    assert found.length == pytest.approx(QUARTER_PERIOD)
    assert found.tuning.largest_step < 1
