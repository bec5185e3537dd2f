"""Draws along the true gradient among those along a learned one: exact, and a way out."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from blackjax.mcmc.metrics import default_metric

from nnghmc.chains import Insured, each_chain
from nnghmc.kernels import HMCState, Tuning, hmc, true_gradient_hmc
from support import assert_same_distribution

CHAINS = 40_000


def insured_move(potential, gradient, probability, dim, true_step=0.2):
    both = jax.value_and_grad(potential)
    true_tuning = Tuning.checked(true_step, 3, None, dim)
    return Insured(
        each_chain(eqx.Partial(hmc, potential, gradient)),
        gradient,
        each_chain(eqx.Partial(true_gradient_hmc, both)),
        both,
        jnp.asarray(probability),
        true_tuning,
    )


@eqx.filter_jit
def repeated(move, states, tuning, key, times):
    metric = default_metric(tuning.inverse_mass_matrix)

    def step(states, key):
        return move(key, states, tuning, metric)

    return jax.lax.scan(step, states, jax.random.split(key, times))


def first_states(potential, gradient, positions):
    return HMCState(positions, jax.vmap(potential)(positions), jax.vmap(gradient)(positions))


@pytest.mark.parametrize("probability", [0.3, 1.0])
def test_target_is_unchanged(target_and_gradient, probability):
    target, gradient = target_and_gradient
    starts = jnp.asarray(target.exact_draws(CHAINS, seed=1))
    dim = starts.shape[1]
    tuning = Tuning.checked(target.step_size, (1, target.num_steps), None, dim)
    move = insured_move(target.potential, gradient, probability, dim, target.step_size)
    states = first_states(target.potential, gradient, starts)
    ends, info = repeated(move, states, tuning, jax.random.key(2), 8)
    by_true = np.asarray(info.is_insurance)
    assert (by_true == by_true[:, :1]).all()  # the coin is one for all chains
    assert by_true.all() if probability == 1 else 0 < by_true[:, 0].sum() < 8
    assert (ends.position != starts).any(axis=1).mean() > 0.2
    assert_same_distribution(np.asarray(ends.position), target.exact_draws(40_000, seed=3))


def test_states_are_true_to_the_learned_kernel_after_every_draw():
    """The next learned draw starts with the gradient it would have, and the potential is true."""

    def potential(q):
        return 0.5 * jnp.sum(q**2)

    def gradient(q):
        return 1.3 * q - 0.2

    move = insured_move(potential, gradient, 0.5, 2)
    states = first_states(potential, gradient, jnp.ones((3, 2)))
    tuning = Tuning.checked(0.3, 4, None, 2)
    for number in range(6):
        states, _ = repeated(move, states, tuning, jax.random.key(number), 1)
        np.testing.assert_allclose(states.gradient, jax.vmap(gradient)(states.position))
        np.testing.assert_allclose(states.potential, jax.vmap(potential)(states.position))


def test_a_gradient_learned_in_the_wrong_region_does_not_hold_the_chains():
    """Learned far to the left, where it leads away from the bulk: only insurance leads back."""

    def potential(q):
        return 0.5 * jnp.sum(q**2)

    def gradient(q):
        return 40.0 * (q + 20.0)  # a narrow well at -20, nowhere near the bulk

    starts = jnp.full((64, 2), -20.0)
    tuning = Tuning.checked(0.1, (1, 5), None, 2)
    ends = {}
    for probability in (0.0, 0.05):
        move = insured_move(potential, gradient, probability, 2)
        states = first_states(potential, gradient, starts)
        ends[probability] = repeated(move, states, tuning, jax.random.key(0), 4000)[0].position
    assert np.abs(ends[0.0]).mean() > 15
    assert np.abs(ends[0.05]).max() < 5
