"""The transition itself: what it evaluates, counts and refuses to accept."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from blackjax.mcmc import integrators
from blackjax.util import run_inference_algorithm

from nnghmc.kernels import hmc, true_gradient_hmc


def potential(q):
    return 0.5 * jnp.sum(q**2) + 0.1 * jnp.sum(q**4)


gradient = jax.grad(potential)
TUNING = (0.3, 5, jnp.ones(2))


def transitions(algorithm, number, position=(0.5, -0.5), seed=0):
    state = algorithm.init(jnp.array(position))
    step = jax.jit(algorithm.step)
    infos = []
    for key in jax.random.split(jax.random.key(seed), number):
        state, info = step(key, state)
        infos.append((state, info))
    return infos


def test_both_forms_of_standard_hmc_make_the_same_draws():
    separate = transitions(hmc(potential, gradient, *TUNING), 20)
    shared = transitions(true_gradient_hmc(jax.value_and_grad(potential), *TUNING), 20)
    for (state, info), (other_state, other_info) in zip(separate, shared, strict=True):
        np.testing.assert_allclose(state.position, other_state.position, rtol=1e-12)
        np.testing.assert_allclose(state.potential, other_state.potential, rtol=1e-12)
        np.testing.assert_allclose(info.acceptance_rate, other_info.acceptance_rate, rtol=1e-9)


def test_energy_is_that_of_an_independent_integrator():
    """BlackJAX's own velocity Verlet, from the same momentum, ends at the same energy."""
    algorithm = hmc(potential, gradient, *TUNING)
    start = jnp.array([0.5, -0.5])
    _, info = algorithm.step(jax.random.key(3), algorithm.init(start))

    momentum = jax.random.normal(jax.random.split(jax.random.key(3), 3)[0], (2,))
    step = integrators.velocity_verlet(
        lambda q: -potential(q), lambda p, position=None: 0.5 * jnp.sum(p**2)
    )
    state = integrators.new_integrator_state(lambda q: -potential(q), start, momentum)
    for _ in range(TUNING[1]):
        state = step(state, TUNING[0])
    energy = potential(state.position) + 0.5 * jnp.sum(state.momentum**2)
    change = energy - potential(start) - 0.5 * jnp.sum(momentum**2)
    np.testing.assert_allclose(info.proposed_energy_error, change, atol=1e-12)


def test_energy_is_that_of_the_state_after_the_transition():
    """As ArviZ defines it: the energy of the start where the proposal was rejected."""
    made = transitions(hmc(potential, gradient, 1.2, 3, jnp.ones(2)), 60)
    accepted = np.array([info.is_accepted for _, info in made])
    errors = np.array([info.energy_error for _, info in made])
    proposed = np.array([info.proposed_energy_error for _, info in made])
    assert 0 < accepted.sum() < 60
    np.testing.assert_array_equal(errors[~accepted], 0.0)
    np.testing.assert_array_equal(errors[accepted], proposed[accepted])
    assert all(info.energy >= state.potential for state, info in made)
    assert np.isfinite([info.energy for _, info in made]).all()


def test_blackjax_can_drive_it():
    algorithm = hmc(potential, gradient, *TUNING)
    _, (states, infos) = run_inference_algorithm(
        jax.random.key(0), algorithm, num_steps=50, initial_position=jnp.zeros(2)
    )
    assert states.position.shape == (50, 2)
    assert 0.5 < infos.acceptance_rate.mean() <= 1


def test_state_carries_the_potential_of_its_position():
    for state, _ in transitions(hmc(potential, gradient, *TUNING), 20):
        np.testing.assert_allclose(state.potential, potential(state.position), rtol=1e-12)
        np.testing.assert_allclose(state.gradient, gradient(state.position), rtol=1e-12)


@pytest.mark.parametrize("bad", [jnp.nan, jnp.inf, -jnp.inf])
def test_non_finite_energy_is_a_counted_rejection(bad):
    def broken(q):
        return jnp.where(jnp.abs(q[0]) < 0.6, potential(q), bad)

    made = transitions(hmc(broken, gradient, 0.5, 10, jnp.ones(2)), 40)
    assert all(np.isfinite(state.potential) for state, _ in made)
    nonfinite = [info for _, info in made if info.is_nonfinite]
    assert nonfinite
    for info in nonfinite:
        assert not info.is_accepted
        assert info.is_divergent
        assert info.acceptance_rate == 0
        assert np.isfinite(info.energy)
        assert info.energy_error == 0


def test_non_finite_gradient_is_a_rejection():
    infos = transitions(hmc(potential, lambda q: q * jnp.nan, *TUNING), 5)
    assert all(not info.is_accepted and info.is_nonfinite for _, info in infos)


def test_divergence_is_counted_and_finite():
    (_, info), *_ = transitions(hmc(potential, gradient, 20.0, 3, jnp.ones(2)), 1)
    assert info.is_divergent
    assert not info.is_accepted


@pytest.mark.parametrize("algorithm", ["hmc", "true_gradient_hmc"])
def test_jitter_stays_in_its_range_and_fills_it(algorithm):
    length = ((0.1, 0.3), (2, 4), jnp.ones(2))
    if algorithm == "hmc":
        kernel = hmc(potential, gradient, *length)
    else:
        kernel = true_gradient_hmc(jax.value_and_grad(potential), *length)
    infos = [info for _, info in transitions(kernel, 60)]
    steps = {int(info.num_integration_steps) for info in infos}
    sizes = np.array([info.step_size for info in infos])
    assert steps == {2, 3, 4}
    assert 0.1 <= sizes.min() < 0.12
    assert 0.28 < sizes.max() <= 0.3


def test_recorded_path_has_a_row_for_the_start_and_each_step():
    kernel = true_gradient_hmc(
        jax.value_and_grad(potential), 0.1, (1, 4), jnp.ones(2), record_steps=4
    )
    before = None
    for state, info in transitions(kernel, 10):
        rows = 1 + int(info.num_integration_steps)
        walked = np.asarray(info.path.positions[:rows])
        np.testing.assert_allclose(info.path.potentials[:rows], [potential(q) for q in walked])
        np.testing.assert_allclose(info.path.gradients[:rows], [gradient(q) for q in walked])
        assert np.isnan(info.path.positions[rows:]).all()
        assert before is None or np.array_equal(walked[0], before)
        before = state.position
