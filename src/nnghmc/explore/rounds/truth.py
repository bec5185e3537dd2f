"""The truth: evaluations of the expensive function, in full batches, all of which are kept."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from nnghmc.engine.chunks import evaluate_all
from nnghmc.engine.session import Session
from nnghmc.model.split import Split
from nnghmc.surrogates.data import GradientData
from nnghmc.surrogates.surrogate_posterior import inputs_and_exact, pulled_back

BATCH = 16
"""Number of positions that are evaluated together. One batch takes much less than as many single
evaluations, and one size means one compilation."""
TEMPERATURE_OF_WEIGHTS = 2.0
"""Temperature of the weights of points above the typical set."""
FURTHEST_ABOVE = 500.0
"""Bound on the logarithm of a weight, so that no weight underflows to zero."""
LEAST_WEIGHT = 1e-4
"""Weight below which a point is not learned from."""


@dataclass(frozen=True)
class Evaluated:
    """Positions with what the truth says there, one row per position.

    Attributes:
        positions: the positions q.
        inputs: the inputs s(q) of the expensive function.
        exact: the exact part of the potential.
        values: the values of the expensive function.
        gradients: its gradients with respect to the inputs.
    """

    positions: np.ndarray
    inputs: np.ndarray
    exact: np.ndarray
    values: np.ndarray
    gradients: np.ndarray

    @property
    def potentials(self) -> np.ndarray:
        """The potentials U(q)."""
        return self.exact + self.values

    @property
    def is_finite(self) -> np.ndarray:
        """Mask of the positions with a finite potential and gradient."""
        return np.isfinite(self.potentials) & np.isfinite(self.gradients).all(axis=1)

    def select(self, rows: Any) -> "Evaluated":
        """Select some positions."""
        return Evaluated(*(getattr(self, part.name)[rows] for part in fields(self)))

    @classmethod
    def concatenate(cls, parts: Sequence["Evaluated"]) -> "Evaluated":
        """Join several parts."""
        names = [part.name for part in fields(cls)]
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


@dataclass
class Truth:
    """The expensive function of a posterior, and everything that it said so far.

    Attributes:
        split: the split of the potential.
        session: the session, which counts evaluations and remembers them.
        counts_calls: whether the function lies outside JAX, where each call is counted.
        phase: phase of the run that the cost belongs to.
        evaluated: all positions so far that have a finite potential and gradient.
        lowest_median: lowest median of the potentials at draws of a surrogate posterior so far.
        asked: number of positions so far.
        typical: potential in the typical set if it is known from exact draws, or None.
    """

    split: Split
    session: Session
    counts_calls: bool
    phase: str = "collect"
    evaluated: list[Evaluated] = field(default_factory=list)
    lowest_median: float = float("inf")
    asked: int = 0
    typical: float | None = None

    def at_inputs(self, inputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return values and gradients of the expensive function at rows of inputs."""

        def evaluate(batch: np.ndarray) -> tuple[np.ndarray, ...]:
            function = self.split.expensive_and_gradient
            return self.session.evaluate("truth", function, batch)

        with self.session.timed(self.phase) as cost:
            values, gradients = in_batches(evaluate, inputs, self.filler)
            self.asked += len(inputs)
            made = len(inputs) if self.counts_calls else _padded_length(inputs)
            cost.true_gradients += made
        return values, gradients

    @property
    def filler(self) -> float | None:
        """The value of the rows that fill up a batch; None repeats its first rows.

        A function outside JAX is not called where a position is not a number. In JAX all rows are
        evaluated, and one that is not a number might keep a solver busy for ever.
        """
        return float("nan") if self.counts_calls else None

    def at(self, positions: np.ndarray) -> Evaluated:
        """Evaluate the truth at positions, and keep what it says."""
        return self.at_both(positions, np.empty((0, self.split.num_inputs)))[0]

    def at_both(self, positions: np.ndarray, further: np.ndarray) -> tuple[Evaluated, np.ndarray]:
        """Evaluate the truth at positions, and its gradients at further inputs, all together."""
        inputs, exact = self.inputs_and_exact(positions)
        number = len(positions)
        values, gradients = self.at_inputs(np.concatenate([inputs, further]))
        found = Evaluated(positions, inputs, exact, values[:number], gradients[:number])
        self.evaluated.append(found.select(found.is_finite))
        return found, gradients[number:]

    def inputs_and_exact(self, positions: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return the inputs and the exact part at positions, which takes no true evaluation."""

        def evaluate(batch: np.ndarray) -> tuple[np.ndarray, ...]:
            function = eqx.Partial(inputs_and_exact, self.split)
            found = evaluate_all(function, jnp.asarray(batch), quick=True)
            return tuple(np.asarray(part) for part in found)

        with self.session.timed(self.phase):
            return in_batches(evaluate, positions)

    def gradients_of_potential(self, found: Evaluated) -> np.ndarray:
        """Return the true gradients with respect to the parameters."""

        def evaluate(rows: np.ndarray) -> tuple[np.ndarray, ...]:
            function = eqx.Partial(_pulled_back_row, self.split, found.positions.shape[1])
            return (np.asarray(evaluate_all(function, jnp.asarray(rows), quick=True)),)

        rows = np.concatenate([found.positions, found.gradients], axis=1)
        with self.session.timed(self.phase):
            return in_batches(evaluate, rows)[0]

    @property
    def all(self) -> Evaluated:
        """Everything that was evaluated so far, together."""
        return Evaluated.concatenate(self.evaluated)

    def gradient_data(self) -> GradientData:
        """Return all points with the values and gradients of the expensive function."""
        found = self.all
        points = GradientData.of_points(found.inputs, found.gradients, found.values)
        return points.weighted(self.weights(found))

    def lesson_data(self) -> GradientData:
        """Return the points to learn from, which count by how much they matter.

        Far up the wall of the potential, values and gradients are compressed: all that matters
        there is that the surrogate is high, too.
        """
        data = self.gradient_data()
        lowest = data.potentials[np.argmin(self.all.potentials)]
        values, factors = _compressed(data.potentials - lowest, data.dim)
        compressed = replace(
            data, potentials=values, gradients=factors[:, np.newaxis] * data.gradients
        )
        return compressed.select(data.weights >= LEAST_WEIGHT)

    def weights(self, found: Evaluated, temperature: float = TEMPERATURE_OF_WEIGHTS) -> np.ndarray:
        """Return how much each point matters: 1 in the typical set, less above.

        The typical set ends two standard deviations of the potential above its middle. At a
        temperature of 1, points matter as much as the density there.
        """
        dim = found.positions.shape[1]
        above = found.potentials - self.typical_potential - 2 * np.sqrt(0.5 * dim)
        return np.asarray(np.exp(-np.clip(above / temperature, 0.0, FURTHEST_ABOVE)))

    def see_typical(self, potentials: np.ndarray) -> None:
        """Take note of the true potentials at draws of a surrogate posterior.

        The lowest median so far is the best guess of the potential in the typical set. It may lie
        far above the mode, as in a hierarchical model.
        """
        self.lowest_median = min(self.lowest_median, float(np.median(potentials)))

    @property
    def typical_potential(self) -> float:
        """The potential in the typical set, as far as is known."""
        if self.typical is not None:
            return self.typical
        found = self.all
        least = float(found.potentials.min()) + 0.5 * found.positions.shape[1]
        return max(least, self.lowest_median) if np.isfinite(self.lowest_median) else least


def _pulled_back_row(split: Split, dim: int, row: Array) -> Array:
    """Pull back a gradient, which follows its position in a row."""
    return pulled_back(split, row[:dim], row[dim:])


def in_batches(
    evaluate: Callable[[np.ndarray], tuple[np.ndarray, ...]],
    rows: np.ndarray,
    filler: float | None = None,
) -> tuple[np.ndarray, ...]:
    """Evaluate a function of `BATCH` rows at any number of rows.

    The last batch is filled up with rows of `filler`, or with the first rows again.
    """
    padded = np.resize(rows, (_padded_length(rows), *rows.shape[1:]))
    if filler is not None:
        padded[len(rows) :] = filler
    batches = padded.reshape(-1, BATCH, *rows.shape[1:])
    return tuple(
        np.concatenate(part)[: len(rows)] for part in zip(*map(evaluate, batches), strict=True)
    )


def _padded_length(rows: np.ndarray) -> int:
    return -(-len(rows) // BATCH) * BATCH


def _compressed(values: np.ndarray, inputs: int) -> tuple[np.ndarray, np.ndarray]:
    """Let values grow like a logarithm above those of the posterior.

    Returns the values, and the factors of their gradients.
    """
    wall = 0.5 * inputs + 3 * np.sqrt(inputs) + 6
    excess = np.maximum(values - wall, 0.0) / wall
    return np.where(excess > 0, wall + wall * np.log1p(excess), values), 1 / (1 + excess)
