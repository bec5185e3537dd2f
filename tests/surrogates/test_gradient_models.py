"""One suite runs over every gradient model; a new model joins by adding its name to the list."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nnghmc import (
    BlockMLP,
    GaussianProcess,
    GradientData,
    GradientMLP,
    Posterior,
    PotentialNet,
    Quadratic,
    QuadraticPlus,
    QuadraticPlusProcess,
    RandomBases,
    SparseQuadratic,
    Training,
    fit,
    hmc,
    load_surrogate,
)
from nnghmc.errors import GradientDataError, SettingsError, SurrogateFileError
from nnghmc.surrogates import MODELS as NAMED
from support import KNOWN_TARGETS, assert_invariant

MODELS = {
    "GradientMLP": GradientMLP(60),
    "GradientMLP, deep": GradientMLP((40, 40)),
    "BlockMLP": BlockMLP(2, 40),
    "PotentialNet": PotentialNet(60),
    "PotentialNet, deep": PotentialNet((40, 40), "silu"),
    "PotentialNet, both": PotentialNet(60, learns="both"),
    "PotentialNet, potentials": PotentialNet(60, learns="potentials"),
    "RandomBases": RandomBases(300),
    "GaussianProcess": GaussianProcess(200),
    "Quadratic": Quadratic(),
    "QuadraticPlus": QuadraticPlus(),
    "QuadraticPlusProcess": QuadraticPlusProcess(points=150),
    "SparseQuadratic": SparseQuadratic(),
    "QuadraticPlus, free field": QuadraticPlus(GradientMLP(40)),
    "QuadraticPlus, blocks": QuadraticPlus(BlockMLP(2, 20)),
    "QuadraticPlus, process": QuadraticPlus(GaussianProcess(150)),
    "QuadraticPlus, metric": QuadraticPlus(PotentialNet(40, "silu"), np.array([0.3, 0.6, 50.0])),
}
FREE_FIELDS = ["GradientMLP", "GradientMLP, deep", "BlockMLP"]
FREE_FIELDS += ["QuadraticPlus, free field", "QuadraticPlus, blocks"]
CONSERVATIVE = [name for name in MODELS if name not in FREE_FIELDS]
FROM_POTENTIALS = ["PotentialNet, both", "PotentialNet, potentials", "RandomBases"]
FROM_POTENTIALS += ["GaussianProcess", "QuadraticPlus, process"]
ONE_OF_EACH = ["GradientMLP", "BlockMLP", "PotentialNet", "RandomBases", "GaussianProcess"]
ONE_OF_EACH += ["Quadratic", "QuadraticPlus", "QuadraticPlusProcess", "QuadraticPlus, blocks"]
ONE_OF_EACH += ["SparseQuadratic"]
TRAINING = Training(epochs=150, batch_size=32, patience=40)
PRECISION = np.array([[4.0, 1.0, 0.0], [1.0, 2.0, 0.05], [0.0, 0.05, 0.02]])
MEAN = np.array([1.0, -2.0, 30.0])


def potential(position):
    """Evaluate a correlated Gaussian potential with scales that differ by ten, plus one bend."""
    away = position - MEAN
    return 0.5 * away @ PRECISION @ away + 0.3 * jnp.log1p((away[0] - away[1]) ** 2)


def curved_data(number=800, seed=0):
    """Return data of one's own, which a test may spoil."""
    return GradientData.of_points(*(part.copy() for part in curved_points(number, seed)))


@cache
def curved_points(number, seed):
    generator = np.random.default_rng(seed)
    positions = generator.multivariate_normal(MEAN, np.linalg.inv(PRECISION), size=number)
    values, gradients = everywhere(jax.value_and_grad(potential), positions)
    return positions, np.asarray(gradients), np.asarray(values)


def everywhere(function, positions):
    """Evaluate a function at every row in one compiled call, which is several times faster."""
    return jax.jit(jax.vmap(function))(jnp.asarray(positions))


@pytest.fixture(params=MODELS, scope="module")
def name(request):
    """A model; all of its tests come together."""
    return request.param


@pytest.fixture(scope="module")
def surrogate(name):
    """What the model has learned, once for all its tests."""
    return fit(MODELS[name], curved_data(), jax.random.key(0), TRAINING)


def test_every_named_model_is_in_this_suite():
    assert set(NAMED.values()) == {type(model) for model in MODELS.values()}


def test_learns_the_gradient(surrogate, name):
    unseen = curved_data(seed=1)
    learned = everywhere(surrogate.gradient, unseen.positions)
    error = np.sqrt(np.mean((learned - unseen.gradients) ** 2, axis=0))
    bound = 0.25 if name in ("Quadratic", "PotentialNet, potentials") else 0.12
    assert (error < bound * unseen.gradients.std(axis=0)).all()
    assert surrogate.report.held_out == 80
    assert surrogate.report.held_out_error < bound


def test_learned_gradient_is_a_pytree_in_the_precision_of_positions(surrogate):
    leaves = [leaf for leaf in jax.tree.leaves(surrogate.learned) if isinstance(leaf, jax.Array)]
    assert leaves
    floats = [leaf for leaf in leaves if jnp.issubdtype(leaf.dtype, jnp.floating)]
    assert floats
    assert all(leaf.dtype == jnp.float64 for leaf in floats)
    assert surrogate.gradient(jnp.zeros(3)).dtype == jnp.float64


def test_same_key_same_gradient(name, surrogate):
    again = fit(MODELS[name], curved_data(), jax.random.key(0), TRAINING)
    position = jnp.asarray(MEAN + 0.3)
    assert jnp.array_equal(surrogate.gradient(position), again.gradient(position))


def test_mostly_infinite_data_and_constant_coordinates_raise_an_error(name):
    data = curved_data()
    data.gradients[:500] = np.inf
    with pytest.raises(GradientDataError, match="300 of 800"):
        fit(MODELS[name], data, jax.random.key(0))
    still = curved_data()
    still.positions[:, 1] = 2.0
    with pytest.raises(GradientDataError, match=r"do not: 1 \(of 3\)"):
        fit(MODELS[name], still, jax.random.key(0))


def test_potential_and_gradient_belong_together(name, surrogate):
    if name in FREE_FIELDS:
        assert not surrogate.conservative
        with pytest.raises(SettingsError, match="free vector field"):
            surrogate.potential(jnp.zeros(3))
        return
    assert surrogate.conservative

    def all_three(position):
        slope = jax.grad(surrogate.potential)(position)
        return slope, jax.jacfwd(surrogate.gradient)(position), surrogate.gradient(position)

    slopes, jacobians, gradients = everywhere(all_three, curved_data(5, seed=2).positions)
    np.testing.assert_allclose(slopes, gradients, rtol=1e-7)
    np.testing.assert_allclose(jacobians, np.swapaxes(jacobians, 1, 2), atol=1e-8)


@pytest.mark.parametrize("name", FROM_POTENTIALS, indirect=True, scope="module")
def test_models_of_potentials_say_that_they_need_potentials(name):
    data = curved_data()
    data.potentials[:] = np.nan
    with pytest.raises(GradientDataError, match="learns from potentials"):
        fit(MODELS[name], data, jax.random.key(0))


def test_a_file_gives_back_the_same_surrogate(surrogate, tmp_path):
    surrogate.save(tmp_path / "learned.surrogate")
    loaded = load_surrogate(tmp_path / "learned.surrogate")
    assert loaded.dim == 3
    assert loaded.conservative is surrogate.conservative
    assert str(loaded.report) == str(surrogate.report)
    positions = curved_data(5, seed=3).positions
    found, expected = (everywhere(part.gradient, positions) for part in (loaded, surrogate))
    np.testing.assert_array_equal(found, expected)


def test_any_prior_can_replace_another(surrogate, tmp_path):
    position = jnp.asarray(MEAN + 0.2)
    moved = surrogate.with_prior(curved_posterior(), curved_posterior(variance=0.1))
    expected = surrogate.gradient(position) + position / 0.1 - position / 10.0
    np.testing.assert_allclose(moved.gradient(position), expected, rtol=1e-12)
    if surrogate.conservative:
        np.testing.assert_allclose(
            jax.grad(moved.potential)(position), moved.gradient(position), rtol=1e-7
        )
    with pytest.raises(SurrogateFileError, match="before with_prior"):
        moved.save(tmp_path / "moved.surrogate")


def curved_posterior(variance=10.0):
    return Posterior(
        lambda q, data: -potential(q),
        lambda q: -0.5 * jnp.sum(q**2) / variance,
        None,
        jnp.asarray(MEAN),
    )


@pytest.mark.parametrize("name", ONE_OF_EACH, indirect=True, scope="module")
def test_hmc_along_a_poorly_learned_gradient_is_exact(name):
    """Forty points and one epoch give a poor gradient, which may cost acceptance only."""
    target = KNOWN_TARGETS["gaussian"]
    positions = target.exact_draws(40, seed=7)
    values, gradients = everywhere(jax.value_and_grad(target.potential), positions)
    bent = np.array(gradients) + 0.4 * np.sin(3 * positions)
    data = GradientData.of_points(positions, bent, np.array(values))
    poor = fit(MODELS[name], data, jax.random.key(1), Training(epochs=1, held_out=0.0))
    algorithm = hmc(
        target.potential, poor.gradient, target.step_size, (1, target.num_steps), jnp.ones(3)
    )
    assert_invariant(target, algorithm)
