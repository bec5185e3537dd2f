"""Estimates whether learning pays, by timing potential, gradient and learned step on this machine.

A draw of NUTS takes many true gradients. A draw along a learned gradient takes one true potential
and some learned steps. Learning itself also takes time: compiling, gradients to learn from, and the
fit. The estimate compares the two before any of this time is spent.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from nnghmc.engine.chunks import evaluate_all
from nnghmc.engine.events import Event
from nnghmc.methods.policy import Policy
from nnghmc.model.posterior import Posterior
from nnghmc.platform.codec import storable
from nnghmc.platform.operations import count_operations
from nnghmc.platform.precision import position_dtype
from nnghmc.platform.text import in_words
from nnghmc.surrogates.models.potential_net import NetworkPotential
from nnghmc.surrogates.parts.layers import Layers

STEPS_TIMED = 50
"""Number of learned steps that are timed together."""
WIDTH = 256
"""Number of hidden units of the network whose steps are timed."""
LEAST_SECONDS_OF_TIMING, MOST_SECONDS_OF_TIMING = 0.1, 1.0
"""Bounds on the time spent on timing one function."""

Clock = Callable[[], float]
"""Returns the time in seconds."""


@storable
@dataclass(frozen=True)
class Estimate(Event):
    """The expected times of a run, by NUTS and with a learned gradient.

    Attributes:
        chains: number of chains, advanced together.
        draws: number of draws to keep per chain.
        gradient_seconds: seconds of one true gradient of all chains.
        nuts_seconds: seconds of a whole run by NUTS.
        learned_seconds: seconds of a whole run that learns; infinite if that cannot pay.
        flops: floating-point operations of one gradient of all chains; NaN if not counted.
        potential_seconds: seconds of one true potential of all chains; NaN if not measured.
        learned_step_seconds: seconds of one learned step of all chains; NaN if not measured.
    """

    chains: int
    draws: int
    gradient_seconds: float
    nuts_seconds: float
    learned_seconds: float
    flops: float = float("nan")
    potential_seconds: float = float("nan")
    learned_step_seconds: float = float("nan")

    @property
    def pays(self) -> bool:
        """Whether a run that learns is expected to be clearly faster than NUTS."""
        return self.pays_by(Policy.least_gain)

    def pays_by(self, factor: float) -> bool:
        """Return whether NUTS is expected to take longer than learning by more than a factor."""
        return factor * self.learned_seconds < self.nuts_seconds

    def __str__(self) -> str:
        choice = "learning the gradient pays" if self.pays else "NUTS is the faster way"
        gradient, nuts = in_words(self.gradient_seconds), in_words(self.nuts_seconds)
        if np.isinf(self.learned_seconds):
            return (
                f"a gradient of all {self.chains} chains takes {gradient}, and {self.draws:,} "
                f"draws per chain take about {nuts} by NUTS, less than learning alone: {choice}"
            )
        return (
            f"for all {self.chains} chains together a gradient takes {gradient}, a potential "
            f"{in_words(self.potential_seconds)}, a learned step "
            f"{in_words(self.learned_step_seconds)}; {self.draws:,} draws per chain take about "
            f"{nuts} by NUTS and {in_words(self.learned_seconds)} by learning: {choice}"
        )


def estimate_run(
    posterior: Posterior,
    positions: Array,
    draws: int,
    policy: Policy,
    *,
    thorough: bool = True,
    clock: Clock = time.perf_counter,
) -> Estimate:
    """Time the posterior at the positions of all chains, and return the expected times of a run.

    Without `thorough`, timing stops early if a gradient is so cheap that learning cannot pay, and
    `learned_seconds` is infinite.
    """
    call = _timed(lambda q: q[0], positions, clock)  # the overhead of any call
    gradient = max(0.0, _timed(posterior.potential_and_gradient, positions, clock) - call)
    flops = count_operations(jax.vmap(posterior.potential_and_gradient), positions)
    gradients = (policy.nuts_warmup + draws) * policy.gradients_per_nuts_draw
    nuts = policy.nuts_seconds + gradients * gradient
    if nuts < policy.learning_seconds and not thorough:
        return Estimate(len(positions), draws, gradient, nuts, np.inf, flops)
    potential = max(0.0, _timed(posterior.potential, positions, clock) - call)
    learned_step = _timed(_Untrained.of(posterior.dim).steps, positions, clock) / STEPS_TIMED
    learned = policy.learning_seconds + policy.gradients_to_learn * gradient
    learned += draws * (potential + policy.learned_steps_per_draw * learned_step)
    return Estimate(len(positions), draws, gradient, nuts, learned, flops, potential, learned_step)


class _Untrained(eqx.Module):
    """An untrained network of the default size, which takes as long as a trained one."""

    network: NetworkPotential

    @classmethod
    def of(cls, dim: int) -> "_Untrained":
        """Return a network for positions with `dim` dimensions."""
        ones = partial(np.ones, dtype=position_dtype())
        weights = (jnp.asarray(ones((WIDTH, dim)) / dim), jnp.asarray(ones((1, WIDTH)) / WIDTH))
        biases = (jnp.asarray(ones(WIDTH)), jnp.asarray(ones(1)))
        centre = jnp.asarray(0 * ones(dim))
        return cls(NetworkPotential(centre, Layers(weights, biases, "silu")))

    def steps(self, position: Array) -> Array:
        """Follow the gradient of the network for `STEPS_TIMED` steps."""

        def step(_: Array, position: Array) -> Array:
            return position - 1e-3 * self.network.gradient(position)

        return jax.lax.fori_loop(0, STEPS_TIMED, step, position)


def _timed(function: Callable[[Array], Any], positions: Array, clock: Clock) -> float:
    """Return the seconds of one evaluation for all chains, without compilation.

    It is the minimum of several timings, because other programs on the machine only add time.
    """

    def once() -> float:
        started = clock()
        jax.block_until_ready(evaluate_all(function, positions, quick=True))
        return clock() - started

    once()
    seconds = [once()]
    while sum(seconds) < MOST_SECONDS_OF_TIMING and (
        len(seconds) < 3 or (sum(seconds) < LEAST_SECONDS_OF_TIMING and len(seconds) < 50)
    ):
        seconds.append(once())
    return min(seconds)
