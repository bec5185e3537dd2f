"""Gradient data and a gradient model in, a frozen surrogate out."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from nnghmc.surrogates.gradient_data import GradientData
from nnghmc.surrogates.training import Training


class LearnedGradient(Protocol):
    """What a gradient model learns: a pytree, so that compiled code takes its arrays as input."""

    def gradient(self, position: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """The learned gradient g(q)."""


@runtime_checkable
class GradientModel(Protocol):
    """A small frozen object that says what is to be learned. A new model is one file and a name."""

    def learn(
        self, data: GradientData, key: PRNGKeyArray, training: Training
    ) -> tuple[LearnedGradient, np.ndarray]:
        """Learn from finite gradient data; also the loss of each epoch, where there are epochs."""


@dataclass(frozen=True, eq=False)
class FitReport:
    """How a fit went: mean loss of each epoch, points used, points dropped for not being finite."""

    losses: np.ndarray
    points: int
    dropped: int

    def __str__(self) -> str:
        text = f"{self.points:,} points"
        if self.dropped:
            text += f", {self.dropped} not finite and left out"
        if len(self.losses):
            text += f"; loss {self.losses[0]:.3g} to {self.losses[-1]:.3g}"
            text += f" in {len(self.losses)} epochs"
        return text


@dataclass(frozen=True, eq=False)
class Surrogate:
    """A fitted, frozen gradient, and how the fit went."""

    learned: LearnedGradient
    report: FitReport

    def gradient(self, position: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """The learned gradient g(q) at one position."""
        return self.learned.gradient(position)


def fit(
    network: GradientModel,
    gradient_data: GradientData,
    key: PRNGKeyArray,
    training: Training | None = None,
) -> Surrogate:
    """Fit any gradient model to gradient data."""
    usable = gradient_data.finite()
    learned, losses = network.learn(usable, key, training or Training())
    report = FitReport(losses, points=len(usable), dropped=len(gradient_data) - len(usable))
    return Surrogate(learned, report)
