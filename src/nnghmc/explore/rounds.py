"""Takes chains from spread-out starts into the typical set, along the true gradient, all at once.

The chains first go downhill. Rounds of standard HMC follow, and after each of them all chains
together set step size, trajectory length and mass matrix. The rounds end when R-hat of the
potential and of every coordinate shows that the chains agree, or when all of them are made.
"""

from dataclasses import dataclass, field

import numpy as np

from nnghmc.engine.history import History
from nnghmc.engine.session import Session
from nnghmc.engine.statistics import split_rhat
from nnghmc.explore.adaptation import MOST_STEPS, Adaptation, refined_inverse_mass_matrix
from nnghmc.explore.collect import collect
from nnghmc.explore.descent import descend
from nnghmc.kernels import HMCState
from nnghmc.model.posterior import Posterior
from nnghmc.surrogates.data import GradientData

ROUNDS = (3, 3, 5, 5, 5, 8, 8, 8, 8, 8, 16, 16, 16, 16)
"""Draws per chain of each round."""
LEAST_ROUNDS = 5
"""Smallest number of rounds before the chains may be found to agree."""
LEAST_ACCEPTANCE = 0.3
"""Acceptance below which a round shows only that its steps were too long, and is dropped."""
ROUNDS_BEFORE_GIVING_UP = 7
"""Number of rounds without success after which the search ends: the chains may be in a funnel."""
RHAT_OF_SEPARATE_MODES = 3.0
"""R-hat that chains in different modes stay above; other chains soon fall far below it."""
LARGEST_RHAT = 1.1
"""R-hat below which chains agree well enough to learn from. A few dozen draws allow no stricter
test."""


@dataclass
class Bulk:
    """Chains on their way into the typical set, and the data of the rounds so far.

    Attributes:
        states: where the chains are.
        adaptation: step size and mass matrix.
        descent_data: gradient data of the way downhill.
        descent_evaluations: evaluations on the way downhill, of all chains together.
        restarts: number of chains restarted because they ended in a negligible local mode.
        rounds: gradient data of each round.
        histories: draws of each round.
        failures: draws of rounds whose acceptance was too low.
    """

    states: HMCState
    adaptation: Adaptation
    descent_data: GradientData
    descent_evaluations: int
    restarts: int
    rounds: list[GradientData] = field(default_factory=list)
    histories: list[History] = field(default_factory=list)
    failures: list[History] = field(default_factory=list)

    @property
    def later(self) -> slice:
        """The rounds in the typical set: all but the first third, which led there."""
        return slice(len(self.rounds) // 3, None)

    @property
    def gradient_data(self) -> GradientData:
        """Gradient data of the later rounds."""
        return GradientData.concatenate(self.rounds[self.later])

    @property
    def draws(self) -> np.ndarray:
        """Draws of the later rounds, shape (chains, draws, dim)."""
        return np.concatenate([history.draws for history in self.histories[self.later]], axis=1)

    @property
    def potentials(self) -> np.ndarray:
        """Potentials of the draws of the later rounds, shape (chains, draws)."""
        parts = [-history.stats["lp"] for history in self.histories[self.later]]
        return np.concatenate(parts, axis=1)

    @property
    def disagreement(self) -> float:
        """The largest R-hat over the potential and every coordinate, computed on half chains."""
        draws = np.concatenate([self.draws, self.potentials[..., np.newaxis]], axis=2)
        if draws.shape[1] < 4:
            return float("nan")
        return float(split_rhat(draws).max())

    @property
    def linearity(self) -> float:
        """Fraction of the variance of the last gradients that a linear fit explains."""
        *before, last = self.rounds[self.later]
        root = np.linalg.cholesky(self.adaptation.dense_matrix)

        def whiten(data: GradientData) -> tuple[np.ndarray, np.ndarray]:
            positions = np.linalg.solve(root, data.positions.T).T
            return np.column_stack([np.ones(len(data)), positions]), data.gradients @ root

        fit = np.linalg.lstsq(*whiten(GradientData.concatenate(before)), rcond=None)[0]
        positions, gradients = whiten(last)
        errors = gradients - positions @ fit
        return float(1 - (errors**2).sum() / ((gradients - gradients.mean(axis=0)) ** 2).sum())

    @property
    def has_enough_data(self) -> bool:
        """Whether the later rounds have enough points and trajectories to learn from."""
        dim = self.descent_data.dim
        points = sum(len(data) for data in self.rounds[self.later])
        trajectories = sum(data.num_trajectories for data in self.rounds[self.later])
        return points >= 10 * dim and trajectories >= dim

    @property
    def should_give_up(self) -> bool:
        """Whether further rounds are unlikely to make the chains agree."""
        if not self.rounds:
            return len(self.failures) >= ROUNDS_BEFORE_GIVING_UP
        enough = len(self.rounds) >= ROUNDS_BEFORE_GIVING_UP
        return enough and self.disagreement > RHAT_OF_SEPARATE_MODES

    @property
    def converged(self) -> bool:
        """Whether the chains agree and there are enough data to learn from."""
        if len(self.rounds) < LEAST_ROUNDS or not self.has_enough_data:
            return False
        return self.disagreement < LARGEST_RHAT


def find_bulk(posterior: Posterior, states: HMCState, session: Session, *, quick: bool) -> Bulk:
    """Take the chains downhill, then make rounds of standard HMC until the chains agree."""

    def evaluate(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        function = posterior.potential_and_gradient
        return session.evaluate("descent", function, positions, quick=quick)

    with session.timed("warmup") as cost:
        states, matrix, data, evaluations, restarts = descend(evaluate, states)
        cost.true_gradients += evaluations * len(states.position)
    adaptation = Adaptation(0.3 * posterior.dim**-0.25, matrix)
    bulk = Bulk(states, adaptation, data, evaluations, restarts)
    first_draw, chains = 0, len(states.position)
    more = -(-posterior.dim // (ROUNDS[-1] * chains))  # many dimensions need more trajectories
    for size in ROUNDS + more * ROUNDS[-1:]:
        if session.stopped or bulk.converged or bulk.should_give_up:
            break
        _make_round(posterior, bulk, session, range(first_draw, first_draw + size), quick=quick)
        first_draw += size
    bulk.adaptation.settle()
    return bulk


def _make_round(
    posterior: Posterior, bulk: Bulk, session: Session, numbers: range, *, quick: bool
) -> None:
    """Make draws with these numbers by standard HMC, and adapt to them."""
    parts: list[GradientData] = []
    bulk.states, history = collect(
        session,
        "warmup",
        posterior.potential_and_gradient,
        bulk.adaptation.tuning,
        bulk.states,
        numbers,
        parts.append,
        record_steps=MOST_STEPS,
        stream=f"round from draw {numbers.start}",
        label="",
        quick=quick,
        in_warmup=False,
    )
    if not history.length:
        return
    acceptance = bulk.adaptation.after(history)
    if acceptance < LEAST_ACCEPTANCE:
        bulk.failures.append(history)
        return
    bulk.rounds.append(GradientData.concatenate(parts))
    bulk.histories.append(history)
    learn_from = bulk.gradient_data.without_starts()
    if len(learn_from) > 4:
        current = bulk.adaptation.inverse_mass_matrix
        bulk.adaptation.inverse_mass_matrix = refined_inverse_mass_matrix(current, learn_from)
