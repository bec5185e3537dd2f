"""Run MAMS of BlackJAX: Metropolis-adjusted microcanonical trajectories of random length.

Each chain adapts on its own, in one of two ways. BlackJAX's own tuning takes two steps for a
trajectory on average. The other way is that of the authors' comparisons: NUTS finds the diagonal
mass matrix, and autocorrelations the length of the trajectories.
"""

import blackjax
import equinox as eqx
import jax
import jax.numpy as jnp
from blackjax.adaptation.adjusted_mclmc_adaptation import (
    adjusted_mclmc_find_L_and_step_size,
    adjusted_mclmc_make_adaptation_L,
    adjusted_mclmc_make_L_step_size_adaptation,
)
from blackjax.adaptation.mclmc_adaptation import MCLMCAdaptationState
from blackjax.mcmc.adjusted_mclmc_dynamic import make_random_trajectory_length_fn

ACCEPTANCE = 0.9
"""Target acceptance rate that the authors of MAMS recommend."""
LENGTH_FACTOR = 0.3
"""Length of a trajectory, in units of the distance over which draws decorrelate."""
MASS_MATRIX, FIRST_STEP, LENGTH, STEP, ROUNDS = 0.4, 0.2, 0.1, 0.1, 2
"""Fractions of the warm-up; the last two stages are repeated in each round."""
WINDOWS, OF_STEP, OF_MASS_MATRIX = 2, 0.3, 0.4
"""Windows of BlackJAX's own tuning, and the fractions of warm-up of its stages. The first stage is
run twice."""
GRADIENTS_PER_STEP = 2
"""Gradients that a step of the McLachlan integrator takes."""

kernel = blackjax.adjusted_mclmc_dynamic.build_kernel(make_random_trajectory_length_fn(True))


def mass_matrix(log_density, position, key, warmup):
    """Return the last position of NUTS, its inverse mass matrix, step size and gradients."""
    adaptation = blackjax.window_adaptation(blackjax.nuts, log_density)
    (state, parameters), found = adaptation.run(key, position, warmup)
    steps = found.info.num_integration_steps.sum()
    return state.position, parameters["inverse_mass_matrix"], parameters["step_size"], steps


def step_size_stage(log_density, dim, warmup, fraction):
    return adjusted_mclmc_make_L_step_size_adaptation(
        kernel, log_density, dim, fraction, 0.0, ACCEPTANCE, True, fix_L_first_da=True
    )


def adapt_after_nuts(log_density, position, key, warmup):
    """Return the state and parameters after warm-up, and its gradients."""
    keys = jax.random.split(key, 3 + 2 * ROUNDS)
    nuts_draws = int(MASS_MATRIX * warmup)
    position, inverse, pace, gradients = mass_matrix(log_density, position, keys[0], nuts_draws)
    state = blackjax.adjusted_mclmc_dynamic.init(position, log_density, keys[1])
    length = jnp.sqrt(1.0 * position.size)
    # Velocities of MAMS have norm one, those of NUTS about the root of the dimension.
    parameters = MCLMCAdaptationState(length, length * jnp.minimum(pace, 0.5), inverse)
    first = step_size_stage(log_density, position.size, warmup, FIRST_STEP)
    state, parameters, _, steps = first(state, parameters, warmup, keys[2])
    for one, two in keys[3:].reshape(ROUNDS, 2):
        lengthen = adjusted_mclmc_make_adaptation_L(kernel, log_density, LENGTH, LENGTH_FACTOR)
        state, parameters, more = lengthen(state, parameters, warmup, one)
        again = step_size_stage(log_density, position.size, warmup, STEP)
        state, parameters, _, even_more = again(state, parameters, warmup, two)
        steps += more + even_more
    return state, parameters, gradients + GRADIENTS_PER_STEP * steps


def adapt_by_blackjax(log_density, position, key, warmup):
    """Return the same from BlackJAX's own tuning."""
    first_key, key = jax.random.split(key)
    state = blackjax.adjusted_mclmc_dynamic.init(position, log_density, first_key)
    state, parameters, steps = adjusted_mclmc_find_L_and_step_size(
        kernel,
        log_density,
        warmup,
        state,
        key,
        ACCEPTANCE,
        frac_tune1=OF_STEP,
        frac_tune2=OF_MASS_MATRIX,
        num_windows=WINDOWS,
    )
    return state, parameters, GRADIENTS_PER_STEP * steps


@eqx.filter_jit
def chains_by_mams(potential, starts, keys, warmup, draws, adapt=adapt_by_blackjax):
    """Return draws (chains, draws, dim), and the gradients of warm-up and of kept draws."""

    def log_density(q):
        return -potential(q)

    def one(position, key):
        warmup_key, key = jax.random.split(key)
        state, parameters, before = adapt(log_density, position, warmup_key, warmup)

        def step(state, key):
            state, info = kernel(
                key,
                state,
                log_density,
                parameters.step_size,
                inverse_mass_matrix=parameters.inverse_mass_matrix,
                integration_steps_params=(parameters.L / parameters.step_size,),
            )
            return state, (state.position, info.num_integration_steps)

        made, steps = jax.lax.scan(step, state, jax.random.split(key, draws))[1]
        return made, (before, GRADIENTS_PER_STEP * steps.sum())

    made, spent = jax.vmap(one)(starts, keys)
    return made, tuple(part.sum() for part in spent)
