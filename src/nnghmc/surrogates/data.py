"""Gradient data: true potentials and gradients, where they were evaluated, on which trajectory."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from nnghmc.errors import GradientDataError, SettingsError


@dataclass(frozen=True, eq=False)
class GradientData:
    """Points (q, U, ∇U) in NumPy arrays, one row per point.

    Points of one trajectory resemble each other, so a held-out set consists of whole trajectories:
    all points with the same `chains` and `trajectories`.

    Attributes:
        positions: the points q, of shape (points, dimensions).
        potentials: the potentials U, of shape (points,); NaN where U is unknown.
        gradients: the gradients ∇U, of the shape of `positions`.
        chains: the chain of each point.
        trajectories: the number of the trajectory of each point.
        steps: the leapfrog steps from the start of the trajectory to the point. The start itself,
            step 0, is a state of the chain that was evaluated earlier; models do not learn from it.
        weights: how much each point matters for learning, from 0 to 1; None is 1 for all. Not every
            model heeds it.
    """

    positions: np.ndarray
    potentials: np.ndarray
    gradients: np.ndarray
    chains: np.ndarray
    trajectories: np.ndarray
    steps: np.ndarray
    weights: np.ndarray = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if self.weights is None:
            object.__setattr__(self, "weights", np.ones(len(self.positions)))
        for field in fields(self):
            object.__setattr__(self, field.name, np.asarray(getattr(self, field.name)))
        lengths = {field.name: len(getattr(self, field.name)) for field in fields(self)}
        if len(set(lengths.values())) > 1:
            raise GradientDataError(
                f"all arrays of gradient data must have one row per point, got lengths {lengths}."
            )
        if self.positions.ndim != 2 or self.potentials.ndim != 1:
            raise GradientDataError(
                "positions and gradients must have shape (points, dimensions) and potentials "
                f"(points,), got {self.positions.shape} and {self.potentials.shape}."
            )
        if self.positions.shape != self.gradients.shape:
            raise GradientDataError(
                "positions and gradients must have the same shape, got "
                f"{self.positions.shape} and {self.gradients.shape}."
            )

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def dim(self) -> int:
        """The number of coordinates."""
        return int(self.positions.shape[1])

    @classmethod
    def of_points(
        cls, positions: np.ndarray, gradients: np.ndarray, potentials: np.ndarray | None = None
    ) -> "GradientData":
        """Make gradient data of single points, each on a trajectory of its own."""
        number = len(positions)
        if potentials is None:
            potentials = np.full(number, np.nan)
        trajectories = np.arange(number, dtype=np.int32)
        zeros = np.zeros(number, np.int32)
        return cls(positions, potentials, gradients, zeros, trajectories, zeros + 1)

    @classmethod
    def of_draws(cls, positions: Any, potentials: Any, gradients: Any) -> "GradientData":
        """Make gradient data of points that a kernel recorded, one row per draw and chain.

        The leading axes of the arrays are (draws, chains, 1).
        """
        parts = (np.asarray(part) for part in (positions, gradients, potentials))
        return cls.of_points(*(part.reshape(-1, *part.shape[3:]) for part in parts))

    @classmethod
    def from_paths(
        cls,
        positions: Any,
        potentials: Any,
        gradients: Any,
        num_steps: Any,
        first_trajectory: int,
        usable: Any = True,
    ) -> "GradientData":
        """Collect the points of recorded paths of shape (trajectories, chains, 1 + steps, dim).

        The first row of a path is its start. `num_steps`, of shape (trajectories, chains), says how
        many of the rows after it were recorded. `usable`, of the same shape, is False for paths to
        leave out.
        """
        recorded = np.arange(potentials.shape[2]) <= num_steps[..., np.newaxis]
        recorded &= np.broadcast_to(usable, num_steps.shape)[..., np.newaxis]
        trajectory, chain, step = np.nonzero(recorded)
        return cls(
            positions[recorded],
            potentials[recorded],
            gradients[recorded],
            chain.astype(np.int32),
            (trajectory + first_trajectory).astype(np.int32),
            step.astype(np.int32),
        )

    @classmethod
    def concatenate(cls, parts: Sequence["GradientData"]) -> "GradientData":
        """Join several parts; trajectories of different parts get different numbers."""
        if not parts:
            raise GradientDataError("concatenate needs at least one part, got none.")
        joined = {
            field.name: np.concatenate([getattr(part, field.name) for part in parts])
            for field in fields(cls)
        }
        joined["trajectories"] = _renumbered([part.trajectories for part in parts])
        return cls(**joined)

    def select(self, rows: np.ndarray) -> "GradientData":
        """Select points by a mask or by row indices."""
        return GradientData(*(getattr(self, field.name)[rows] for field in fields(self)))

    def without_starts(self) -> "GradientData":
        """Leave out the starts of trajectories, which models do not learn from."""
        return self.select(self.steps > 0)

    def finite(self) -> "GradientData":
        """Keep the points with finite position and gradient, or fail if they are a minority."""
        usable = np.isfinite(self.positions).all(axis=1) & np.isfinite(self.gradients).all(axis=1)
        if 2 * usable.sum() < len(self) or not usable.any():
            raise GradientDataError(
                "at least half of the points of gradient data must be finite, got "
                f"{usable.sum() or 'none'} of {len(self)}. Start closer to the typical set, or use "
                "a smaller step_size."
            )
        return self if usable.all() else self.select(usable)

    def check_varying(self) -> None:
        """Fail if a coordinate is constant: nothing can be learned along it."""
        constant = np.flatnonzero(np.ptp(self.positions, axis=0) == 0)
        if len(constant):
            named = ", ".join(str(index) for index in constant[:5])
            more = f" and {len(constant) - 5} more" if len(constant) > 5 else ""
            raise GradientDataError(
                "every coordinate must vary over the gradient data, and these do not: "
                f"{named}{more} (of {self.dim}). Collect more draws; if the chains do not move, "
                "use a smaller step_size."
            )

    def with_potentials(self, model: str) -> "GradientData":
        """Keep the points with a finite potential, for a model that learns from potentials."""
        known = np.isfinite(self.potentials)
        if not known.any():
            raise GradientDataError(
                f"{model} learns from potentials, and none in the gradient data is finite. Pass "
                "potentials, or use a model that learns from gradients."
            )
        return self if known.all() else self.select(known)

    def thinned(self, most: int | None) -> "GradientData":
        """Keep at most `most` points, spread evenly over all of them; None keeps all."""
        if most is None or len(self) <= most:
            return self
        return self.select(np.linspace(0, len(self) - 1, most).round().astype(int))

    def weighted(self, weights: np.ndarray) -> "GradientData":
        """Return the same points with these weights."""
        return replace(self, weights=weights)

    def weighted_mean(self, values: np.ndarray) -> np.ndarray:
        """Return the mean of an array with one row per point, by the weights of the points."""
        return np.asarray(np.average(values, axis=0, weights=self.weights))

    @property
    def num_trajectories(self) -> int:
        """The number of trajectories the points belong to."""
        return len(self._grouped()[0])

    def _grouped(self) -> tuple[np.ndarray, np.ndarray]:
        """Return (chain, trajectory) for each trajectory, and the index of each point's own."""
        labels = np.stack([self.chains, self.trajectories], axis=1)
        groups, member = np.unique(labels, axis=0, return_inverse=True)
        return groups, member

    def split(self, fraction: float, seed: int) -> tuple["GradientData", "GradientData"]:
        """Split into training points and held-out points, about `fraction` of the trajectories."""
        if not 0 < fraction < 1:
            raise SettingsError(f"fraction must lie between 0 and 1, got {fraction!r}.")
        groups, member = self._grouped()
        if len(groups) < 2:
            raise GradientDataError(
                f"a held-out set needs at least 2 trajectories, got {len(groups)}. Collect more."
            )
        num_held_out = min(max(round(fraction * len(groups)), 1), len(groups) - 1)
        chosen = np.random.default_rng(seed).permutation(len(groups))[:num_held_out]
        held_out = np.isin(member, chosen)
        return self.select(~held_out), self.select(held_out)

    def by_trajectory(self) -> list[np.ndarray]:
        """Return the row indices of each trajectory, in the order of its steps."""
        groups, member = self._grouped()
        order = np.lexsort((self.steps, member))
        return np.split(order, np.cumsum(np.bincount(member, minlength=len(groups)))[:-1])


def _renumbered(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Join trajectory numbers, shifted where an earlier part has used them."""
    next_free, shifted = 0, []
    for numbers in parts:
        if len(numbers):
            shifted.append(numbers + max(next_free - int(numbers.min()), 0))
            next_free = int(shifted[-1].max()) + 1
    return np.concatenate(shifted) if shifted else np.empty(0, np.int32)
