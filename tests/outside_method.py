"""A method from outside: Metropolis-adjusted Langevin, written against the public names alone."""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

import nnghmc


class State(NamedTuple):
    position: Any
    potential: Any
    gradient: Any


class Langevin(nnghmc.Kernel):
    potential_and_gradient: Any
    step_size: Any

    def init(self, position, potential=None):
        return State(position, *self.potential_and_gradient(position))

    def step(self, key, state):
        noise_key, accept_key = jax.random.split(key)
        drift = state.position - self.step_size * state.gradient
        noise = jnp.sqrt(2 * self.step_size) * jax.random.normal(noise_key, state.position.shape)
        new = self.init(drift + noise)
        back = state.position - new.position + self.step_size * new.gradient
        log_ratio = state.potential - new.potential
        log_ratio += (noise @ noise - back @ back) / (4 * self.step_size)
        rate = jnp.where(jnp.isfinite(log_ratio), jnp.minimum(1.0, jnp.exp(log_ratio)), 0.0)
        accepted = jax.random.uniform(accept_key) < rate
        return jax.tree.map(lambda a, b: jnp.where(accepted, a, b), new, state), (rate, accepted)

    def statistics(self, info):
        return dict(zip(("acceptance_rate", "accepted"), info, strict=True))

    def evaluations(self, statistics):
        return nnghmc.Evaluations(true_gradients=statistics["accepted"].size)


@dataclass(frozen=True)
class MALA(nnghmc.Method):
    title: ClassVar[str] = "MALA"
    step_size: float = 0.1
    warmup: int = 50

    def kernel(self, posterior, parts):
        return Langevin(posterior.potential_and_gradient, jnp.asarray(self.step_size))

    def prepare(self, posterior, starts, session):
        kernel = self.kernel(posterior, {})
        states = session.begin(kernel, starts.spread(session).position)
        states, _ = session.advance("warmup", kernel, states, self.warmup)
        return nnghmc.Prepared(states)
