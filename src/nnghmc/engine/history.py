"""Histories hold draws and their statistics, which grow chunk by chunk."""

import abc
from typing import Any, NamedTuple

import numpy as np

ACCEPTANCE = "acceptance_rate"
"""ArviZ's name for the acceptance probability of a draw."""


class Draws(NamedTuple):
    """Draws of one chunk; the leading axes of all arrays are (draw, chain).

    `statistics` are by ArviZ's names, including the log density `lp`. `recorded` holds any further
    arrays that the kernel records.
    """

    positions: Any
    statistics: dict[str, Any]
    recorded: Any = None

    def __len__(self) -> int:
        return len(self.positions)


class History(abc.ABC):
    """Draws and their statistics, with leading axes (chain, draw)."""

    keeps_itself = False
    """Whether the history writes its draws to disk, so that no checkpoint needs to hold them."""

    def __init__(self, num_chains: int):
        self.num_chains = num_chains
        self.length = 0
        self._acceptance_by_chain = np.zeros(num_chains)  # sums, so that the mean is cheap

    def add(self, draws: Draws, states: Any) -> None:
        """Append the draws of one chunk; `states` are those of the chains after it."""
        self._take(draws, states)
        rates = draws.statistics.get(ACCEPTANCE)
        self._count(np.full((len(draws), self.num_chains), np.nan) if rates is None else rates)

    def _count(self, acceptance_rates: np.ndarray) -> None:
        """Count draws with acceptance rates of shape (draws, chains)."""
        self._acceptance_by_chain += acceptance_rates.sum(axis=0)
        self.length += len(acceptance_rates)

    @abc.abstractmethod
    def _take(self, draws: Draws, states: Any) -> None: ...

    def finish(self) -> None:
        """Write all unwritten draws."""
        return

    @property
    @abc.abstractmethod
    def draws(self) -> np.ndarray:
        """Positions, shape (chains, draws, dim)."""

    @property
    @abc.abstractmethod
    def stats(self) -> dict[str, np.ndarray]:
        """Statistics by ArviZ's names, each of shape (chains, draws)."""

    def stat(self, name: str) -> np.ndarray:
        """Return one of the statistics."""
        return self.stats[name]

    def spread(self, most: int) -> tuple[np.ndarray, np.ndarray]:
        """Return at most `most` draws per chain, evenly spread, and their potentials."""
        rows = slice(None, None, max(1, -(-self.length // most)))
        return self.draws[:, rows], -self.stat("lp")[:, rows]

    @property
    def acceptance(self) -> float:
        """The mean acceptance probability; NaN without draws or without a Metropolis test."""
        return (
            float(self._acceptance_by_chain.mean() / self.length) if self.length else float("nan")
        )

    @property
    def worst_acceptance(self) -> float:
        """The mean acceptance probability of the chain with the lowest one."""
        return float(self._acceptance_by_chain.min() / self.length) if self.length else float("nan")

    @property
    def size(self) -> int:
        """The number of draws of all chains together."""
        return self.num_chains * self.length


class HistoryInMemory(History):
    """A history in memory, with room for a fixed number of draws."""

    def __init__(self, num_chains: int, num_draws: int, dim: int):
        super().__init__(num_chains)
        self._positions = np.empty((num_chains, num_draws, dim))
        self._stats: dict[str, np.ndarray] = {}

    def _take(self, draws: Draws, states: Any) -> None:
        rows = slice(self.length, self.length + len(draws))
        self._positions[:, rows] = np.swapaxes(draws.positions, 0, 1)
        for name, values in draws.statistics.items():
            if name not in self._stats:
                self._stats[name] = np.empty(self._positions.shape[:2], values.dtype)
            self._stats[name][:, rows] = values.T

    def longer(self, more: int) -> "HistoryInMemory":
        """Return a copy with room for more draws per chain."""
        chains, _, dim = self._positions.shape
        copy = HistoryInMemory(chains, self.length + more, dim)
        copy._positions[:, : self.length] = self.draws
        for name, values in self.stats.items():
            copy._stats[name] = np.empty(copy._positions.shape[:2], values.dtype)
            copy._stats[name][:, : self.length] = values
        copy.length = self.length
        copy._acceptance_by_chain = self._acceptance_by_chain.copy()
        return copy

    @property
    def draws(self) -> np.ndarray:
        """Positions, shape (chains, draws, dim)."""
        return self._positions[:, : self.length]

    @property
    def stats(self) -> dict[str, np.ndarray]:
        """Statistics by ArviZ's names, each of shape (chains, draws)."""
        return {name: values[:, : self.length] for name, values in self._stats.items()}
