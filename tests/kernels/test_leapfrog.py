"""What exactness rests on: leapfrog is reversible and preserves volume, for any field."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nnghmc.kernels import simulate

MATRICES = {
    "diagonal": lambda dim: jnp.linspace(0.5, 1.5, dim),
    "dense": lambda dim: jnp.eye(dim) + 0.3,
}


def phase_space_points(target, number=20):
    positions = target.exact_draws(number, seed=4)
    momenta = np.random.default_rng(5).normal(size=positions.shape)
    return jnp.asarray(positions), jnp.asarray(momenta)


@pytest.mark.parametrize("matrix", MATRICES)
def test_reversal_to_rounding(target_and_gradient, matrix):
    target, gradient = target_and_gradient
    inverse_mass_matrix = MATRICES[matrix](target.exact_draws(1, seed=0).shape[1])

    def there_and_back(position, momentum):
        settings = (target.step_size, 10, inverse_mass_matrix)
        position, momentum, _ = simulate(gradient, position, momentum, *settings)
        position, momentum, _ = simulate(gradient, position, -momentum, *settings)
        return position, -momentum

    positions, momenta = phase_space_points(target)
    back, momenta_back = jax.jit(jax.vmap(there_and_back))(positions, momenta)
    np.testing.assert_allclose(back, positions, atol=1e-9)
    np.testing.assert_allclose(momenta_back, momenta, atol=1e-9)


@pytest.mark.parametrize("matrix", MATRICES)
@pytest.mark.parametrize("num_steps", [1, 7])
def test_volume_is_preserved(target_and_gradient, matrix, num_steps):
    target, gradient = target_and_gradient
    dim = target.exact_draws(1, seed=0).shape[1]

    def leapfrog_map(point):
        position, momentum, _ = simulate(
            gradient, point[:dim], point[dim:], target.step_size, num_steps, MATRICES[matrix](dim)
        )
        return jnp.concatenate([position, momentum])

    points = jnp.concatenate(phase_space_points(target), axis=1)
    jacobians = jax.jit(jax.vmap(jax.jacfwd(leapfrog_map)))(points)
    np.testing.assert_allclose(jnp.linalg.det(jacobians), 1.0, rtol=1e-6)
    assert np.abs(jacobians - jnp.eye(2 * dim)).max() > 0.1  # the map does something


def test_path_is_what_the_trajectory_met():
    def gradient(q):
        return q**3

    position, momentum = jnp.array([1.0]), jnp.array([0.5])
    end, _, path = simulate(gradient, position, momentum, 0.1, 5)
    assert path.positions.shape == (6, 1)
    np.testing.assert_array_equal(path.positions[0], position)
    np.testing.assert_array_equal(path.positions[-1], end)
    np.testing.assert_array_equal(path.gradients, path.positions**3)
    assert np.isnan(path.potentials).all()


def test_second_order_convergence():
    """Halving the step divides the error by four: half a step left out would make it two."""

    def error(num_steps):
        start = jnp.array([1.0]), jnp.array([0.0])
        end, momentum, _ = simulate(lambda q: q, *start, 1.0 / num_steps, num_steps)
        return np.hypot(end[0] - np.cos(1.0), momentum[0] + np.sin(1.0))

    assert error(40) / error(80) == pytest.approx(4.0, rel=0.01)
