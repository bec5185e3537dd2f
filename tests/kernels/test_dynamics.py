"""The simulator: leapfrog's own path, the right energy, and an error of second order."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from blackjax.mcmc.metrics import default_metric

from nnghmc.kernels import simulate
from nnghmc.kernels.dynamics import follow_trajectory

MATRIX = jnp.array([[1.0, 0.3], [0.3, 2.0]])
START = jnp.array([0.4, -1.1])
KEY = jax.random.key(3)
ROTATION = jnp.array([[0.0, 1.0], [-1.0, 0.0]])


def potential(q):
    return jnp.sum(q**4) / 4 + 0.5 * jnp.sum(q**2)


def rotated_gradient(q):
    """Evaluate a field that is not the gradient of any potential."""
    return jax.grad(potential)(q) + 0.5 * ROTATION @ q


GRADIENTS = {"conservative": jax.grad(potential), "free field": rotated_gradient}


def errors_at_stops(step_size, gradient, potential=None):
    """Return the energy errors at four stops along a trajectory of length 2."""
    steps = round(0.5 / step_size)
    stops = follow_trajectory(
        gradient, START, KEY, MATRIX, step_size, steps, num_stops=4, potential=potential
    )
    return np.asarray(stops.energy_errors)


@pytest.mark.parametrize("known", [True, False])
def test_half_the_step_divides_the_energy_error_by_four(known):
    """A half step left out of leapfrog or of the trapezoidal rule would divide it by two."""
    gradient = GRADIENTS["conservative"]
    coarse, fine = (
        errors_at_stops(step, gradient, potential if known else None) for step in (1 / 64, 1 / 128)
    )
    np.testing.assert_allclose(coarse / fine, 4.0, rtol=0.05)


@pytest.mark.parametrize("name", GRADIENTS)
def test_stops_lie_on_the_leapfrog_path(name):
    gradient = GRADIENTS[name]
    stops = follow_trajectory(gradient, START, KEY, MATRIX, 0.1, 3, num_stops=4)
    momentum = default_metric(MATRIX).sample_momentum(KEY, START)
    _, end_momentum, path = simulate(gradient, START, momentum, 0.1, 12, MATRIX)
    np.testing.assert_allclose(stops.positions, path.positions[3::3], rtol=1e-12)
    kinetic = default_metric(MATRIX).kinetic_energy
    steps = np.diff(path.positions, axis=0)
    work = np.sum(0.5 * (path.gradients[1:] + path.gradients[:-1]) * steps)
    change = kinetic(end_momentum) - kinetic(momentum) + work
    assert float(stops.energy_errors[-1]) == pytest.approx(float(change), rel=1e-9)


def test_a_given_potential_decides_the_energy():
    """With a potential that is not that of the gradient, the energy error is the difference."""
    gradient = GRADIENTS["conservative"]
    settings = (gradient, START, KEY, MATRIX, 0.05, 8)
    own = follow_trajectory(*settings, num_stops=3, potential=potential)
    other = follow_trajectory(*settings, num_stops=3, potential=lambda q: potential(q) + q[0])
    np.testing.assert_array_equal(own.positions, other.positions)
    moved = own.positions[:, 0] - START[0]
    np.testing.assert_allclose(other.energy_errors - own.energy_errors, moved, rtol=1e-9)


def test_numbers_of_steps_may_differ_from_trajectory_to_trajectory():
    """Trajectories of a batch end where each of them ends alone."""
    gradient, numbers = GRADIENTS["free field"], jnp.array([1, 4, 9])
    starts = jnp.stack([START, 2 * START, -START])
    keys = jax.random.split(KEY, 3)

    def end(start, key, number):
        return follow_trajectory(gradient, start, key, MATRIX, 0.1, number)

    together = jax.vmap(end)(starts, keys, numbers)
    assert together.positions.shape == (3, 1, 2)
    for row, (start, key, number) in enumerate(zip(starts, keys, numbers, strict=True)):
        alone = end(start, key, int(number))
        np.testing.assert_allclose(together.positions[row], alone.positions, rtol=1e-12)
        np.testing.assert_allclose(
            together.energy_errors[row], alone.energy_errors, rtol=1e-9, atol=1e-12
        )
