"""Which Markov transition a method makes on a posterior, and what its draws cost."""

from collections.abc import Callable
from dataclasses import dataclass

import equinox as eqx

from nnghmc.chains import Algorithm
from nnghmc.cost import PhaseCost
from nnghmc.kernels import (
    hmc,
    metropolis_sghmc,
    naive_sghmc,
    sghmc,
    sgld,
    true_gradient_hmc,
)
from nnghmc.methods import METHODS, MiniBatches
from nnghmc.posterior import Posterior
from nnghmc.surrogates import Learned


@dataclass(frozen=True)
class Transition:
    """A kernel that waits for its tuning, and the cost of so many steps in so many draws."""

    algorithm: Algorithm
    cost: Callable[[int, int], PhaseCost]


def learned_transition(posterior: Posterior, learned: Learned) -> Transition:
    """HMC along a learned gradient: one true potential a draw."""
    return Transition(
        eqx.Partial(hmc, posterior.potential, learned.gradient),
        lambda steps, draws: PhaseCost(learned_gradients=steps, true_potentials=draws),
    )


def first_transition(posterior: Posterior, method: str, mini_batches: MiniBatches) -> Transition:
    """What a method begins with: NNgHMC with standard HMC, the others with what they are."""
    if METHODS[method].mini_batches:
        return _mini_batch_transition(posterior, method, mini_batches)
    return Transition(
        eqx.Partial(true_gradient_hmc, posterior.potential_and_gradient),
        lambda steps, draws: PhaseCost(true_gradients=steps),
    )


def _mini_batch_transition(posterior: Posterior, method: str, settings: MiniBatches) -> Transition:
    gradient = posterior.batch_gradient(settings.size)
    if method == "sgld":
        return Transition(eqx.Partial(sgld, gradient), _steps_alone)
    if method == "sghmc":
        friction = {"friction": settings.friction, "noise": settings.noise}
        return Transition(eqx.Partial(sghmc, gradient, **friction), _steps_alone)
    if method == "naive-sghmc":
        return Transition(
            eqx.Partial(naive_sghmc, gradient),
            lambda steps, draws: PhaseCost(batch_gradients=steps + draws),
        )
    return Transition(
        eqx.Partial(metropolis_sghmc, posterior.potential, gradient),
        lambda steps, draws: PhaseCost(batch_gradients=steps + draws, true_potentials=draws),
    )


def _steps_alone(steps: int, draws: int) -> PhaseCost:
    return PhaseCost(batch_gradients=steps)
