"""Functions of single inputs beside a quadratic: what is learned, and what is left beyond the data.

The functions of rare indicators rise like an exponential on one side and are flat on the other.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nnghmc import GradientData, QuadraticPlusProcess, fit, load_surrogate
from nnghmc.surrogates.models.quadratic_plus_process import (
    LEAST_POINTS_OF_TERMS,
    LENGTHS_OF_DIRECTIONS,
)
from nnghmc.surrogates.parts.coordinate_terms import CoordinateTerms, fit_coordinate_terms

KEY = jax.random.key(0)
INPUTS = 30
BENT = np.array([3, 17])
"""The inputs whose functions are not quadratic."""
DIRECTION = np.linspace(-1, 1, INPUTS)
HESSIAN = np.eye(INPUTS) + 0.05 * np.outer(DIRECTION, DIRECTION)


def quadratic(s):
    return 0.5 * s @ jnp.asarray(HESSIAN) @ s


def potential(s):
    return quadratic(s) + jnp.sum(jnp.exp(s[BENT]) - s[BENT] - 0.5 * s[BENT] ** 2)


def rows(number, seed=0):
    return np.random.default_rng(seed).normal(size=(number, INPUTS))


def data_of(positions, function=potential):
    values, gradients = jax.vmap(jax.value_and_grad(function))(jnp.asarray(positions))
    return GradientData.of_points(positions, np.asarray(gradients), np.asarray(values))


def terms_of(data):
    """The functions of what the quadratic leaves."""
    return fit_coordinate_terms(data, data.gradients - data.positions @ HESSIAN)


def learned_from(number, model=None, function=potential):
    model = model or QuadraticPlusProcess()
    before = model.at_point(np.zeros(INPUTS), np.zeros(INPUTS), np.eye(INPUTS))
    return fit(model, data_of(rows(number), function), KEY, before=before)


def error_of(learned, function=potential):
    unseen = data_of(rows(300, seed=1), function)
    found = jax.vmap(learned.potential)(jnp.asarray(unseen.positions))
    return float(np.std(np.asarray(found) - unseen.potentials))


def test_bends_of_single_inputs_are_learned_from_two_points_per_input():
    one, other = learned_from(60).learned, learned_from(LEAST_POINTS_OF_TERMS - 1).learned
    assert not np.asarray(other.remainder.terms.bumps).any()
    assert error_of(one) < 0.2 < 1.0 < error_of(other)


def test_values_and_gradients_belong_together_inside_and_beyond_the_edges():
    terms = terms_of(data_of(rows(80)))
    positions = jnp.asarray(np.concatenate([rows(5, seed=2), 6 * rows(5, seed=3)]))
    expected = jax.vmap(jax.grad(lambda s: terms.value_and_gradient(s)[0]))(positions)
    values, gradients = jax.vmap(terms.value_and_gradient)(positions)
    np.testing.assert_allclose(gradients, expected, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(terms.gradients(np.asarray(positions)), expected, atol=1e-9)
    assert np.ptp(values) > 1


def test_there_is_no_function_of_an_input_that_needs_none():
    noisy = data_of(rows(100))
    noise = np.random.default_rng(4).normal(size=noisy.gradients.shape)
    terms = fit_coordinate_terms(noisy, noise + noisy.gradients - noisy.positions @ HESSIAN)
    is_bent = np.asarray(terms.bumps).any(axis=1)
    assert is_bent[BENT].all()
    assert is_bent.sum() <= len(BENT) + 0.2 * INPUTS


def test_beyond_the_points_the_curvature_of_the_edge_is_kept():
    data = data_of(rows(200))
    terms = terms_of(data)
    number = BENT[0]
    low, high = np.asarray(terms.edges)[:, number]
    scale, centre = np.asarray(terms.scale)[number], np.asarray(terms.centre)[number]
    away = np.linspace(0.5, 8.0, 5)
    for edge, sign, bend in ((low, -1, terms.bends[0]), (high, 1, terms.bends[1])):
        points = np.zeros((len(away), INPUTS))
        points[:, number] = centre + scale * (edge + sign * away)
        slopes = terms.gradients(points)[:, number] * scale
        np.testing.assert_allclose(np.diff(slopes) / np.diff(sign * away), bend[number])
    # What is left of exp(s) is flat at the lower edge, but for the straight line left out.
    slopes = np.exp(data.positions[:, number]) - data.positions[:, number] - 1
    straight = np.polyfit(data.positions[:, number], slopes, 1)[0]
    assert terms.bends[0, number] == pytest.approx(-(1 + straight) * scale**2, abs=0.2)
    assert terms.bends[1, number] > 3


def test_points_that_hardly_matter_do_not_move_the_edges():
    positions = rows(100)
    positions[0] *= 4
    data = data_of(positions)
    light = data.weighted(np.where(np.arange(100) == 0, 1e-3, 1.0))
    x = (positions[1:] - light.weighted_mean(positions)) / np.asarray(terms_of(light).scale)
    np.testing.assert_allclose(terms_of(light).edges, [x.min(axis=0), x.max(axis=0)])
    assert (np.asarray(terms_of(data).edges[1]) > np.asarray(terms_of(light).edges[1])).any()


def test_many_falling_functions_do_not_make_the_sum_fall():
    """Each alone is weaker than the quadratic; together they would fall in one direction."""
    direction = np.ones(INPUTS) / np.sqrt(INPUTS)
    hessian = np.eye(INPUTS) - 0.8 * np.outer(direction, direction)
    fall = -0.5 * jnp.ones((2, INPUTS))
    terms = eqx.tree_at(lambda terms: terms.bends, CoordinateTerms.zero(INPUTS), fall)
    assert np.linalg.eigvalsh(hessian + np.diag(np.asarray(fall[0])))[0] < 0
    bends = np.asarray(terms.rising_with(hessian).bends)
    assert (bends < 0).all()
    assert np.linalg.eigvalsh(hessian + np.diag(bends[0]))[0] > -1e-2
    strong = np.asarray(terms.rising_with(10 * np.eye(INPUTS)).bends)
    np.testing.assert_array_equal(strong, fall)


def test_what_is_learned_of_heavy_tails_falls_nowhere_far_out():
    def heavy(s):
        return quadratic(s) / 100 + jnp.sum(3 * jnp.log1p(s**2 / 3))

    learned = learned_from(200, function=heavy).learned
    terms, hessian = learned.remainder.terms, np.asarray(learned.hessian)
    scale = np.asarray(terms.scale)
    for bends in np.asarray(terms.bends):
        assert np.linalg.eigvalsh(hessian + np.diag(bends / scale**2))[0] > -1e-2
    assert (np.asarray(terms.bends) < 0).sum() > INPUTS


def test_points_that_hardly_matter_do_not_spoil_the_functions():
    data = data_of(rows(100))
    is_light = np.arange(100) % 4 == 0
    wrong = GradientData.of_points(
        data.positions, np.where(is_light[:, np.newaxis], 50.0, data.gradients), data.potentials
    ).weighted(np.where(is_light, 1e-4, 1.0))
    right = data.select(~is_light)
    unseen = 0.7 * rows(50, seed=6)
    found, expected = (terms_of(part).gradients(unseen)[:, BENT] for part in (wrong, right))
    np.testing.assert_allclose(found, expected, atol=0.1)


def test_the_process_of_what_is_left_has_no_long_length():
    """A longer one explains the sine better; far from the points it would fall from a height."""

    def long_wave(s):
        return quadratic(s) + 200 * jnp.sin(s @ jnp.ones(INPUTS) / 40)

    process = learned_from(120, function=long_wave).learned.remainder.process
    assert process.gradient_weights.any()
    assert process.length == LENGTHS_OF_DIRECTIONS[-1]


def test_an_input_that_never_varied_has_no_function():
    positions = rows(80)
    positions[:, 5] = 2.0
    terms = terms_of(data_of(positions))
    gradients = terms.gradients(rows(10, seed=7))
    assert np.isfinite(gradients).all()
    assert not gradients[:, 5].any()
    assert gradients[:, BENT].any()


def test_what_is_learned_is_stored_and_read_back(tmp_path):
    surrogate = learned_from(60)
    file = tmp_path / "surrogate.npz"
    surrogate.save(file)
    again = load_surrogate(file).learned
    for position in rows(3, seed=5):
        assert again.potential(position) == surrogate.learned.potential(position)


def test_functions_of_inputs_share_compiled_code_with_the_first_surrogate():
    model = QuadraticPlusProcess()
    first = model.at_point(np.zeros(INPUTS), np.zeros(INPUTS), np.eye(INPUTS))
    shapes = [
        jax.tree.map(lambda part: part.aval, learned)
        for learned in (first, learned_from(60).learned, learned_from(30).learned)
    ]
    assert shapes[0] == shapes[1] == shapes[2]
