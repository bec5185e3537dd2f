"""The curvature of a function of many inputs, of which most meet few others."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nnghmc import Posterior, Session, from_log_density
from nnghmc.explore.rounds.sparsity import sparse_curvature
from nnghmc.explore.rounds.truth import Truth

GROUPS, FIXED = 400, 3


def grouped():
    """A likelihood of intercepts and slopes of groups, and of a few coefficients of all rows."""
    generator = np.random.default_rng(0)
    group = np.repeat(np.arange(GROUPS), 5)
    x, z = generator.normal(size=len(group)), generator.normal(size=(len(group), FIXED))
    y = 1.0 * (generator.random(len(group)) < 0.5)

    def log_likelihood(p, data):
        linear = p["a"][data["group"]] + p["b"][data["group"]] * data["x"] + data["z"] @ p["beta"]
        return jnp.sum(data["y"] * linear - jax.nn.softplus(linear))

    data = {"group": group, "x": x, "z": z, "y": y}
    initial = {"a": np.zeros(GROUPS), "b": np.zeros(GROUPS), "beta": np.zeros(FIXED)}
    return Posterior(log_likelihood, lambda p: -0.5 * jnp.sum(p["a"] ** 2), data, initial)


def curvature_of(posterior, step, at=0.1):
    truth = Truth(posterior.split(), Session(0, "sparsity"), counts_calls=False)
    centre = np.full(truth.split.num_inputs, at)
    gradient = truth.at_inputs(centre[np.newaxis])[1][0]
    steps = np.full(len(centre), step)
    found = sparse_curvature(truth, centre, gradient, steps, np.random.default_rng(1))
    return found, truth, centre


@pytest.mark.parametrize("step", [1e-3, 30.0])
def test_pairs_that_meet_and_inputs_that_meet_all_are_found(step):
    found, truth, centre = curvature_of(grouped(), step)
    expected = np.asarray(jax.hessian(truth.split.expensive)(jnp.asarray(centre)))
    whole = found.of_rows(np.eye(len(centre)))
    assert len(found.dense) == FIXED
    np.testing.assert_array_equal(whole, whole.T)
    np.testing.assert_array_equal(np.abs(whole) > 1e-9, np.abs(expected) > 1e-9)
    assert np.linalg.norm(whole - expected) < 0.1 * np.linalg.norm(expected)
    assert truth.asked < 0.5 * len(centre)


def test_a_chain_of_inputs_has_two_neighbours_each():
    posterior = from_log_density(
        lambda q: -jnp.sum((q[1:] - 0.9 * q[:-1]) ** 2) - jnp.sum(q**4), np.zeros(300)
    )
    found, _, _ = curvature_of(posterior, 0.1)
    columns = np.asarray(found.neighbours.columns)
    assert columns.shape[1] <= 4
    assert (
        np.abs(np.diff(found.near.indices[found.near.indptr[5] : found.near.indptr[6]])) == 1
    ).all()


def test_where_all_inputs_meet_there_is_no_sparse_curvature():
    features = jnp.asarray(np.random.default_rng(0).normal(size=(50, 300)))
    posterior = from_log_density(lambda q: -jnp.sum(jnp.cosh(features @ q / 20)), np.zeros(300))
    found, truth, _ = curvature_of(posterior, 0.1)
    assert found is None
    assert truth.asked < 40
