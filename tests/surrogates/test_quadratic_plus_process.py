"""The quadratic plus a Gaussian process on gradients: what it learns from how few points."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nnghmc import GradientData, QuadraticPlusProcess, Session, fit
from nnghmc.surrogates.parts.gradient_process import GradientProcess, Observations, fit_process

KEY = jax.random.key(0)


def banana(q):
    return 0.5 * q[0] ** 2 + 0.5 * (q[1] - q[0] ** 2) ** 2


def data_of(function, positions):
    values, gradients = jax.vmap(jax.value_and_grad(function))(jnp.asarray(positions))
    return GradientData.of_points(positions, np.asarray(gradients), np.asarray(values))


def points(number, dim, seed=0):
    return np.random.default_rng(seed).normal(size=(number, dim))


@pytest.mark.parametrize("with_values", [True, False])
def test_a_banana_is_learned_from_sixty_gradients(with_values):
    data = data_of(banana, points(60, 2))
    if not with_values:
        data = replace(data, potentials=np.full(60, np.nan))
    learned = fit(QuadraticPlusProcess(), data, KEY).learned
    unseen = data_of(banana, 0.8 * points(200, 2, seed=1))
    values, gradients = jax.vmap(learned.potential_and_gradient)(jnp.asarray(unseen.positions))
    assert np.std(np.asarray(values) - unseen.potentials) < 0.05
    assert np.abs(gradients - unseen.gradients).mean() < 0.1


def test_gradient_and_potential_belong_together():
    learned = fit(QuadraticPlusProcess(), data_of(banana, points(60, 2)), KEY).learned
    positions = jnp.asarray(points(20, 2, seed=2))
    expected = jax.vmap(jax.grad(learned.potential))(positions)
    np.testing.assert_allclose(jax.vmap(learned.gradient)(positions), expected, rtol=1e-6)


def test_far_from_all_points_the_quadratic_is_left():
    learned = fit(QuadraticPlusProcess(), data_of(banana, points(60, 2)), KEY).learned
    far = jnp.array([300.0, -200.0])
    away = far - learned.centre
    expected = learned.slope @ away + 0.5 * away @ learned.hessian @ away
    assert learned.potential(far) == pytest.approx(float(expected))
    assert expected > 1e3


def test_many_inputs_are_bent_in_few_directions():
    """Of forty inputs, one direction has a quartic; the rest is a quadratic that is known."""
    generator = np.random.default_rng(0)
    direction = generator.normal(size=40)
    direction /= np.linalg.norm(direction)

    def potential(q):
        return 0.5 * jnp.sum(q**2) + 0.5 * (q @ direction) ** 4

    model, data = QuadraticPlusProcess(), data_of(potential, points(120, 40))
    before = model.at_point(np.zeros(40), np.zeros(40), np.eye(40))
    learned = fit(model, data, KEY, before=before).learned
    assert learned.remainder.process.directions.shape == (8, 40)
    unseen = data_of(potential, points(300, 40, seed=1))
    errors = [
        np.std(np.asarray(jax.vmap(part.potential)(jnp.asarray(unseen.positions)) - values))
        for part, values in ((learned, unseen.potentials), (before, unseen.potentials))
    ]
    assert errors[0] < 0.5 * errors[1]


def test_an_earlier_curvature_is_improved_from_fewer_points_than_inputs():
    """The curvature is off by a factor in one direction; twenty points in thirty inputs show it."""
    direction = np.ones(30) / np.sqrt(30)
    hessian = np.eye(30) + 3 * np.outer(direction, direction)

    def potential(q):
        return 0.5 * q @ jnp.asarray(hessian) @ q

    model = QuadraticPlusProcess(rank=1)
    before = model.at_point(np.zeros(30), np.zeros(30), np.eye(30))
    learned = fit(model, data_of(potential, points(20, 30)), KEY, before=before).learned
    errors = [np.linalg.norm(part.hessian - hessian) for part in (learned, before)]
    assert errors[0] < 0.8 * errors[1]


def test_strong_correlations_that_are_known_are_kept():
    scales = np.array([1.0, 1e4])
    precision = np.array([[1.0, 0.99999], [0.99999, 1.0]]) * 5e4 / np.outer(scales, scales)
    root = np.linalg.cholesky(np.linalg.inv(precision))

    def potential(q):
        return 0.5 * q @ jnp.asarray(precision) @ q

    model = QuadraticPlusProcess()
    before = model.at_point(np.zeros(2), np.zeros(2), precision)
    data = data_of(potential, points(20, 2) @ root.T)
    learned = fit(model, data, KEY, before=before).learned
    np.testing.assert_allclose(root.T @ np.asarray(learned.hessian) @ root, np.eye(2), atol=1e-3)


def test_points_that_hardly_matter_do_not_spoil_the_fit():
    positions = points(80, 2)
    positions[:20] *= 8
    data = data_of(banana, positions)
    far = np.linalg.norm(positions, axis=1) > 4
    data = data.weighted(np.where(far, 1e-4, 1.0))
    learned = fit(QuadraticPlusProcess(), data, KEY).learned
    near = data_of(banana, 0.8 * points(100, 2, seed=1))
    found = jax.vmap(learned.gradient)(jnp.asarray(near.positions))
    assert np.abs(found - near.gradients).mean() < 0.2


def types_of(learned):
    """Everything that a compiled function distinguishes: shapes, types, and weak types."""
    return jax.tree.map(lambda part: part.aval, learned)


def test_a_process_of_the_same_size_shares_compiled_code():
    model = QuadraticPlusProcess()
    few, more = (types_of(fit(model, data_of(banana, points(n, 2)), KEY).learned) for n in (30, 60))
    first = types_of(model.at_point(np.zeros(2), np.zeros(2), np.eye(2)))
    assert few == more == first


def test_more_points_than_it_holds_are_thinned():
    learned = fit(QuadraticPlusProcess(points=40), data_of(banana, points(300, 2)), KEY).learned
    assert learned.remainder.points.shape == (40, 2)
    unseen = data_of(banana, 0.7 * points(100, 2, seed=1))
    values = jax.vmap(learned.potential)(jnp.asarray(unseen.positions))
    assert np.std(np.asarray(values) - unseen.potentials) < 0.2


@pytest.mark.parametrize("with_values", [True, False])
def test_the_process_interpolates_gradients_and_values(with_values):
    x = points(12, 2)

    def bump(q):
        return jnp.exp(-jnp.sum(q**2)) + 0.2 * q[0]

    values, gradients = (np.asarray(part) for part in jax.vmap(jax.value_and_grad(bump))(x))
    known = values - values.mean() if with_values else None
    fitted = fit_process(Observations(x, gradients, known, np.ones(12)), 0.0)
    process = GradientProcess(
        jnp.zeros(2),
        jnp.eye(2),
        jnp.asarray(x),
        jnp.asarray(fitted.value_weights),
        jnp.asarray(fitted.gradient_weights),
        jnp.asarray(fitted.length),
    )
    found, slopes = jax.vmap(process.value_and_gradient)(jnp.asarray(x))
    np.testing.assert_allclose(slopes, gradients, atol=1e-4)
    if with_values:
        np.testing.assert_allclose(np.asarray(found) - values, np.mean(found - values), atol=1e-4)


def test_a_session_gives_the_same_generator_for_the_same_name():
    one, other = (Session(3, "x").generator("stream", 1).normal(size=3) for _ in range(2))
    np.testing.assert_array_equal(one, other)
    assert (Session(3, "x").generator("stream", 2).normal(size=3) != one).all()
