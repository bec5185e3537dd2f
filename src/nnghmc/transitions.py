"""Which Markov transition a method makes on a posterior, and what its draws cost."""

from collections.abc import Callable
from dataclasses import dataclass

import equinox as eqx
import jax.numpy as jnp

from nnghmc.chains import History, Insured, Move, each_chain
from nnghmc.cost import PhaseCost
from nnghmc.kernels import (
    Tuning,
    hmc,
    metropolis_sghmc,
    naive_sghmc,
    nuts,
    probing_hmc,
    sghmc,
    sgld,
    true_gradient_hmc,
)
from nnghmc.methods import METHODS, MiniBatches
from nnghmc.posterior import Posterior
from nnghmc.surrogates import Learned


@dataclass(frozen=True)
class Transition:
    """What all chains do in a draw, and what the draws of a history cost."""

    move: Move
    cost: Callable[[History], PhaseCost]


def learned_transition(posterior: Posterior, learned: Learned) -> Transition:
    """HMC along a learned gradient: one true potential a draw."""
    return Transition(
        each_chain(eqx.Partial(hmc, posterior.potential, learned.gradient)),
        lambda made: PhaseCost(learned_gradients=made.leapfrog_steps, true_potentials=made.size),
    )


def insured_transition(
    posterior: Posterior, learned: Learned, probability: float, true_tuning: Tuning
) -> Transition:
    """HMC along a learned gradient, and now and then along the true one."""

    def cost(made: History) -> PhaseCost:
        if not made.length:
            return PhaseCost()
        insurance = made.stat("insurance")
        true_steps = int(made.stat("n_steps")[insurance].sum())
        return PhaseCost(
            learned_gradients=made.leapfrog_steps - true_steps + int(insurance.sum()),
            true_gradients=true_steps + int(insurance.sum()),
            true_potentials=int((~insurance).sum()),
        )

    move = Insured(
        learned_transition(posterior, learned).move,
        learned.gradient,
        true_transition(posterior).move,
        posterior.potential_and_gradient,
        jnp.asarray(probability, float),
        true_tuning,
    )
    return Transition(move, cost)


def probing_transition(posterior: Posterior, learned: Learned) -> Transition:
    """HMC along a learned gradient that evaluates the true one at every proposal."""
    algorithm = eqx.Partial(probing_hmc, posterior.potential_and_gradient, learned.gradient)
    return Transition(
        each_chain(algorithm),
        lambda made: PhaseCost(learned_gradients=made.leapfrog_steps, true_gradients=made.size),
    )


def nuts_transition(posterior: Posterior) -> Transition:
    """NUTS along the true gradient."""
    return Transition(
        each_chain(eqx.Partial(nuts, posterior.potential_and_gradient)),
        lambda made: PhaseCost(true_gradients=made.leapfrog_steps),
    )


def true_transition(posterior: Posterior) -> Transition:
    """Standard HMC."""
    return Transition(
        each_chain(eqx.Partial(true_gradient_hmc, posterior.potential_and_gradient)),
        lambda made: PhaseCost(true_gradients=made.leapfrog_steps),
    )


def first_transition(posterior: Posterior, method: str, mini_batches: MiniBatches) -> Transition:
    """What a method begins with: NNgHMC with standard HMC, the others with what they are."""
    if METHODS[method].mini_batches:
        return _mini_batch_transition(posterior, method, mini_batches)
    return true_transition(posterior)


def _mini_batch_transition(posterior: Posterior, method: str, settings: MiniBatches) -> Transition:
    gradient = posterior.batch_gradient(settings.size)
    if method == "sgld":
        return Transition(each_chain(eqx.Partial(sgld, gradient)), _steps_alone)
    if method == "sghmc":
        friction = {"friction": settings.friction, "noise": settings.noise}
        return Transition(each_chain(eqx.Partial(sghmc, gradient, **friction)), _steps_alone)
    if method == "naive-sghmc":
        return Transition(
            each_chain(eqx.Partial(naive_sghmc, gradient)),
            lambda made: PhaseCost(batch_gradients=made.leapfrog_steps + made.size),
        )
    return Transition(
        each_chain(eqx.Partial(metropolis_sghmc, posterior.potential, gradient)),
        lambda made: PhaseCost(
            batch_gradients=made.leapfrog_steps + made.size, true_potentials=made.size
        ),
    )


def _steps_alone(made: History) -> PhaseCost:
    return PhaseCost(batch_gradients=made.leapfrog_steps)
