"""Examines a surrogate posterior: asks the truth at its draws, in its tails, and beyond them."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from nnghmc.engine.chunks import evaluate_all
from nnghmc.explore.nuts_warmup import whitened
from nnghmc.explore.rounds.coverage import Coverage, hot_temperature, tolerance_for
from nnghmc.explore.rounds.outward import (
    ENOUGH_TO_LEARN,
    are_closed_off,
    follow_outward,
    matters,
    number_of_starts,
    outermost,
    walks_outward,
)
from nnghmc.explore.rounds.surrogate_chains import SurrogateChains
from nnghmc.explore.rounds.truth import (
    TEMPERATURE_OF_WEIGHTS,
    Evaluated,
    Truth,
    in_batches,
)
from nnghmc.surrogates.models.quadratic_plus_process import process_of
from nnghmc.surrogates.parts.gradient_process import GradientProcess
from nnghmc.surrogates.surrogate_posterior import SurrogatePosterior


class Agreement(NamedTuple):
    """How the truth differs from the surrogate at cold draws.

    These are draws of the surrogate posterior in the rounds, and of the posterior afterwards.

    Attributes:
        acceptance: expected acceptance of a step from one draw to another.
        level: median of the difference, since the surrogate is known up to a constant.
        spread: robust standard deviation of the difference.
    """

    acceptance: float
    level: float
    spread: float

    @classmethod
    def of(cls, excess: np.ndarray) -> "Agreement":
        """Return the agreement for true minus surrogate potentials at independent draws.

        With hardly any finite potential nothing agrees.
        """
        finite = excess[np.isfinite(excess)]
        if 2 * len(finite) <= len(excess):
            return cls(0.0, 0.0, 0.0)
        return cls(expected_acceptance(excess), *middle_and_spread(finite))


@dataclass(frozen=True)
class Examination:
    """The examination of one surrogate posterior.

    Attributes:
        truth: the truth, which keeps everything that it says.
        surrogate: the surrogate posterior.
        chains: chains on the surrogate posterior, with their tuning.
        stream: part of the name of the random streams.
    """

    truth: Truth
    surrogate: SurrogatePosterior
    chains: SurrogateChains
    stream: str

    @property
    def temperature(self) -> float:
        """The temperature of hot draws."""
        return hot_temperature(self.chains.positions.shape[1])

    @cached_property
    def generator(self) -> np.random.Generator:
        """The random generator of the examination."""
        return self.truth.session.generator(self.stream)

    def draws(self, number: int) -> np.ndarray:
        """Return draws of the surrogate posterior, shape (chains, number, dim)."""
        return self.chains.draw(self.surrogate, number, f"{self.stream}, {number} draws")

    def hot_draws(self, number: int) -> np.ndarray:
        """Return draws of the surrogate posterior at a temperature above 1, one per row."""
        hot = self.surrogate.at_temperature(self.temperature)
        stream = f"{self.stream}, {number} hot draws"
        draws = self.chains.draw(hot, number, stream, widen=self.temperature)
        return draws.reshape(-1, draws.shape[2])

    def excess(self, found: Evaluated) -> np.ndarray:
        """Return the true minus the surrogate potential where the truth was asked."""
        return found.values - learned_values(self.surrogate, found.inputs)

    def coverage(self, hot: Evaluated, agreement: Agreement) -> Coverage:
        """Return what hot draws say about the mass where the surrogate is wrong."""
        known = learned_values(self.surrogate, hot.inputs)
        excess, learned = hot.values - known, hot.exact + known
        tolerance = tolerance_for(agreement.spread)
        return Coverage.of(excess, learned, agreement.level, self.temperature, tolerance)

    def edge(self, number: int, agreement: Agreement) -> np.ndarray:
        """Return hot draws from as far out as the surrogate says that there is mass to speak of."""
        draws = self.hot_draws(number)
        learned = learned_potentials(self.truth, self.surrogate, draws) + agreement.level
        return draws[matters(learned, self.truth.typical_potential, draws.shape[1])]

    def look_outward(
        self, draws: np.ndarray, agreement: Agreement, *, to_the_end: bool = False
    ) -> float:
        """Follow the true gradient outward; return the share of points that would be closed off.

        Trajectories start from the outermost of some draws, one per row. They end early where the
        surrogate is too high at many points, unless they are to be followed `to_the_end`.
        """
        dim = draws.shape[1]
        chosen = outermost(self._coordinates(draws), number_of_starts(dim))
        matrix, step_size = self.chains.inverse_mass_matrix, self.chains.step_size
        middle = np.median(draws, axis=0)
        white = whitened(draws - middle, matrix)
        walks = walks_outward(self.generator, white, white[chosen], step_size, self.temperature)

        def is_enough(found: Evaluated) -> bool:
            return not to_the_end and self._closed(found, agreement).sum() >= ENOUGH_TO_LEARN

        found = follow_outward(self.truth, walks, middle, matrix, is_enough)
        temperature = 1.0 if to_the_end else TEMPERATURE_OF_WEIGHTS
        return self.closed_off(found, agreement, temperature)

    def closed_off(
        self, found: Evaluated, agreement: Agreement, temperature: float = TEMPERATURE_OF_WEIGHTS
    ) -> float:
        """Return the share of points where the surrogate is too high.

        All count by how much they matter at a temperature: above 1 also those that hold little
        mass, since the surrogate is better learned there too.
        """
        weights = self.truth.weights(found, temperature) * found.is_finite
        return float(weights @ self._closed(found, agreement) / max(weights.sum(), 1.0))

    def _closed(self, found: Evaluated, agreement: Agreement) -> np.ndarray:
        typical, tolerance = self.truth.typical_potential, tolerance_for(agreement.spread)
        return are_closed_off(found, self.excess(found), agreement.level, typical, tolerance)

    def _coordinates(self, draws: np.ndarray) -> np.ndarray:
        """Return draws in the directions in which the surrogate is least like a quadratic."""
        learned = self.surrogate.learned
        process = process_of(learned)
        if isinstance(process, GradientProcess):
            directions = np.asarray(process.directions)
            if directions.any():
                inputs, _ = self.truth.inputs_and_exact(draws)
                return np.asarray((inputs - np.asarray(process.centre)) @ directions.T)
        return np.asarray(draws / draws.std(axis=0))


def some(draws: np.ndarray, number: int, generator: np.random.Generator) -> np.ndarray:
    """Return some rows."""
    return draws[generator.choice(len(draws), min(number, len(draws)), replace=False)]


def learned_values(surrogate: SurrogatePosterior, inputs: np.ndarray) -> np.ndarray:
    """Return the learned function at rows of inputs."""

    def evaluate(batch: np.ndarray) -> tuple[np.ndarray, ...]:
        function = surrogate.learned.potential
        return (np.asarray(evaluate_all(function, jnp.asarray(batch), quick=True)),)

    return in_batches(evaluate, inputs)[0]


def learned_potentials(
    truth: Truth, surrogate: SurrogatePosterior, positions: np.ndarray
) -> np.ndarray:
    """Return the potential of the surrogate posterior at positions."""
    inputs, exact = truth.inputs_and_exact(positions)
    return np.asarray(exact + learned_values(surrogate, inputs))


def middle_and_spread(values: np.ndarray) -> tuple[float, float]:
    """Return the median and a robust standard deviation."""
    middle = float(np.median(values))
    return middle, 1.5 * float(np.median(np.abs(values - middle)))


def expected_acceptance(excess: np.ndarray) -> float:
    """Return the mean acceptance of a step between two draws of the surrogate posterior.

    `excess` is the true minus the surrogate potential at independent draws.
    """
    excess = np.where(np.isfinite(excess), excess, np.inf)
    with np.errstate(invalid="ignore"):
        change = excess[:, np.newaxis] - excess
    change = np.where(np.isnan(change), np.inf, change)
    others = ~np.eye(len(excess), dtype=bool)
    return float(np.minimum(1.0, np.exp(-np.maximum(change[others], 0.0))).mean())
