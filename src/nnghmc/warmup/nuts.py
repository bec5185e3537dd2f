"""The warm-up of NUTS: step size and mass matrix from all chains together."""

from dataclasses import dataclass

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from nnghmc.chains import History, Move, Supervision, run_chains
from nnghmc.diagnostics import split_rhat
from nnghmc.kernels import HMCState, Tuning
from nnghmc.warmup.adaptation import Adaptation, as_tuning

ROUNDS = (5, 5, 5, 5, 10, 10, 10, 10, 20, 20, 20, 20, 40, 40, 40, 40)
ROUNDS_IN_THE_BULK = (10, 10, 20, 20, 40)
"""Where the chains have been found to agree before."""
FURTHER_ROUNDS = (50,) * 6
CHAINS_TO_POOL = 4
"""With fewer chains than this the rounds are longer, so that they say as much."""
AGREEMENT = 1.05


@dataclass
class NutsWarmup:
    """Where the chains are, how they got there, and the tuning that came of it."""

    states: HMCState
    adaptation: Adaptation
    histories: list[History]

    @property
    def tuning(self) -> Tuning:
        """NUTS finds the number of steps itself."""
        matrix = self.adaptation.inverse_mass_matrix
        return as_tuning(self.adaptation.step_size, (1, 1), matrix)

    @property
    def later_draws(self) -> np.ndarray:
        """The draws of the later half of the rounds."""
        later = self.histories[len(self.histories) // 2 :]
        return np.concatenate([history.draws for history in later], axis=1)

    @property
    def settled(self) -> bool:
        """Whether the chains agree, and the halves of each."""
        return bool(split_rhat(self.later_draws).max() < AGREEMENT)


def warm_up_nuts(
    move: Move,
    states: HMCState,
    key: PRNGKeyArray,
    supervision: Supervision,
    adaptation: Adaptation,
    *,
    in_the_bulk: bool = False,
    quick: bool,
) -> NutsWarmup:
    """Rounds of NUTS, after each of which step size and mass matrix are set anew."""
    found = NutsWarmup(states, adaptation, [])
    chains = len(states.position)
    longer = -(-CHAINS_TO_POOL // chains)
    rounds = ROUNDS_IN_THE_BULK if in_the_bulk else ROUNDS
    supervision.reporter.begin("warmup", longer * sum(rounds))
    first = 0
    for number, size in enumerate((*rounds, *FURTHER_ROUNDS)):
        if supervision.stop.made or (number >= len(rounds) and found.settled):
            break
        numbers = range(first, first + longer * size)
        found.states, history = run_chains(
            move, found.tuning, jax.random.fold_in(key, first), found.states, numbers,
            supervision, quick=quick,
        )  # fmt: skip
        first = numbers.stop
        found.histories.append(history)
        adaptation.after(history)
        if number >= 1:
            adaptation.rescale(_variances(found.later_draws))
    adaptation.settle()
    return found


def _variances(draws: np.ndarray) -> np.ndarray:
    """Pooled over chains, and drawn a little towards a small constant, as Stan does it."""
    pooled = draws.reshape(-1, draws.shape[2])
    weight = len(pooled) / (len(pooled) + 5)
    return np.asarray(weight * pooled.var(axis=0) + (1 - weight) * 1e-3)
