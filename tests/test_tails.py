"""What lies beyond the outermost draws."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nnghmc import GradientData, Quadratic, fit
from nnghmc.tails import follow_rays


def student(freedom, dim, chains=4, draws=500):
    """A multivariate t: its potential, exact draws, and their potentials."""
    generator = np.random.default_rng(0)
    normal = generator.normal(size=(chains, draws, dim))
    positions = normal / np.sqrt(generator.chisquare(freedom, size=(chains, draws, 1)) / freedom)

    def potential(q):
        return 0.5 * (freedom + dim) * jnp.log1p(jnp.sum(q**2) / freedom)

    return potential, positions, np.asarray(jax.vmap(jax.vmap(potential))(jnp.asarray(positions)))


@pytest.mark.parametrize("dim", [1, 10, 50])
@pytest.mark.parametrize("freedom", [1.0, 2.0, 6.0])
def test_the_index_of_a_student_distribution_is_found(freedom, dim):
    rays = follow_rays(*student(freedom, dim))
    assert rays.index == pytest.approx(freedom, rel=0.35, abs=0.3)


@pytest.mark.parametrize("dim", [1, 50])
def test_a_normal_has_no_such_tails(dim):
    positions = np.random.default_rng(0).normal(size=(4, 500, dim))
    rays = follow_rays(lambda q: 0.5 * jnp.sum(q**2), positions, 0.5 * (positions**2).sum(axis=2))
    assert rays.index > 10


def test_a_quadratic_closes_off_heavy_tails_and_not_those_of_a_normal():
    for freedom, closed_off in ((2.0, True), (1e6, False)):
        potential, positions, potentials = student(freedom, 3)
        flat = positions.reshape(-1, 3)
        gradients = np.asarray(jax.vmap(jax.grad(potential))(jnp.asarray(flat)))
        data = GradientData.of_points(flat, gradients)
        learned = fit(Quadratic(), data, jax.random.key(0)).learned
        assert follow_rays(potential, positions, potentials).closed_off(learned) == closed_off


def test_a_density_that_ends_has_no_tails():
    def potential(q):
        return jnp.where(jnp.abs(q[0]) < 1, 0.0, jnp.inf)

    positions = np.random.default_rng(0).uniform(-1, 1, size=(2, 100, 1)) * 0.99
    assert follow_rays(potential, positions, np.abs(positions[..., 0])).index > 10
