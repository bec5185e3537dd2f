"""Will it pay? The true potential, its gradient and a learned step, timed on this machine.

What a draw takes by NUTS is the gradient many times over; by a learned gradient it is the potential
once, and learned steps. Against that stands what learning takes: compiling, gradients to learn
from, the fit. The estimate compares the two before anything is spent on either.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from nnghmc.chains import evaluate_all
from nnghmc.posterior import Posterior
from nnghmc.precision import position_dtype
from nnghmc.surrogates.layers import Layers
from nnghmc.surrogates.potential_net import NetworkPotential

GRADIENTS_A_NUTS_DRAW = 25
"""Of chains that advance together, and so wait for the longest trajectory among them."""
NUTS_WARMUP = 300
NUTS_SECONDS = 3.0
"""To compile NUTS."""

ROUNDS_OF_GRADIENTS = 350
"""To find the bulk and to learn: evaluations of all chains together."""
LEARNING_SECONDS = 9.0
"""To compile everything that learning takes, and to fit."""
AT_STAKE = 0.15
"""Of the time that NUTS would take: so much may be lost to learning that fails."""
ATTEMPT_SECONDS = 4.2
"""What is lost to an attempt at learning that may fail or not."""
LIKELY_FAILURE_SECONDS = 12.0
"""The same where it will hardly succeed: then all of it is lost, and NUTS is often quicker than was
estimated."""
REFIT_SECONDS = 3.0
LEARNED_STEPS_A_DRAW = 20
STEPS_TIMED = 50
WIDTH = 256
LEAST_SECONDS_OF_TIMING, MOST_SECONDS_OF_TIMING = 0.1, 1.0


@dataclass(frozen=True)
class Timings:
    """Seconds for all chains together; NaN where not measured."""

    gradient: float
    potential: float = float("nan")
    learned_step: float = float("nan")


@dataclass(frozen=True)
class Estimate:
    """What a run is expected to take, by NUTS and by a learned gradient.

    Attributes:
        chains: the chains, advanced together.
        draws: the draws to keep in each.
        timings: what was measured.
        nuts_seconds: a whole run by NUTS.
        flops: what XLA counts of a gradient of all chains.
        learned_seconds: a whole run that learns the gradient; infinite where that cannot pay.
    """

    chains: int
    draws: int
    timings: Timings
    nuts_seconds: float
    learned_seconds: float
    flops: float = 0.0

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> "Estimate":
        """An estimate from what `dataclasses.asdict` made of it."""
        return cls(**{**values, "timings": Timings(**values["timings"])})

    @property
    def pays(self) -> bool:
        """Whether learning the gradient is expected to be the faster way."""
        return self.learned_seconds < self.nuts_seconds

    @property
    def can_afford_to_fail(self) -> bool:
        """Whether an attempt at learning is little time beside what NUTS would take."""
        return AT_STAKE * self.nuts_seconds >= ATTEMPT_SECONDS

    @property
    def can_afford_a_likely_failure(self) -> bool:
        """The same of an attempt that will hardly succeed."""
        return AT_STAKE * self.nuts_seconds >= LIKELY_FAILURE_SECONDS

    @property
    def affordable_refits(self) -> int:
        """How often learning may be tried again before NUTS is the better use of the time."""
        left = AT_STAKE * self.nuts_seconds - ATTEMPT_SECONDS
        return max(0, int(left / REFIT_SECONDS))

    def __str__(self) -> str:
        choice = "learning the gradient pays" if self.pays else "NUTS is the faster way"
        if np.isinf(self.learned_seconds):
            return (
                f"for {self.chains} chains together a gradient takes "
                f"{in_words(self.timings.gradient)}, and {self.draws:,} draws a chain about "
                f"{in_words(self.nuts_seconds)} by NUTS, less than learning alone: {choice}"
            )
        return (
            f"for {self.chains} chains together a gradient takes "
            f"{in_words(self.timings.gradient)}, a potential {in_words(self.timings.potential)}, a "
            f"learned step {in_words(self.timings.learned_step)}; {self.draws:,} draws a chain: "
            f"about {in_words(self.nuts_seconds)} by NUTS, {in_words(self.learned_seconds)} by "
            f"learning: {choice}"
        )


def in_words(seconds: float) -> str:
    """Some two digits and a unit."""
    if seconds >= 100:
        return f"{seconds / 60:.0f} min"
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        number = seconds / size
        if number >= 1:
            return f"{number:.0f} {unit}" if number >= 10 else f"{number:.2g} {unit}"
    return "next to no time"


def estimate_run(
    posterior: Posterior, positions: Array, draws: int, *, thorough: bool = True
) -> Estimate:
    """Time the posterior at these positions of all chains, and say what draws will take.

    Unless it is to be `thorough`, a gradient so cheap that learning cannot pay ends it.
    """
    call = _timed(lambda q: q[0], positions)  # what any call takes, however little it does
    gradient = max(0.0, _timed(posterior.potential_and_gradient, positions) - call)
    flops = _flops(posterior.potential_and_gradient, positions)
    nuts = NUTS_SECONDS + (NUTS_WARMUP + draws) * GRADIENTS_A_NUTS_DRAW * gradient
    if nuts < LEARNING_SECONDS and not thorough:
        return Estimate(len(positions), draws, Timings(gradient), nuts, np.inf, flops)
    potential = max(0.0, _timed(posterior.potential, positions) - call)
    learned_step = _timed(_Untrained.of(posterior.dim).steps, positions) / STEPS_TIMED
    timings = Timings(gradient, potential, learned_step)
    learned = LEARNING_SECONDS + ROUNDS_OF_GRADIENTS * gradient
    learned += draws * (potential + LEARNED_STEPS_A_DRAW * learned_step)
    return Estimate(len(positions), draws, timings, nuts, learned, flops)


class _Untrained(eqx.Module):
    """A network of the default's size with any weights: it takes as long as another."""

    network: NetworkPotential

    @classmethod
    def of(cls, dim: int) -> "_Untrained":
        ones = partial(np.ones, dtype=position_dtype())
        weights = (jnp.asarray(ones((WIDTH, dim)) / dim), jnp.asarray(ones((1, WIDTH)) / WIDTH))
        biases = (jnp.asarray(ones(WIDTH)), jnp.asarray(ones(1)))
        centre = jnp.asarray(0 * ones(dim))
        return cls(NetworkPotential(centre, Layers(weights, biases, "silu")))

    def steps(self, position: Array) -> Array:
        """Some steps along it, one after the other."""

        def step(_: Array, position: Array) -> Array:
            return position - 1e-3 * self.network.gradient(position)

        return jax.lax.fori_loop(0, STEPS_TIMED, step, position)


def _flops(function: Callable[[Array], Any], positions: Array) -> float:
    """Floating-point operations, of which loops count one turn."""
    arrays, rest = eqx.partition(function, eqx.is_array)

    def of_all(arrays: Any, positions: Array) -> Any:
        return jax.vmap(eqx.combine(arrays, rest))(positions)

    counted = jax.jit(of_all).lower(arrays, positions).cost_analysis()
    return float((counted or {}).get("flops", 0.0))


def _timed(function: Callable[[Array], Any], positions: Array) -> float:
    """Seconds of an evaluation for all chains, compiled before, undisturbed by other programs."""

    def once() -> float:
        started = time.perf_counter()
        jax.block_until_ready(evaluate_all(function, positions, quick=True))
        return time.perf_counter() - started

    once()
    seconds = [once()]
    while sum(seconds) < MOST_SECONDS_OF_TIMING and (
        len(seconds) < 3 or (sum(seconds) < LEAST_SECONDS_OF_TIMING and len(seconds) < 50)
    ):
        seconds.append(once())
    return min(seconds)
