"""Gradient data: what the true gradient was, where, and on which trajectory it was met."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from nnghmc.errors import GradientDataError, SettingsError


@dataclass(frozen=True, eq=False)
class GradientData:
    """Points (q, U, ∇U), a row each, on the host.

    `potentials` is NaN where U is not known. Points of one trajectory resemble each other, so a
    held-out set is made of whole trajectories: those with the same `chains` and `trajectories`.
    """

    positions: np.ndarray
    potentials: np.ndarray
    gradients: np.ndarray
    chains: np.ndarray
    trajectories: np.ndarray

    def __post_init__(self) -> None:
        lengths = {field.name: len(getattr(self, field.name)) for field in fields(self)}
        if len(set(lengths.values())) > 1:
            raise GradientDataError(f"gradient data must have a row a point, got {lengths}.")
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
    def from_paths(
        cls,
        positions: Any,
        potentials: Any,
        gradients: Any,
        num_steps: Any,
        first_trajectory: int,
    ) -> "GradientData":
        """The points of recorded paths of shape (trajectories, chains, steps, dim).

        Only the first `num_steps` rows of each path, shape (trajectories, chains), were walked.
        """
        walked = np.arange(potentials.shape[2]) < num_steps[..., np.newaxis]
        trajectory, chain, _ = np.nonzero(walked)
        return cls(
            positions[walked],
            potentials[walked],
            gradients[walked],
            chain.astype(np.int32),
            (trajectory + first_trajectory).astype(np.int32),
        )

    @classmethod
    def concatenate(cls, parts: Sequence["GradientData"]) -> "GradientData":
        """All points of several parts."""
        return cls(
            *(
                np.concatenate([getattr(part, field.name) for part in parts])
                for field in fields(cls)
            )
        )

    def select(self, rows: np.ndarray) -> "GradientData":
        """The points of these rows (a mask or indices)."""
        return GradientData(*(getattr(self, field.name)[rows] for field in fields(self)))

    def finite(self) -> "GradientData":
        """The points whose position and gradient are finite."""
        usable = np.isfinite(self.positions).all(axis=1) & np.isfinite(self.gradients).all(axis=1)
        if not usable.any():
            raise GradientDataError(
                f"gradient data must have finite points of trajectories that did not diverge, and "
                f"none of {len(self)} is. Start closer to the bulk, or use a smaller step_size."
            )
        return self if usable.all() else self.select(usable)

    def split(self, fraction: float, seed: int) -> tuple["GradientData", "GradientData"]:
        """Training points and held-out points, the latter about `fraction` of the trajectories."""
        if not 0 < fraction < 1:
            raise SettingsError(f"fraction must lie between 0 and 1, got {fraction!r}.")
        labels = np.stack([self.chains, self.trajectories], axis=1)
        groups, member = np.unique(labels, axis=0, return_inverse=True)
        if len(groups) < 2:
            raise GradientDataError(
                f"a held-out set needs at least 2 trajectories, got {len(groups)}; collect more."
            )
        num_held_out = min(max(round(fraction * len(groups)), 1), len(groups) - 1)
        chosen = np.random.default_rng(seed).permutation(len(groups))[:num_held_out]
        held_out = np.isin(member, chosen)
        return self.select(~held_out), self.select(held_out)
