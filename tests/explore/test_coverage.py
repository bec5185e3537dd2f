"""What lies beyond the outermost draws."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nnghmc import GradientData, Quadratic, Session, fit
from nnghmc.explore.coverage import Rays, follow_rays
from nnghmc.surrogates import Learned


def student(freedom, dim, chains=4, draws=500):
    """A multivariate t: its potential, exact draws, and their potentials."""
    generator = np.random.default_rng(0)
    normal = generator.normal(size=(chains, draws, dim))
    positions = normal / np.sqrt(generator.chisquare(freedom, size=(chains, draws, 1)) / freedom)

    def potential(q):
        return 0.5 * (freedom + dim) * jnp.log1p(jnp.sum(q**2) / freedom)

    return potential, positions, np.asarray(jax.vmap(jax.vmap(potential))(jnp.asarray(positions)))


def rays_of(potential, positions, potentials):
    session = Session(0, "coverage")
    return follow_rays(jax.value_and_grad(potential), positions, potentials, session)


@pytest.mark.parametrize("dim", [1, 10, 50])
@pytest.mark.parametrize("freedom", [1.0, 2.0, 6.0])
def test_the_index_of_a_student_distribution_is_found(freedom, dim):
    rays = rays_of(*student(freedom, dim))
    assert rays.index == pytest.approx(freedom, rel=0.35, abs=0.3)
    if freedom <= 2:
        assert rays.heavy


@pytest.mark.parametrize("dim", [1, 50])
def test_a_normal_has_no_such_tails(dim):
    positions = np.random.default_rng(0).normal(size=(4, 500, dim))
    rays = rays_of(lambda q: 0.5 * jnp.sum(q**2), positions, 0.5 * (positions**2).sum(axis=2))
    assert rays.index > 10
    assert not rays.heavy


def test_a_quadratic_closes_off_heavy_tails_and_not_those_of_a_normal():
    for freedom, closed_off in ((2.0, True), (1e6, False)):
        potential, positions, potentials = student(freedom, 3)
        flat = positions.reshape(-1, 3)
        gradients = np.asarray(jax.vmap(jax.grad(potential))(jnp.asarray(flat)))
        data = GradientData.of_points(flat, gradients)
        learned = fit(Quadratic(), data, jax.random.key(0)).learned
        assert rays_of(potential, positions, potentials).closed_off(learned) == closed_off


def one_heavy_tail(dim=10, freedom=3.0):
    """A Student variable among normal ones that follow it: potential, draws and potentials."""
    generator = np.random.default_rng(0)
    positions = generator.normal(size=(4, 500, dim))
    positions[..., 0] = generator.standard_t(freedom, size=(4, 500))
    positions[..., 1:] += 0.7 * positions[..., :1]

    def potential(q):
        heavy = 0.5 * (freedom + 1) * jnp.log1p(q[0] ** 2 / freedom)
        return heavy + 0.5 * jnp.sum((q[1:] - 0.7 * q[0]) ** 2)

    return potential, positions, np.asarray(jax.vmap(jax.vmap(potential))(jnp.asarray(positions)))


def test_a_single_heavy_tail_is_found_among_light_ones():
    rays = rays_of(*one_heavy_tail())
    assert rays.index == pytest.approx(3.0, abs=1.0)
    assert rays.heavy


class Truth(Learned):
    """As if everything had been learned; it has no potential to ask."""

    true: Callable

    def gradient(self, position):
        return jax.grad(self.true)(position)


def test_a_model_that_closes_off_a_single_tail_is_found():
    potential, positions, potentials = one_heavy_tail()
    flat = positions.reshape(-1, positions.shape[2])
    gradients = np.asarray(jax.vmap(jax.grad(potential))(jnp.asarray(flat)))
    learned = fit(Quadratic(), GradientData.of_points(flat, gradients), jax.random.key(0)).learned
    rays = rays_of(potential, positions, potentials)
    assert rays.closed_off(learned)
    assert not rays.closed_off(Truth(eqx.Partial(potential)))


def test_every_other_ray_within_reach_is_learned_from():
    rays = rays_of(*student(3.0, 1))
    learned_from = rays.to_learn_from
    assert 0 < learned_from.sum() < len(rays.rises)
    assert len(rays.training_data) == (learned_from & (rays.rises < 10)).sum()
    np.testing.assert_array_equal(rays.training_data.positions, rays.ends.positions[learned_from])


def test_copies_of_one_draw_are_one_outermost_draw():
    positions = np.random.default_rng(0).normal(size=(2, 400, 2))
    positions[0, 300:] = 4.0
    rays = rays_of(lambda q: 0.5 * jnp.sum(q**2), positions, 0.5 * (positions**2).sum(axis=2))
    assert (rays.outer[rays.groups == 0] == 4.0).all(axis=1).sum() == 1


def test_a_density_that_ends_has_no_tails():
    def potential(q):
        return jnp.where(jnp.abs(q[0]) < 1, 0.0, jnp.inf)

    positions = np.random.default_rng(0).uniform(-1, 1, size=(2, 100, 1)) * 0.99
    assert rays_of(potential, positions, np.abs(positions[..., 0])).index > 10


class Wall(Learned):
    """Steep where rays of odd numbers are, or of even ones, flat elsewhere."""

    odd: bool

    def gradient(self, position):
        return jnp.where((position // 10) % 2 == self.odd, 100.0, 0.0)


@pytest.mark.parametrize("odd", [True, False])
def test_rays_that_were_learned_from_are_not_asked(odd):
    outer = np.array([[5.0], [15.0], [25.0], [35.0]])
    nothing = np.zeros(4)
    ends = GradientData.of_points(outer + 1, np.zeros((4, 1)), nothing)
    rays = Rays(outer, nothing, nothing.astype(int), ends, 4)
    assert rays.closed_off(Wall(odd)) == (not odd)
