import jax
import jax.numpy as jnp
import numpy as np

from nnghmc.explore.descent import CANDIDATES, DRAWS_PER_CANDIDATE, MOST_EVALUATIONS, descend
from nnghmc.kernels import HMCState


def down(potential, starts):
    evaluate = jax.jit(jax.vmap(jax.value_and_grad(potential)))
    calls = []

    def counted(positions):
        calls.append(len(positions))
        return evaluate(jnp.asarray(positions))

    starts = jnp.asarray(starts, float)
    arrival = descend(counted, HMCState(starts, *evaluate(starts)))
    assert arrival.evaluations == len(calls)
    assert len(arrival.gradient_data) == sum(calls)
    return arrival


def ill_conditioned(dim=30):
    rotation, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(dim, dim)))
    curvatures = np.geomspace(1, 1e4, dim)
    return (rotation * curvatures) @ rotation.T


def test_from_a_hundred_standard_deviations_off_into_the_typical_set():
    matrix = ill_conditioned()
    starts = 100 * np.random.default_rng(1).normal(size=(4, 30))
    arrival = down(lambda q: 0.5 * q @ matrix @ q, starts)
    assert arrival.evaluations < MOST_EVALUATIONS
    assert (
        arrival.states.potential < 0.5 * 30
    ).all()  # the mean of the potential in the typical set
    assert arrival.restarts == 0


def test_states_are_what_was_evaluated_there():
    def potential(q):
        return jnp.sum(jnp.exp(q) - q) + 0.3 * jnp.sum(q[0] * q[1])

    arrival = down(potential, np.random.default_rng(0).normal(size=(3, 4)))
    values, slopes = jax.vmap(jax.value_and_grad(potential))(arrival.states.position)
    np.testing.assert_allclose(arrival.states.potential, values)
    np.testing.assert_allclose(arrival.states.gradient, slopes)


def test_the_matrix_is_positive_definite_and_of_the_right_size():
    matrix = ill_conditioned(6)
    arrival = down(lambda q: 0.5 * q @ matrix @ q, np.random.default_rng(1).normal(size=(8, 6)))
    found = arrival.inverse_mass_matrix
    np.testing.assert_allclose(found, found.T)
    assert np.linalg.eigvalsh(found).min() > 0
    whitened = np.linalg.eigvals(found @ matrix).real  # ones if it were exact
    assert whitened.max() / whitened.min() < 0.02 * np.linalg.cond(matrix)
    assert 0.1 < np.median(whitened) < 10


def test_places_where_the_density_is_not_finite_are_stepped_back_from():
    arrival = down(lambda q: jnp.sum(q - 2 * jnp.log(q)), np.full((2, 3), 0.05))
    np.testing.assert_allclose(arrival.states.position, 2.0, atol=0.5)


def test_a_chain_in_a_negligible_local_mode_goes_on_from_where_the_others_are():
    def potential(q):
        deep, shallow = 0.5 * jnp.sum((q + 50) ** 2) - 60, 0.5 * jnp.sum((q - 50) ** 2)
        return -jnp.logaddexp(-deep, -shallow)

    arrival = down(potential, [[-49.0], [51.0], [-51.0], [49.5]])
    assert arrival.restarts == 2
    assert (arrival.states.position < 0).all()


def test_a_narrow_mode_takes_no_chain_out_of_a_wide_one():
    """It is far deeper, and holds a ten-thousandth of the mass."""
    dim = 20

    def potential(q):
        wide = -0.5 * jnp.sum((q + 30) ** 2)
        narrow = -50 * jnp.sum((q - 30) ** 2) + dim * jnp.log(10.0) - jnp.log(1e4)
        return -jnp.logaddexp(wide, narrow)

    starts = np.random.default_rng(0).normal(size=(4, dim)) + 30 * np.array([[-1], [1], [-1], [-1]])
    arrival = down(potential, starts)
    assert arrival.restarts == 0
    assert np.ptp(arrival.states.potential) > 10 + dim


def test_a_chain_that_has_not_arrived_is_in_no_local_mode():
    scales = jnp.geomspace(1e-4, 1e4, 20)
    starts = np.random.default_rng(0).uniform(-1, 1, size=(4, 20))
    arrival = down(lambda q: 0.5 * jnp.sum((q / scales) ** 2), starts)
    assert arrival.restarts == 0


def test_a_descent_does_not_follow_a_density_without_a_mode_out_of_the_typical_set():
    """The scale of eight effects goes to zero, where their density grows without bound."""

    def potential(q):
        log_scale, effects = q[0], q[1:]
        prior = 0.5 * jnp.sum((effects / jnp.exp(log_scale)) ** 2) + 8 * log_scale
        return prior + 0.5 * log_scale**2 / 9 + 0.5 * jnp.sum((effects - jnp.arange(8.0)) ** 2) / 9

    starts = np.random.default_rng(0).uniform(-1, 1, size=(4, 9))
    arrival = down(potential, starts)
    assert (arrival.states.position[:, 0] > -6).all()  # two prior standard deviations
    to_choose = CANDIDATES * DRAWS_PER_CANDIDATE
    assert to_choose < arrival.evaluations < MOST_EVALUATIONS + to_choose


def test_chains_in_modes_of_like_depth_stay_where_they_are():
    def potential(q):
        return -jnp.logaddexp(-0.5 * jnp.sum((q + 50) ** 2), -0.5 * jnp.sum((q - 50) ** 2))

    arrival = down(potential, [[-49.0], [51.0]])
    assert arrival.restarts == 0
    assert arrival.states.position[1, 0] > 0
