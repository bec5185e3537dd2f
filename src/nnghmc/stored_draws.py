"""Kept draws on disk, in Zarr, written as they are made and readable while they are.

Three groups, as ArviZ names them: `posterior` has the variables on their natural scale,
`sample_stats` the statistics, `unconstrained_posterior` the positions, to go on from and to compare
bit by bit. Rows are added to all arrays, and then one file, the consolidated metadata, tells of
them: whoever reads sees all of the new draws or none. Zarr and xarray are loaded when first needed,
since that takes as long as JAX does.
"""

import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from nnghmc.chains import Draws, History, columns_of
from nnghmc.files import digest, reach_the_disk
from nnghmc.journal import Journal, damaged, unwritable
from nnghmc.kernels.hmc import HMCState
from nnghmc.posterior import Posterior

DRAWS = "draws.zarr"
POSTERIOR, STATS, POSITIONS = "posterior", "sample_stats", "unconstrained_posterior"
GROUPS = (POSTERIOR, STATS, POSITIONS)
POSITION = "position"
"""The name of the positions, which no variable of a model has in its own group."""
KEPT = "kept"
"""The kind of note in the journal that says how many draws there are."""
BYTES_A_FILE = 2 * 2**20
FEWEST_ROWS, MOST_ROWS = 64, 4096
BLOCK = 256
"""Draws whose variables are computed at once. Blocks start at multiples of it, so that a draw is
computed in the same place of the same compiled code, whenever it is written."""
MOST_BYTES_WAITING = 64 * 2**20

Rows = dict[tuple[str, str], np.ndarray]
"""Some rows of every array, by group and name; the draw is axis 1, or the only one."""


class StoredHistory(History):
    """Draws that are on disk, and those that wait to be written with the next lot."""

    keeps_itself = True

    def __init__(self, folder: Path, posterior: Posterior, num_chains: int, journal: Journal):
        super().__init__(num_chains)
        self.states: HMCState | None = None
        self._files = _DrawFiles(folder, posterior, num_chains)
        self._journal = journal
        self._waiting: list[Draws] = []
        self._loaded: tuple[int, np.ndarray] | None = None
        self._since = time.perf_counter()
        self._take_over()

    def add(self, draws: Draws, states: HMCState) -> None:
        """Take one more chunk, and write what there is when it is time."""
        super().add(draws, states)
        waiting = sum(part.positions.nbytes for part in self._waiting)
        if self._journal.due or waiting > MOST_BYTES_WAITING:
            self.finish()

    def _take(self, draws: Draws, states: HMCState) -> None:
        self._waiting.append(draws)
        self.states = states

    def finish(self) -> None:
        """Write all draws that wait, and then the line that makes them count."""
        if not self._waiting:
            return
        positions, columns = _joined(self._waiting)
        stop = self.length
        first = stop - positions.shape[1]
        try:
            blocks = self._files.append(first, positions, columns)
        except OSError as error:
            raise unwritable(self._files.folder.parent, error) from None
        now = time.perf_counter()
        note = {
            "kind": KEPT,
            "stop": stop,
            "blocks": blocks,
            "seconds": now - self._since,
        }
        assert self.states is not None
        states = {name: np.asarray(part) for name, part in self.states._asdict().items()}
        self._journal.note(note, states, keep=2)
        self._waiting, self._since = [], now

    @property
    def draws(self) -> np.ndarray:
        """Positions, shape (chains, draws, dim), read from disk, and kept in memory from then."""
        if self._loaded is None or self._loaded[0] != self.length:
            self._loaded = (self.length, self._files.read(POSITIONS, POSITION, self.length))
        return self._loaded[1]

    @property
    def stats(self) -> dict[str, np.ndarray]:
        """Statistics under ArviZ's names, each of shape (chains, draws), read from disk."""
        names = self._files.names(STATS) if self.length else ()
        return {name: self._files.read(STATS, name, self.length) for name in names}

    def stat(self, name: str) -> np.ndarray:
        """One statistic, read from disk."""
        return self._files.read(STATS, name, self.length)

    def spread(self, most: int) -> tuple[np.ndarray, np.ndarray]:
        """At most so many draws a chain, spread evenly, and their potentials; little is read."""
        step = max(1, -(-self.length // most))
        return (
            self._files.read(POSITIONS, POSITION, self.length, step),
            -self._files.read(STATS, "lp", self.length, step),
        )

    def write_warmup(self, positions: np.ndarray, stats: Mapping[str, np.ndarray]) -> None:
        """Put draws that were not kept beside the kept ones, in groups of their own."""
        if self.length and positions.shape[1]:
            try:
                self._files.write_warmup(positions, stats)
            except OSError as error:
                raise unwritable(self._files.folder.parent, error) from None

    def _take_over(self) -> None:
        """What was written before, checked; what was on its way when it stopped is removed."""
        notes = self._journal.notes_of(KEPT)
        if not notes:
            self._files.remove()
            return
        self._files.cut(int(notes[-1]["stop"]))
        self._files.check(notes)
        arrays = self._journal.arrays_of_last(KEPT)
        self.states = HMCState(**{name: jnp.asarray(value) for name, value in arrays.items()})
        self._count(self._files.read(STATS, "acceptance_rate", int(notes[-1]["stop"])).T)
        self._journal.seconds_recalled += sum(note["seconds"] for note in notes)


def _joined(waiting: list[Draws]) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Positions and statistics of several chunks, leading axes (chain, draw)."""
    columns = [columns_of(draws) for draws in waiting]
    return (
        np.concatenate([np.swapaxes(draws.positions, 0, 1) for draws in waiting], axis=1),
        {name: np.concatenate([part[name].T for part in columns], axis=1) for name in columns[0]},
    )


class _DrawFiles:
    """The Zarr arrays of a store."""

    def __init__(self, folder: Path, posterior: Posterior, num_chains: int):
        self.folder = folder / DRAWS
        self.posterior = posterior
        self.num_chains = num_chains
        bytes_a_row = num_chains * posterior.dim * 8
        self.rows_a_file = int(np.clip(BYTES_A_FILE // bytes_a_row, FEWEST_ROWS, MOST_ROWS))
        self._arrays: dict[tuple[str, str], Any] = {}
        if self.folder.exists():
            self._open()

    def append(
        self, first: int, positions: np.ndarray, columns: dict[str, np.ndarray]
    ) -> dict[str, str]:
        """Add rows to all arrays; returns the digests of the blocks that have changed."""
        stop = first + positions.shape[1]
        rows = self._rows(first, positions, columns)
        if not self._arrays:
            self._create(rows)
        for place, array in self._arrays.items():
            array.resize(_with_length(array, stop))
            array[_span(array, first, stop)] = rows[place].astype(array.dtype)
        self._publish(first, stop)
        blocks = range(first // self.rows_a_file, -(-stop // self.rows_a_file))
        return {str(block): self._digest(block, stop) for block in blocks}

    def read(self, group: str, name: str, length: int, step: int = 1) -> np.ndarray:
        """The first rows of one array, or every so many of them."""
        if not self._arrays:
            return np.empty((self.num_chains, 0, self.posterior.dim))
        array = self._arrays[group, name]
        parts = []
        for first in range(0, length, self.rows_a_file):
            rows = array[_span(array, first, min(first + self.rows_a_file, length))]
            parts.append(np.asarray(rows)[:, -first % step :: step].copy())
        values = np.concatenate(parts, axis=1)
        return values.astype(bool) if array.attrs.get("dtype") == "bool" else values

    def names(self, group: str) -> list[str]:
        """The arrays of a group that have draws."""
        return [name for owner, name in self._arrays if owner == group and name != "draw"]

    def remove(self) -> None:
        """Begin with nothing."""
        self._arrays = {}
        shutil.rmtree(self.folder, ignore_errors=True)

    def cut(self, length: int) -> None:
        """Forget rows that no line of the journal speaks of."""
        if not self._arrays:
            raise damaged(self.folder.parent, f"{self.folder.name} is missing")
        lengths = {place: array.shape[_axis(array)] for place, array in self._arrays.items()}
        for (group, name), found in lengths.items():
            if found < length:
                raise damaged(
                    self.folder.parent,
                    f"{self.folder.name}/{group}/{name} has {found} draws, and {length} were "
                    "written",
                )
        for array in self._arrays.values():
            array.resize(_with_length(array, length))
        self._publish(length, length)

    def check(self, notes: list[Mapping[str, Any]]) -> None:
        """Compare everything with the digests in the journal."""
        latest = {
            int(block): (found, int(note["stop"]))
            for note in notes
            for block, found in note["blocks"].items()
        }
        for block, (found, stop) in latest.items():
            if self._digest(block, stop) != found:
                first = block * self.rows_a_file
                last = min(stop, first + self.rows_a_file) - 1
                raise damaged(
                    self.folder.parent,
                    f"the draws {first} to {last} in {self.folder.name} have changed since they "
                    "were written",
                )

    def _digest(self, block: int, stop: int) -> str:
        first = block * self.rows_a_file
        stop = min(stop, first + self.rows_a_file)
        try:
            rows = [np.asarray(array[_span(array, first, stop)]) for array in self._arrays.values()]
        except Exception as error:  # whatever a file that was cut short leads Zarr to
            raise damaged(self.folder.parent, f"{self.folder.name}: {error}") from None
        return digest(*(np.ascontiguousarray(part).tobytes() for part in rows))

    def _rows(self, first: int, positions: np.ndarray, columns: dict[str, np.ndarray]) -> Rows:
        variables = _in_blocks(self.posterior, first, positions)
        numbers = np.arange(first, first + positions.shape[1])
        return {
            **{(group, "draw"): numbers for group in GROUPS},
            **{(POSTERIOR, name): value for name, value in variables.items()},
            **{(STATS, name): value for name, value in columns.items()},
            (POSITIONS, POSITION): positions,
        }

    def _create(self, rows: Rows) -> None:
        """Arrays without a row, with the names and labels of their axes."""
        for group in GROUPS:
            own = {name: values for (owner, name), values in rows.items() if owner == group}
            dataset = self._dataset(own).isel(draw=slice(0, 0))
            encoding = {
                name: {"chunks": self._file_shape(values)}
                for name, values in dataset.variables.items()
                if "draw" in values.dims
            }
            self._write_group(group, dataset, encoding)
        self._open()

    def write_warmup(self, positions: np.ndarray, stats: Mapping[str, np.ndarray]) -> None:
        """Put draws that were not kept, and their statistics, beside the kept ones."""
        numbers = {"draw": np.arange(positions.shape[1])}
        variables = {**numbers, **_in_blocks(self.posterior, 0, positions)}
        self._write_group(f"warmup_{POSTERIOR}", self._dataset(variables))
        self._write_group(f"warmup_{STATS}", self._dataset({**numbers, **stats}))
        _consolidate(self.folder)

    def _dataset(self, variables: Mapping[str, np.ndarray]) -> Any:
        """Arrays of leading axes (chain, draw), and their draw numbers, with names for all axes."""
        import xarray

        named = {}
        coords: dict[str, Any] = {"chain": np.arange(self.num_chains), "draw": variables["draw"]}
        for name, values in variables.items():
            if name == "draw":
                continue
            dims = axis_names(self.posterior, name, values.ndim - 2)
            named[name] = (("chain", "draw", *dims), values)
            for dim, size in zip(dims, values.shape[2:], strict=True):
                coords.setdefault(dim, self.posterior.coords.get(dim, np.arange(size)))
        if "coordinate" in coords:
            coords["coordinate"] = self.posterior.layout.coordinate_names
        return xarray.Dataset(named, coords, {"inference_library": "nnghmc"})

    def _write_group(self, group: str, dataset: Any, encoding: Any = None) -> None:
        shutil.rmtree(self.folder / group, ignore_errors=True)
        dataset.to_zarr(
            self.folder, group=group, mode="a", encoding=encoding, zarr_format=2, consolidated=False
        )

    def _file_shape(self, values: Any) -> tuple[int, ...]:
        return tuple(
            self.rows_a_file if dim == "draw" else max(1, size)
            for dim, size in zip(values.dims, values.shape, strict=True)
        )

    def _open(self) -> None:
        import zarr

        try:
            root: Any = zarr.open_group(self.folder, mode="r+", use_consolidated=False)
            self._arrays = {
                (group, name): array
                for group in GROUPS
                for name, array in sorted(root[group].arrays())
                if "draw" in array.attrs["_ARRAY_DIMENSIONS"]
            }
        except Exception as error:  # whatever a torn file leads Zarr to
            raise damaged(self.folder.parent, f"{self.folder.name}: {error}") from None

    def _publish(self, first: int, stop: int) -> None:
        """See to it that everything is on disk, then tell of it."""
        for (group, name), array in self._arrays.items():
            folder = self.folder / group / name
            reach_the_disk(folder / ".zarray")
            for block in range(first // self.rows_a_file, -(-stop // self.rows_a_file)):
                numbers = [0] * array.ndim
                numbers[_axis(array)] = block
                file = folder / ".".join(map(str, numbers))
                if file.exists():  # Zarr writes no file for nothing but zeros
                    reach_the_disk(file)
        _consolidate(self.folder)


def _consolidate(folder: Path) -> None:
    """Tell whoever reads what there is now, in one file that is replaced in one stroke."""
    import zarr

    zarr.consolidate_metadata(folder, zarr_format=2)
    reach_the_disk(folder / ".zmetadata")


def axis_names(posterior: Posterior, name: str, number: int) -> tuple[str, ...]:
    """The names of a variable's axes: those given, or what ArviZ calls them."""
    if name == POSITION:
        return ("coordinate",)
    given = tuple(posterior.dims.get(name, ()))
    return given + tuple(f"{name}_dim_{axis}" for axis in range(len(given), number))


def _in_blocks(posterior: Posterior, first: int, positions: np.ndarray) -> dict[str, np.ndarray]:
    """The variables of positions (chains, draws, dim), the first of which is draw `first`."""
    start, stop = first - first % BLOCK, first + positions.shape[1]
    padded = np.repeat(positions[:, :1], -(-(stop - start) // BLOCK) * BLOCK, axis=1)
    padded[:, first - start : stop - start] = positions
    blocks = np.split(padded, padded.shape[1] // BLOCK, axis=1)
    found = [posterior.variables(block) for block in blocks]
    return {
        name: np.concatenate([part[name] for part in found], axis=1)[
            :, first - start : stop - start
        ]
        for name in found[0]
    }


def _axis(array: Any) -> int:
    return int(array.attrs["_ARRAY_DIMENSIONS"].index("draw"))


def _span(array: Any, first: int, stop: int) -> tuple[slice, ...]:
    return (*(slice(None) for _ in range(_axis(array))), slice(first, stop))


def _with_length(array: Any, length: int) -> tuple[int, ...]:
    shape = list(array.shape)
    shape[_axis(array)] = length
    return tuple(shape)
