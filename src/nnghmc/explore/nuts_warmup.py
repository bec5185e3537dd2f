"""Warms up NUTS: all chains together set the step size and the mass matrix."""

from dataclasses import dataclass

import numpy as np

from nnghmc.engine.history import History
from nnghmc.engine.session import Session
from nnghmc.engine.statistics import split_rhat
from nnghmc.explore.adaptation import Adaptation, as_tuning
from nnghmc.kernels import HMCState, NoUTurn, Tuning
from nnghmc.model.posterior import PotentialAndGradientFn

ROUNDS = (5, 5, 5, 5, 10, 10, 10, 10, 20, 20, 20, 20, 40, 40, 40, 40)
"""Draws per chain of each round."""
ROUNDS_IN_TYPICAL_SET = (10, 10, 20, 20, 40)
"""Draws per chain of each round, for chains that start in the typical set."""
FURTHER_ROUNDS = (50,) * 6
"""Draws per chain of each round that follows while the chains disagree."""
CHAINS_TO_POOL = 4
"""Number of chains below which rounds are longer, so that each has about as many draws in all."""
LARGEST_RHAT = 1.05
"""R-hat below which the warm-up may end."""


@dataclass
class NutsWarmup:
    """The states of the chains, the adapted tuning, and the draws of all rounds."""

    states: HMCState
    adaptation: Adaptation
    histories: list[History]

    @property
    def tuning(self) -> Tuning:
        """The tuning for the next round; NUTS chooses the number of steps itself."""
        matrix = self.adaptation.inverse_mass_matrix
        return as_tuning(self.adaptation.step_size, (1, 1), matrix)

    @property
    def later_draws(self) -> np.ndarray:
        """Draws of the later half of the rounds, shape (chains, draws, dim)."""
        later = self.histories[len(self.histories) // 2 :]
        return np.concatenate([history.draws for history in later], axis=1)

    @property
    def converged(self) -> bool:
        """Whether split R-hat is small for all coordinates."""
        return bool(split_rhat(self.later_draws).max() < LARGEST_RHAT)


def warm_up_nuts(
    session: Session,
    potential_and_gradient: PotentialAndGradientFn,
    states: HMCState,
    adaptation: Adaptation,
    *,
    in_typical_set: bool = False,
    quick: bool,
) -> NutsWarmup:
    """Make rounds of NUTS, and adapt step size and mass matrix after each of them."""
    warmup = NutsWarmup(states, adaptation, [])
    longer = -(-CHAINS_TO_POOL // len(states.position))
    rounds = ROUNDS_IN_TYPICAL_SET if in_typical_set else ROUNDS
    session.reporter.begin("warmup", longer * sum(rounds))
    first = 0
    for number, size in enumerate((*rounds, *FURTHER_ROUNDS)):
        if session.stopped or (number >= len(rounds) and warmup.converged):
            break
        numbers = range(first, first + longer * size)
        warmup.states, history = session.advance(
            "warmup",
            NoUTurn(potential_and_gradient, warmup.tuning),
            warmup.states,
            numbers,
            stream=f"NUTS from draw {first}",
            label="",
            quick=quick,
        )
        first = numbers.stop
        warmup.histories.append(history)
        adaptation.after(history)
        if number >= 1:
            adaptation.rescale(_variances(warmup.later_draws))
    adaptation.settle()
    return warmup


def _variances(draws: np.ndarray) -> np.ndarray:
    """Return the variances over all chains, shrunk towards a small constant as in Stan."""
    pooled = draws.reshape(-1, draws.shape[2])
    weight = len(pooled) / (len(pooled) + 5)
    return np.asarray(weight * pooled.var(axis=0) + (1 - weight) * 1e-3)
