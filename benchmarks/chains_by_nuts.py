"""Run BlackJAX's NUTS as its users do: each chain adapts its step size and mass matrix on its own.

The mass matrix is that of window adaptation, or a diagonal with a correction of low rank.
"""

import blackjax
import equinox as eqx
import jax
import numpy as np
from blackjax.adaptation.base import AdaptationInfo
from blackjax.adaptation.low_rank_adaptation import (
    build_growing_window_schedule,
    window_adaptation_low_rank,
)

MASS_MATRIX_EVERY, PARAMETERS_PER_DRAW = 10, 20
"""Draws of warm-up between updates of a mass matrix of low rank. An update takes long where there
are many parameters: there are more draws then, one for this many parameters."""


@eqx.filter_jit
def chains_by_nuts(potential, starts, keys, warmup, draws, acceptance=0.8, diagonal=True):
    """Return draws (chains, draws, dim), and the gradients of warm-up and of kept draws."""

    def adapt(log_density, position, key):
        adaptation = blackjax.window_adaptation(
            blackjax.nuts,
            log_density,
            is_mass_matrix_diagonal=diagonal,
            target_acceptance_rate=acceptance,
        )
        (state, parameters), found = adaptation.run(key, position, warmup)
        return state, parameters, found.info.num_integration_steps.sum()

    return _chains(potential, starts, keys, draws, adapt)


@eqx.filter_jit
def chains_by_low_rank_nuts(potential, starts, keys, warmup, draws):
    """Return the same from a mass matrix of low rank, adapted by draws and gradients."""

    def adapt(log_density, position, key):
        adaptation = window_adaptation_low_rank(
            blackjax.nuts,
            log_density,
            gradient_based_init=True,
            schedule_fn=_schedule,
            buffer_policy="accumulating",
            recompute_every=max(MASS_MATRIX_EVERY, position.size // PARAMETERS_PER_DRAW),
            adaptation_info_fn=_little_information,
        )
        (_, parameters), found = adaptation.run(key, position, warmup)
        last = jax.tree.map(lambda of_steps: of_steps[-1], found.state)
        return last, parameters, found.info.sum()

    return _chains(potential, starts, keys, draws, adapt)


def _schedule(warmup):
    """Return the windows that BlackJAX takes from nutpie; their sizes must be known to compile."""
    with jax.ensure_compile_time_eval():
        return np.asarray(build_growing_window_schedule(warmup))


def _little_information(state, info, adaptation):
    """Return the state, the gradients, and the centre, which BlackJAX asks for."""
    emptied = dict.fromkeys(adaptation._fields)
    centre = adaptation._replace(**emptied | {"mu_star": adaptation.mu_star})
    return AdaptationInfo(state, info.num_integration_steps, centre)


def _chains(potential, starts, keys, draws, adapt):
    def log_density(q):
        return -potential(q)

    def one(position, key):
        warmup_key, key = jax.random.split(key)
        state, parameters, before = adapt(log_density, position, warmup_key)
        kernel = blackjax.nuts(log_density, **parameters)

        def step(state, key):
            state, info = kernel.step(key, state)
            return state, (state.position, info.num_integration_steps)

        made, steps = jax.lax.scan(step, state, jax.random.split(key, draws))[1]
        return made, (before, steps.sum())

    made, spent = jax.vmap(one)(starts, keys)
    return made, tuple(part.sum() for part in spent)
