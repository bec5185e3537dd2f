"""Run BlackJAX's NUTS with window adaptation as its users do: each chain adapts on its own."""

import blackjax
import equinox as eqx
import jax


@eqx.filter_jit
def chains_by_nuts(potential, starts, keys, warmup, draws, acceptance=0.8, diagonal=True):
    """Return draws (chains, draws, dim), and the gradients of warm-up and of kept draws."""

    def log_density(q):
        return -potential(q)

    adaptation = blackjax.window_adaptation(
        blackjax.nuts,
        log_density,
        is_mass_matrix_diagonal=diagonal,
        target_acceptance_rate=acceptance,
    )

    def one(position, key):
        warmup_key, key = jax.random.split(key)
        (state, parameters), found = adaptation.run(warmup_key, position, warmup)
        kernel = blackjax.nuts(log_density, **parameters)

        def step(state, key):
            state, info = kernel.step(key, state)
            return state, (state.position, info.num_integration_steps)

        made, steps = jax.lax.scan(step, state, jax.random.split(key, draws))[1]
        return made, (found.info.num_integration_steps.sum(), steps.sum())

    made, spent = jax.vmap(one)(starts, keys)
    return made, tuple(part.sum() for part in spent)
