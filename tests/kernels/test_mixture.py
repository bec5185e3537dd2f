"""Draws along the true gradient among those along a learned one: exact, and a way out."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from nnghmc.kernels import (
    LearnedGradientHMC,
    Mixture,
    SurrogateTransition,
    TrueGradientHMC,
    Tuning,
)
from nnghmc.kernels.mixture import COMPONENT
from support import KNOWN_TARGETS, assert_same_distribution, random_gradient

CHAINS = 40_000


def mixture(potential, gradient, probability, tuning, true_step=0.2):
    dim = len(tuning.inverse_mass_matrix)
    true_tuning = Tuning.checked(true_step, 3, None, dim)
    return Mixture(
        LearnedGradientHMC(potential, gradient, tuning),
        TrueGradientHMC(jax.value_and_grad(potential), true_tuning),
        probability,
    )


@eqx.filter_jit
def repeated(kernel, states, key, times):
    move = kernel.all_chains()

    def step(states, key):
        states, info = move(key, states)
        return states, kernel.statistics(info)

    return jax.lax.scan(step, states, jax.random.split(key, times))


def test_a_mixture_of_the_rare_kernel_alone_leaves_the_target_unchanged(known_target):
    """The suite over all kernels has one of both; here every state is entered and left again."""
    target, gradient = known_target, random_gradient(known_target)
    starts = jnp.asarray(target.exact_draws(CHAINS, seed=1))
    tuning = Tuning.checked(target.step_size, (1, target.num_steps), None, starts.shape[1])
    kernel = mixture(target.potential, gradient, 1.0, tuning, target.step_size)
    states = jax.vmap(kernel.init)(starts)
    ends, statistics = repeated(kernel, states, jax.random.key(2), 8)
    assert (np.asarray(statistics[COMPONENT]) == 1).all()
    assert (ends.position != starts).any(axis=1).mean() > 0.2
    assert_same_distribution(np.asarray(ends.position), target.exact_draws(40_000, seed=3))


def test_the_coin_is_one_for_all_chains():
    target = KNOWN_TARGETS["gaussian"]
    tuning = Tuning.checked(0.3, 2, None, 3)
    kernel = mixture(target.potential, jax.grad(target.potential), 0.3, tuning)
    states = jax.vmap(kernel.init)(jnp.zeros((5, 3)))
    by_true = np.asarray(repeated(kernel, states, jax.random.key(2), 40)[1][COMPONENT]) == 1
    assert (by_true == by_true[:, :1]).all()
    assert 4 <= by_true[:, 0].sum() <= 21  # 12 expected, within three standard deviations


def test_states_are_true_to_the_learned_kernel_after_every_draw():
    """The next learned draw starts with the gradient it would have, and the potential is true."""

    def potential(q):
        return 0.5 * jnp.sum(q**2)

    def gradient(q):
        return 1.3 * q - 0.2

    kernel = mixture(potential, gradient, 0.5, Tuning.checked(0.3, 4, None, 2))
    states = jax.vmap(kernel.init)(jnp.ones((3, 2)))
    components = set()
    for number in range(6):
        states, statistics = repeated(kernel, states, jax.random.key(number), 1)
        components |= set(np.asarray(statistics[COMPONENT]).ravel().tolist())
        np.testing.assert_allclose(states.gradient, jax.vmap(gradient)(states.position))
        np.testing.assert_allclose(states.potential, jax.vmap(potential)(states.position))
    assert components == {0, 1}


def test_a_gradient_learned_in_the_wrong_region_does_not_hold_the_chains():
    """Learned far to the left, where it leads away from the mass: only true draws lead back."""

    def potential(q):
        return 0.5 * jnp.sum(q**2)

    def gradient(q):
        return 40.0 * (q + 20.0)  # a narrow well at -20, nowhere near the mass

    starts = jnp.full((64, 2), -20.0)
    ends = {}
    for probability in (0.0, 0.05):
        kernel = mixture(potential, gradient, probability, Tuning.checked(0.1, (1, 5), None, 2))
        states = jax.vmap(kernel.init)(starts)
        ends[probability] = repeated(kernel, states, jax.random.key(0), 4000)[0].position
    assert np.abs(ends[0.0]).mean() > 15
    assert np.abs(ends[0.05]).max() < 5


def test_states_of_surrogate_transitions_are_true_after_draws_of_either_kernel():
    target = KNOWN_TARGETS["gaussian"]

    def surrogate(q):
        return jax.value_and_grad(lambda q: 0.4 * jnp.sum((q - 0.1) ** 2))(q)

    tuning = Tuning.checked(0.3, 1, None, 3)
    usual = SurrogateTransition(target.potential, surrogate, tuning)
    kernel = Mixture(usual, TrueGradientHMC(jax.value_and_grad(target.potential), tuning), 0.5)
    states = jax.vmap(kernel.init)(jnp.asarray(target.exact_draws(4, seed=0)))
    components = set()
    for number in range(8):
        states, statistics = repeated(kernel, states, jax.random.key(number), 1)
        components |= set(np.asarray(statistics[COMPONENT]).ravel().tolist())
        learned, gradients = jax.vmap(surrogate)(states.position)
        np.testing.assert_allclose(states.potential, jax.vmap(target.potential)(states.position))
        np.testing.assert_allclose(states.learned_potential, learned)
        np.testing.assert_allclose(states.gradient, gradients)
    assert components == {0, 1}
