"""One suite over every gradient model; a new one joins by adding its name to the list."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nnghmc import GradientData, GradientMLP, Quadratic, Training, fit

MODELS = {"GradientMLP": GradientMLP(60), "Quadratic": Quadratic()}
CONSERVATIVE = ["Quadratic"]
TRAINING = Training(epochs=40)
PRECISION = np.array([[4.0, 1.0, 0.0], [1.0, 2.0, 0.05], [0.0, 0.05, 0.02]])
MEAN = np.array([1.0, -2.0, 30.0])


def gaussian_data(number=800, seed=0):
    """Gradients of a correlated Gaussian whose scales differ by ten."""
    generator = np.random.default_rng(seed)
    positions = generator.multivariate_normal(MEAN, np.linalg.inv(PRECISION), size=number)
    gradients = (positions - MEAN) @ PRECISION
    return GradientData(
        positions, np.full(number, np.nan), gradients, np.zeros(number, int), np.arange(number)
    )


@pytest.fixture(params=MODELS)
def name(request):
    return request.param


@pytest.fixture
def surrogate(name):
    return fit(MODELS[name], gaussian_data(), jax.random.key(0), TRAINING)


def test_learns_the_gradient_of_a_gaussian(surrogate):
    unseen = gaussian_data(seed=1)
    learned = jax.vmap(surrogate.gradient)(jnp.asarray(unseen.positions))
    error = np.sqrt(np.mean((learned - unseen.gradients) ** 2, axis=0))
    assert (error < 0.1 * unseen.gradients.std(axis=0)).all()


def test_learned_gradient_is_a_pytree_in_the_precision_of_positions(surrogate):
    leaves = [leaf for leaf in jax.tree.leaves(surrogate.learned) if isinstance(leaf, jax.Array)]
    assert leaves
    assert all(leaf.dtype == jnp.float64 for leaf in leaves)
    assert surrogate.gradient(jnp.zeros(3)).dtype == jnp.float64


def test_same_key_same_gradient(name, surrogate):
    again = fit(MODELS[name], gaussian_data(), jax.random.key(0), TRAINING)
    position = jnp.asarray(MEAN + 0.3)
    assert jnp.array_equal(surrogate.gradient(position), again.gradient(position))


def test_points_that_are_not_finite_are_dropped_and_counted(name):
    data = gaussian_data()
    data.gradients[:9] = np.nan
    report = fit(MODELS[name], data, jax.random.key(0), Training(epochs=1)).report
    assert (report.points, report.dropped) == (791, 9)
    assert "9 not finite" in str(report)


@pytest.mark.parametrize("name", CONSERVATIVE, indirect=True)
def test_conservative_models_are_the_gradient_of_their_potential(surrogate):
    learned = surrogate.learned
    for position in jnp.asarray(gaussian_data(5, seed=2).positions):
        np.testing.assert_allclose(
            jax.grad(learned.potential)(position), learned.gradient(position), rtol=1e-9
        )
        jacobian = jax.jacfwd(learned.gradient)(position)
        np.testing.assert_allclose(jacobian, jacobian.T, atol=1e-9)
