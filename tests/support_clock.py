"""A clock that only the evaluations of a posterior move on."""

import jax
import jax.numpy as jnp
import numpy as np

from nnghmc import from_log_density


class Clock:
    """Tells seconds that nobody but the test decides."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def timed_posterior(clock, potential_seconds, gradient_seconds, initial=None):
    """A standard normal whose evaluations take, by this clock, so long for each chain."""

    def spend(seconds, position):
        def on_host(_):
            clock.now += seconds
            return np.zeros(())

        return jax.pure_callback(
            on_host, jax.ShapeDtypeStruct((), position.dtype), position, vmap_method="sequential"
        )

    @jax.custom_vjp
    def log_density(q):
        return -0.5 * jnp.sum(q**2) + spend(potential_seconds, q)

    def forward(q):
        return -0.5 * jnp.sum(q**2) + spend(gradient_seconds, q), q

    log_density.defvjp(forward, lambda q, slope: (-slope * q,))
    return from_log_density(log_density, np.zeros(3) if initial is None else initial)
