"""The truth is asked in full batches, and all that it says is kept."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nnghmc import Posterior, Session, from_callable
from nnghmc.explore.rounds.truth import BATCH, Truth, in_batches

GROUPS = np.arange(40) % 4


def grouped():
    """Effects of four groups, which scale with a parameter of their own."""
    y = np.random.default_rng(0).normal(size=40)

    def log_likelihood(p, data):
        return -0.5 * jnp.sum((data["y"] - (jnp.exp(p["t"]) * p["z"])[data["group"]]) ** 4)

    return Posterior(
        log_likelihood,
        lambda p: -0.5 * p["t"] ** 2 - 0.5 * jnp.sum(p["z"] ** 2),
        {"y": y, "group": GROUPS},
        {"t": 0.0, "z": np.zeros(4)},
    )


def truth_of(posterior):
    return Truth(posterior.split(), Session(0, "truth"), posterior.monitor.counts)


@pytest.fixture
def case():
    posterior = grouped()
    positions = np.random.default_rng(1).normal(size=(37, 5))
    return posterior, truth_of(posterior), positions


def test_both_parts_and_their_gradients_are_those_of_the_posterior(case):
    posterior, truth, positions = case
    found = truth.at(positions)
    potentials, gradients = jax.vmap(posterior.potential_and_gradient)(jnp.asarray(positions))
    np.testing.assert_allclose(found.potentials, potentials, rtol=1e-10)
    np.testing.assert_allclose(truth.gradients_of_potential(found), gradients, rtol=1e-8)
    np.testing.assert_allclose(found.inputs, np.exp(positions[:, :1]) * positions[:, 1:])


def test_evaluations_are_counted_with_those_that_fill_a_batch(case):
    _, truth, positions = case
    truth.at(positions)
    assert truth.session.cost.collect.true_gradients == 3 * BATCH
    assert truth.session.cost.total.true_potentials == 0


def test_a_function_outside_jax_is_not_called_to_fill_a_batch():
    posterior = from_callable(lambda q: (-0.5 * q @ q, -q), np.zeros(3))
    truth, before = truth_of(posterior), posterior.calls
    truth.at(np.random.default_rng(0).normal(size=(37, 3)))
    assert posterior.calls.since(before).gradients == 37
    assert truth.session.cost.collect.true_gradients == 37


def test_points_without_a_finite_potential_are_left_out(case):
    _, truth, positions = case
    positions[3] = 1e200
    found = truth.at(positions)
    assert not found.is_finite[3]
    assert len(truth.all.potentials) == 36
    assert np.isfinite(truth.gradient_data().gradients).all()


def test_points_matter_less_the_further_they_lie_above_the_typical_set(case):
    _, truth, positions = case
    truth.at(positions)
    weights, potentials = truth.weights(truth.all), truth.all.potentials
    order = np.argsort(potentials)
    assert (np.diff(weights[order]) <= 0).all()
    assert weights.max() == 1
    before = weights.sum()
    truth.see_typical(potentials + 50)
    assert truth.weights(truth.all).sum() > before


def test_far_up_the_wall_what_is_learned_from_is_compressed_and_still_rises(case):
    _, truth, positions = case
    truth.at(3 * positions)
    truth.see_typical(truth.all.potentials)  # all of them matter
    whole, lesson = truth.gradient_data(), truth.lesson_data()
    assert len(lesson) < len(whole) or np.ptp(lesson.potentials) < np.ptp(whole.potentials)
    kept = whole.select(truth.weights(truth.all) >= 1e-4)
    order = np.argsort(kept.potentials)
    assert (np.diff(lesson.potentials[order]) >= 0).all()
    sizes = np.linalg.norm(lesson.gradients, axis=1) / np.linalg.norm(kept.gradients, axis=1)
    assert (sizes <= 1 + 1e-12).all()
    assert sizes.min() < 1 == sizes.max()


@pytest.mark.parametrize("filler", [None, np.nan])
def test_batches_are_full_and_the_filling_does_not_come_back(filler):
    seen = []

    def double(rows):
        seen.append(rows)
        return (2 * rows,)

    rows = np.arange(2.0 * (BATCH + 3)).reshape(-1, 2)
    np.testing.assert_array_equal(in_batches(double, rows, filler)[0], 2 * rows)
    assert [len(batch) for batch in seen] == [BATCH, BATCH]
    assert np.isnan(seen[1][3:]).all() == (filler is not None)
