"""Histories of kept draws on disk: of a run that is being stored, or of a store to read."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from nnghmc.engine.history import ACCEPTANCE, Draws, History
from nnghmc.model.posterior import Posterior
from nnghmc.store.draws import POSITION, POSITIONS, POSTERIOR, STATS, DrawFiles
from nnghmc.store.journal import Journal, unwritable

KEPT, LABELS, WARMUP = "kept", "labels", "warm-up"
"""Kinds of notes in the journal: kept draws so far, digest of labels, digest of the warm-up."""
MOST_BYTES_WAITING = 64 * 2**20
"""Size of unwritten draws above which they are written at once."""


class HistoryOnDisk(History):
    """A history that reads its draws from the Zarr arrays of a store."""

    def __init__(self, files: DrawFiles, num_chains: int):
        super().__init__(num_chains)
        self._files = files
        self._loaded: tuple[int, np.ndarray] | None = None

    @classmethod
    def read_only(
        cls, folder: Path, num_chains: int, dim: int, journal: Journal
    ) -> "HistoryOnDisk":
        """Return the draws that the journal mentions, checked against its digests."""
        history = cls(DrawFiles(folder, num_chains, dim), num_chains)
        history._take_over(journal, check_surplus=False)
        return history

    def _take_over(self, journal: Journal, *, check_surplus: bool) -> None:
        """Check the draws that were written before, and count them."""
        notes = journal.notes(KEPT)
        if not notes:
            return
        length = int(notes[-1]["stop"])
        self._files.check_length(length)
        if check_surplus:
            self._files.cut(length)
        self._files.check(notes)
        for note in journal.notes(LABELS)[-1:]:
            self._files.check_labels(note["digest"])
        for note in journal.notes(WARMUP)[-1:]:
            self._files.check_warmup(note["digest"])
        if ACCEPTANCE in self._files.names(STATS):
            self._count(self._files.read(STATS, ACCEPTANCE, length).T)
        else:
            self._count(np.full((length, self.num_chains), np.nan))

    def _take(self, draws: Draws, states: Any) -> None:
        raise NotImplementedError("a history that was opened for reading takes no draws")

    @property
    def draws(self) -> np.ndarray:
        """Positions, shape (chains, draws, dim), read once and then kept in memory."""
        if self._loaded is None or self._loaded[0] != self.length:
            self._loaded = (self.length, self._files.read(POSITIONS, POSITION, self.length))
        return self._loaded[1]

    @property
    def stats(self) -> dict[str, np.ndarray]:
        """Statistics by ArviZ's names, each of shape (chains, draws), read from disk."""
        names = self._files.names(STATS) if self.length else ()
        return {name: self._files.read(STATS, name, self.length) for name in names}

    @property
    def variables(self) -> dict[str, np.ndarray]:
        """Variables on their natural scale, by name, read from disk."""
        names = self._files.names(POSTERIOR) if self.length else ()
        return {name: self._files.read(POSTERIOR, name, self.length) for name in names}

    def stat(self, name: str) -> np.ndarray:
        """Return one statistic, read from disk."""
        return self._files.read(STATS, name, self.length)

    def spread(self, most: int) -> tuple[np.ndarray, np.ndarray]:
        """Return at most `most` draws per chain, evenly spread, and their potentials."""
        step = max(1, -(-self.length // most))
        return (
            self._files.read(POSITIONS, POSITION, self.length, step),
            -self._files.read(STATS, "lp", self.length, step),
        )


class GrowingHistory(HistoryOnDisk):
    """A history on disk that takes new draws, and writes them some at a time."""

    keeps_itself = True

    def __init__(
        self,
        folder: Path,
        posterior: Posterior,
        num_chains: int,
        journal: Journal,
        clock: Callable[[], float] = time.perf_counter,
    ):
        super().__init__(DrawFiles(folder, num_chains, posterior.dim, posterior), num_chains)
        self._journal, self._clock = journal, clock
        self._waiting: list[Draws] = []
        self._states: Any = None
        self._since = clock()
        notes = journal.notes(KEPT)
        if not notes:
            self._files.begin_anew()
        self._take_over(journal, check_surplus=True)
        self.seconds = float(sum(note["seconds"] for note in notes))

    def states_like(self, states: Any) -> Any:
        """Return the states of the chains after the last draw, or `states` if there is none."""
        content = self._journal.last(KEPT)
        if content is None:
            return states
        leaves = (jax.numpy.asarray(leaf) for leaf in content)
        return jax.tree.unflatten(jax.tree.structure(states), leaves)

    def add(self, draws: Draws, states: Any) -> None:
        """Append one chunk, and write all unwritten draws if it is time to."""
        super().add(draws, states)
        waiting = sum(part.positions.nbytes for part in self._waiting)
        if self._journal.due or waiting > MOST_BYTES_WAITING:
            self.finish()

    def _take(self, draws: Draws, states: Any) -> None:
        self._waiting.append(draws)
        self._states = states

    def finish(self) -> None:
        """Write all unwritten draws, and then the line of the journal that makes them count."""
        if not self._waiting:
            return
        positions, columns = _joined(self._waiting)
        first = self.length - positions.shape[1]
        try:
            blocks = self._files.append(first, positions, columns)
        except OSError as error:
            raise unwritable(self._files.folder.parent, error) from None
        now = self._clock()
        values = {"stop": self.length, "blocks": blocks, "seconds": now - self._since}
        leaves = tuple(np.asarray(leaf) for leaf in jax.tree.leaves(self._states))
        if not self._journal.notes(LABELS):
            self._journal.note(LABELS, {"digest": self._files.labels_digest})
        self._journal.note(KEPT, values, leaves, keep=2)
        self._waiting, self._since = [], now

    def write_warmup(self, positions: np.ndarray, stats: Mapping[str, np.ndarray]) -> None:
        """Write the warm-up draws beside the kept ones, in groups of their own."""
        if not self.length or not positions.shape[1] or self._journal.notes(WARMUP):
            return
        try:
            self._files.write_warmup(positions, stats)
        except OSError as error:
            raise unwritable(self._files.folder.parent, error) from None
        self._journal.note(WARMUP, {"digest": self._files.warmup_digest})


def _joined(waiting: list[Draws]) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Return positions and statistics of several chunks, with leading axes (chain, draw)."""
    columns = [draws.statistics for draws in waiting]
    return (
        np.concatenate([np.swapaxes(draws.positions, 0, 1) for draws in waiting], axis=1),
        {name: np.concatenate([part[name].T for part in columns], axis=1) for name in columns[0]},
    )
