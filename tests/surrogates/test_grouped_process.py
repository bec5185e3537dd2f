"""Gaussian processes of groups of inputs: which inputs belong together, and what is learned."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nnghmc import (
    GradientData,
    QuadraticPlusProcess,
    Session,
    fit,
    from_log_density,
    load_surrogate,
)
from nnghmc.explore.rounds.expansion import are_separate
from nnghmc.explore.rounds.truth import Truth
from nnghmc.surrogates.models.quadratic_plus_process import process_of
from nnghmc.surrogates.parts.grouped_process import (
    GroupedProcess,
    Groups,
    fit_groups,
    improved_curvature,
)

KEY = jax.random.key(0)
SIZES = (2, 1, 2, 2, 2, 2, 2, 2, 2, 2)
"""Inputs of each group; one group has fewer than the others."""
SHARED = 2
INPUTS = SHARED + sum(SIZES)


def potential(s):
    """A sum over groups of functions with cubes and quartics, and of the shared inputs."""
    shared, own, total = s[:SHARED], s[SHARED:], jnp.sum(jnp.cosh(s[:SHARED]))
    for end, size in zip(np.cumsum(SIZES), SIZES, strict=True):
        group = own[end - size : end] - shared[:size]
        total += (
            jnp.sum(jnp.exp(0.5 * group)) + 0.2 * jnp.sum(group) ** 2 + jnp.sum(group) ** 4 / 10
        )
    return total


def rows(number, seed=0):
    return 0.7 * np.random.default_rng(seed).normal(size=(number, INPUTS))


def data_of(positions):
    values, gradients = jax.vmap(jax.value_and_grad(potential))(jnp.asarray(positions))
    return GradientData.of_points(positions, np.asarray(gradients), np.asarray(values))


@pytest.fixture(scope="module")
def quadratic():
    """The quadratic at the middle, and the groups that its curvature shows."""
    middle = jnp.zeros(INPUTS)
    slope, hessian = (np.asarray(part(potential)(middle)) for part in (jax.grad, jax.hessian))
    groups = Groups.of_curvature(hessian)
    return QuadraticPlusProcess().at_point(np.zeros(INPUTS), slope, hessian, groups), groups


@pytest.fixture(scope="module")
def surrogate(quadratic):
    return fit(QuadraticPlusProcess(), data_of(rows(80)), KEY, before=quadratic[0])


def test_the_curvature_shows_which_inputs_belong_together(quadratic):
    groups = quadratic[1]
    assert groups.shared.tolist() == [0, 1]
    assert [len(own) for own in groups.own] == list(SIZES)
    assert np.concatenate(groups.own).tolist() == list(range(SHARED, INPUTS))
    assert groups.places[1].tolist() == [0, 1, 4, -1]


@pytest.mark.parametrize(
    "hessian",
    [
        np.ones((12, 12)) + np.eye(12),
        np.kron(np.eye(2), np.ones((9, 9))) + np.eye(18),
        np.eye(12) + np.pad(np.ones((6, 12)), ((0, 6), (0, 0))),
        np.ones((1, 1)),
    ],
    ids=["all meet", "large groups", "many shared", "one input"],
)
def test_there_are_no_groups_where_too_many_inputs_meet(hessian):
    assert Groups.of_curvature((hessian + hessian.T) / 2) is None


def test_eighty_gradients_teach_what_the_quadratic_leaves(quadratic, surrogate):
    unseen = data_of(rows(300, seed=1))
    errors = []
    for learned in (surrogate.learned, quadratic[0]):
        values, gradients = jax.vmap(learned.potential_and_gradient)(jnp.asarray(unseen.positions))
        off = np.abs(np.asarray(gradients) - unseen.gradients).mean(axis=0)
        errors.append((np.std(np.asarray(values) - unseen.potentials), *off))
    learned, before = np.array(errors)
    assert learned[0] < 0.1 * before[0]
    assert (learned[1:] < 0.5 * before[1:]).all()  # with respect to each input, shared or not
    assert isinstance(process_of(surrogate.learned), GroupedProcess)


def test_a_wrong_curvature_is_corrected_where_inputs_meet():
    """Where the curvature was taken a quartic has none, and the first quadratic does not rise."""
    generator = np.random.default_rng(0)
    groups = Groups(np.array([0]), [np.array([1, 2]), np.array([3])])
    root = np.array([[2.0, 0.3, 0.2, 0.4], [0, 1, 0.5, 0], [0, 0, 1.5, 0], [0, 0, 0, 0.7]])
    hessian = root.T @ root
    hessian[1:3, 3] = hessian[3, 1:3] = 0.0
    positions = generator.normal(size=(400, 4)) * [1.0, 3.0, 0.1, 20.0]
    gradients = positions @ hessian
    data = GradientData.of_points(positions, gradients)
    before = np.diag([1e-9, 1e-9, 1e-9, 1e-9])
    found = improved_curvature(groups, before, data, gradients - positions @ before)
    np.testing.assert_allclose(found, hessian, rtol=0.02, atol=0.02)
    assert found[1, 3] == found[2, 3] == 0.0
    downward = improved_curvature(groups, before, data, -gradients)
    assert np.linalg.eigvalsh(downward).min() > 0
    np.testing.assert_array_equal(downward[1:3, 3], 0.0)


def test_each_group_learns_from_points_that_are_far_apart_in_its_own_inputs():
    """Of many points, only three are far out in the second input: its process needs them."""
    positions = np.random.default_rng(0).normal(size=(300, 2)) * [1.0, 0.3]
    positions[[5, 50, 150], 1] = [-4.0, 3.0, 5.0]
    data = GradientData.of_points(positions, positions**3)
    groups = Groups(np.empty(0, int), [np.array([0]), np.array([1])])
    process, _ = fit_groups(groups, data, data.gradients, np.ones(300), 30)
    far = jnp.asarray([[0.0, -4.0], [0.0, 3.0], [0.0, 5.0]])
    slopes = jax.vmap(process.value_and_gradient)(far)[1]
    np.testing.assert_allclose(slopes[:, 1], far[:, 1] ** 3, rtol=0.02)


def test_gradient_and_potential_belong_together(surrogate):
    positions = jnp.asarray(rows(20, seed=2))
    expected = jax.vmap(jax.grad(surrogate.learned.potential))(positions)
    found = jax.vmap(surrogate.learned.gradient)(positions)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)


def test_another_number_of_points_shares_compiled_code(quadratic, surrogate):
    fewer = fit(QuadraticPlusProcess(), data_of(rows(30)), KEY, before=surrogate.learned)
    shapes = [
        jax.tree.map(lambda part: part.aval, learned)
        for learned in (quadratic[0], surrogate.learned, fewer.learned)
    ]
    assert shapes[0] == shapes[1] == shapes[2]


def test_groups_and_all_else_come_back_from_a_file(surrogate, tmp_path):
    surrogate.save(tmp_path / "groups.surrogate")
    back = load_surrogate(tmp_path / "groups.surrogate")
    position = jnp.asarray(rows(1)[0])
    assert back.potential(position) == surrogate.potential(position)
    assert str(process_of(back.learned).groups) == str(process_of(surrogate.learned).groups)


@pytest.mark.parametrize(("coupling", "separate"), [(0.0, True), (0.3, False)])
def test_groups_that_meet_away_from_the_mode_are_noticed(coupling, separate):
    """The product of squares has no curvature between two groups where they are zero."""

    def log_density(s):
        return -potential(s) - coupling * (s[2] * s[5]) ** 2

    posterior = from_log_density(log_density, np.zeros(INPUTS))
    truth = Truth(posterior.split(), Session(0, "groups"), counts_calls=False)
    groups = Groups.of_curvature(np.asarray(jax.hessian(posterior.potential)(jnp.zeros(INPUTS))))
    assert len(groups.own) == len(SIZES)
    generator = np.random.default_rng(1)
    found = are_separate(truth, groups, np.zeros(INPUTS), np.ones(INPUTS), generator)
    assert found is separate
