"""Draws are exact whatever was learned of the expensive part: random surrogates, exact priors."""

from types import SimpleNamespace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import sparse

from nnghmc import Posterior, QuadraticPlusProcess, SparseQuadratic, SurrogatePosterior
from nnghmc.kernels import LearnedGradientHMC, SurrogateTransition, Tuning
from nnghmc.surrogates.parts.local_terms import LocalTerms
from nnghmc.surrogates.parts.sparse_matrix import SparseOnHost
from support import assert_invariant

GROUP = np.arange(30) % 2
SEEN = np.random.default_rng(0).normal(0.5, 1.0, 30)


def posterior():
    """A normal posterior of two group means, of which a third parameter is independent."""
    return Posterior(
        lambda p, data: -0.5 * jnp.sum((data["y"] - (0.5 * p["z"])[data["group"]]) ** 2),
        lambda p: -0.5 * jnp.sum(p["z"] ** 2) - 0.5 * (p["t"] / 2) ** 2,
        {"y": SEEN, "group": GROUP},
        {"t": 0.0, "z": np.zeros(2)},
    )


def exact_draws(number, seed):
    sums = np.array([SEEN[group == GROUP].sum() for group in (0, 1)])
    precision = 1 + 0.25 * 15
    normal = np.random.default_rng(seed).normal(size=(number, 3))
    return normal * [2, *2 * [precision**-0.5]] + [0, *(0.5 * sums / precision)]


def random_surrogate(inputs):
    """A process with random weights on a curvature that is wrong: it has learned nothing."""
    generator = np.random.default_rng(1)
    curvature = np.diag([1.0, 9.0])
    learned = QuadraticPlusProcess(points=8).at_point(np.zeros(inputs), np.ones(inputs), curvature)
    parts = (
        np.eye(inputs),
        generator.normal(size=(8, inputs)),
        generator.normal(size=8),
        generator.normal(size=(8, inputs)),
    )
    return eqx.tree_at(
        lambda made: (
            made.remainder.directions,
            made.remainder.points,
            made.remainder.value_weights,
            made.remainder.gradient_weights,
        ),
        learned,
        tuple(map(jnp.asarray, parts)),
    )


def random_sparse_surrogate(inputs):
    """Random cubic and quartic terms on a curvature that is wrong."""
    generator, every = np.random.default_rng(2), np.arange(inputs)
    near = sparse.csr_matrix(np.diag([1.0, 9.0]) + 0.5)
    hessian = SparseOnHost.of_entries(near, every[:0], np.empty((0, inputs)))
    learned = SparseQuadratic().at_point(np.zeros(inputs), np.ones(inputs), hessian)
    coefficients = generator.normal(size=inputs**2 + inputs)
    neighbours = learned.hessian.neighbours
    terms = LocalTerms.of(every - 0.5, np.ones(inputs), neighbours, coefficients)
    return eqx.tree_at(lambda made: made.remainder, learned, terms)


@pytest.mark.parametrize("random", [random_surrogate, random_sparse_surrogate])
@pytest.mark.parametrize("kernel", ["surrogate transition", "learned gradient"])
def test_a_random_surrogate_of_the_expensive_part_leaves_the_posterior_unchanged(kernel, random):
    target = posterior()
    split = target.split()
    assert (split.num_inputs, split.has_exact_part) == (2, True)
    surrogate = SurrogatePosterior(split, random(2))
    tuning = Tuning.checked(0.4, (2, 5), np.array([4.0, 0.2, 0.2]), 3)
    if kernel == "surrogate transition":
        made = SurrogateTransition(target.potential, surrogate.potential_and_gradient, tuning, 2)
    else:
        made = LearnedGradientHMC(target.potential, surrogate.gradient, tuning)
    algorithm = SimpleNamespace(init=made.init, step=lambda key, state: made.step(key, state))
    known = SimpleNamespace(exact_draws=exact_draws, potential=target.potential)
    assert_invariant(known, algorithm, chains=10_000, least_moved=0.1)


def test_at_a_temperature_potential_and_gradient_are_divided():
    split = posterior().split()
    hot = SurrogatePosterior(split, random_surrogate(2)).at_temperature(4.0)
    cold, position = hot.at_temperature(1.0), jnp.array([0.3, -0.2, 1.0])
    potential, gradient = hot.potential_and_gradient(position)
    assert potential == pytest.approx(float(cold.potential(position)) / 4)
    np.testing.assert_allclose(gradient, cold.gradient(position) / 4, rtol=1e-12)
    np.testing.assert_allclose(gradient, jax.grad(hot.potential)(position), rtol=1e-8)
