"""From spread-out starts into the bulk of the posterior, by the true gradient, all chains at once.

Downhill first; then rounds of standard HMC, after each of which step size, trajectory length and
mass matrix are set by what all chains have met; until R-hat of the potential and of every
coordinate says that the chains agree, or the rounds are used up.
"""

from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from nnghmc.chains import History, Supervision, evaluate_recorded
from nnghmc.diagnostics import split_rhat
from nnghmc.kernels import HMCState
from nnghmc.posterior import Posterior
from nnghmc.surrogates.gradient_data import GradientData
from nnghmc.warmup.adaptation import MOST_STEPS, Adaptation, refined_inverse_mass_matrix
from nnghmc.warmup.collect import collect
from nnghmc.warmup.descent import descend

ROUNDS = (3, 3, 5, 5, 5, 8, 8, 8, 8, 8, 16, 16, 16, 16)
LEAST_ROUNDS = 5
WORTHLESS = 0.3
"""A round that accepts less than this says nothing but that its steps were too long."""
HOPELESS = 7
"""So many of those at the start, and it ends: the way down may have led into a funnel."""
APART = 3.0
"""Of chains in different modes, R-hat stays above this; of others it is soon far below."""
AGREEMENT = 1.1
"""R-hat below which chains are taken to agree well enough to learn from; a few dozen draws say no
more than that."""


@dataclass
class Bulk:
    """Where the chains are, how they got there, and what was met in the later rounds."""

    states: HMCState
    adaptation: Adaptation
    way_down: GradientData
    descent_evaluations: int
    moved: int
    rounds: list[GradientData] = field(default_factory=list)
    histories: list[History] = field(default_factory=list)
    failed: list[History] = field(default_factory=list)

    @property
    def later(self) -> slice:
        """The rounds that count: the first third led here."""
        return slice(len(self.rounds) // 3, None)

    @property
    def gradient_data(self) -> GradientData:
        """What the rounds that count have met."""
        return GradientData.concatenate(self.rounds[self.later])

    @property
    def draws(self) -> np.ndarray:
        """Their draws, shape (chains, draws, dim)."""
        return np.concatenate([history.draws for history in self.histories[self.later]], axis=1)

    @property
    def potentials(self) -> np.ndarray:
        """The potentials of those, shape (chains, draws)."""
        parts = [-history.stats["lp"] for history in self.histories[self.later]]
        return np.concatenate(parts, axis=1)

    @property
    def disagreement(self) -> float:
        """The largest R-hat, of the potential and of every coordinate; that of halves of chains."""
        draws = np.concatenate([self.draws, self.potentials[..., np.newaxis]], axis=2)
        if draws.shape[1] < 4:
            return float("nan")
        return float(split_rhat(draws).max())

    @property
    def straightness(self) -> float:
        """How much of the gradient in the last round a straight line through those before tells."""
        *before, last = self.rounds[self.later]
        root = np.linalg.cholesky(self.adaptation.dense_matrix)

        def white(data: GradientData) -> tuple[np.ndarray, np.ndarray]:
            positions = np.linalg.solve(root, data.positions.T).T
            return np.column_stack([np.ones(len(data)), positions]), data.gradients @ root

        lines = np.linalg.lstsq(*white(GradientData.concatenate(before)), rcond=None)[0]
        positions, gradients = white(last)
        errors = gradients - positions @ lines
        return float(1 - (errors**2).sum() / ((gradients - gradients.mean(axis=0)) ** 2).sum())

    @property
    def gradients(self) -> int:
        """True gradients spent, all chains together."""
        chains = len(self.states.position)
        steps = sum(history.leapfrog_steps for history in (*self.histories, *self.failed))
        return chains * self.descent_evaluations + steps

    @property
    def has_met_enough(self) -> bool:
        """Whether there is enough to learn from."""
        dim = self.way_down.dim
        points = sum(len(data) for data in self.rounds[self.later])
        trajectories = sum(data.num_trajectories for data in self.rounds[self.later])
        return points >= 10 * dim and trajectories >= dim

    @property
    def hopeless(self) -> bool:
        """Whether more rounds would lead nowhere."""
        if not self.rounds:
            return len(self.failed) >= HOPELESS
        return len(self.rounds) >= HOPELESS and self.disagreement > APART

    @property
    def settled(self) -> bool:
        """Whether the chains agree, and have met enough."""
        if len(self.rounds) < LEAST_ROUNDS or not self.has_met_enough:
            return False
        return self.disagreement < AGREEMENT


def find_bulk(
    posterior: Posterior,
    states: HMCState,
    key: PRNGKeyArray,
    supervision: Supervision,
    *,
    quick: bool,
) -> Bulk:
    """Go downhill, then make rounds of standard HMC until the chains have settled."""

    def evaluate(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return evaluate_recorded(
            posterior.potential_and_gradient,
            jnp.asarray(positions),
            supervision,
            quick=quick,
        )

    arrival = descend(evaluate, states)
    adaptation = Adaptation(0.3 * posterior.dim**-0.25, arrival.inverse_mass_matrix)
    bulk = Bulk(arrival.states, adaptation, arrival.met, arrival.evaluations, arrival.moved)
    first_draw, chains = 0, len(states.position)
    more = -(-posterior.dim // (ROUNDS[-1] * chains))  # where the dimensions ask for them
    for size in ROUNDS + more * ROUNDS[-1:]:
        if supervision.stop.made or bulk.settled or bulk.hopeless:
            break
        numbers = range(first_draw, first_draw + size)
        _one_round(posterior, bulk, key, numbers, supervision, quick=quick)
        first_draw += size
    bulk.adaptation.settle()
    return bulk


def _one_round(
    posterior: Posterior,
    bulk: Bulk,
    key: PRNGKeyArray,
    numbers: range,
    supervision: Supervision,
    *,
    quick: bool,
) -> None:
    parts: list[GradientData] = []
    bulk.states, history = collect(
        posterior.potential_and_gradient,
        bulk.adaptation.tuning,
        jax.random.fold_in(key, numbers.start),
        bulk.states,
        numbers,
        supervision,
        parts.append,
        record_steps=MOST_STEPS,
        quick=quick,
    )
    if not history.length:
        return
    acceptance = bulk.adaptation.after(history)
    if acceptance < WORTHLESS:
        bulk.failed.append(history)
        return
    bulk.rounds.append(GradientData.concatenate(parts))
    bulk.histories.append(history)
    learn_from = bulk.gradient_data.without_starts()
    if len(learn_from) > 4:
        current = bulk.adaptation.inverse_mass_matrix
        bulk.adaptation.inverse_mass_matrix = refined_inverse_mass_matrix(current, learn_from)
