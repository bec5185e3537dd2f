"""What lies beyond the outermost draws."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nnghmc import Session
from nnghmc.explore.rays import follow_rays


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


@pytest.mark.parametrize("dim", [1, 50])
def test_a_normal_has_no_such_tails(dim):
    positions = np.random.default_rng(0).normal(size=(4, 500, dim))
    rays = rays_of(lambda q: 0.5 * jnp.sum(q**2), positions, 0.5 * (positions**2).sum(axis=2))
    assert rays.index > 10


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
