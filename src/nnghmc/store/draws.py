"""Writes kept draws to disk in Zarr while a run makes them, and reads them.

There are three groups, with ArviZ's names: `posterior` has the variables on their natural scale,
`sample_stats` the statistics, and `unconstrained_posterior` the positions, from which a run
continues. Rows are first added to all arrays. Then one file, the consolidated metadata, announces
them, so that a reader sees all of the new draws or none. Zarr and xarray are imported when first
needed, because importing them takes as long as importing JAX.
"""

import shutil
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from nnghmc.errors import StoreError
from nnghmc.model.posterior import Posterior
from nnghmc.platform.files import UNFINISHED, as_bytes, digest, reach_the_disk, write_atomically
from nnghmc.store.journal import damaged

DRAWS = "draws.zarr"
POSTERIOR, STATS, POSITIONS = "posterior", "sample_stats", "unconstrained_posterior"
GROUPS = (POSTERIOR, STATS, POSITIONS)
DATA_GROUPS = ("observed_data", "constant_data")
WARMUP_GROUPS = (f"warmup_{POSTERIOR}", f"warmup_{STATS}")
POSITION = "position"
"""Name of the array of positions, the only one in its group."""
BYTES_PER_FILE = 2 * 2**20
"""Size of the positions in one file of the Zarr array."""
FEWEST_ROWS, MOST_ROWS = 64, 4096
"""Bounds on the number of draws per file."""
BLOCK = 256
"""Number of draws whose variables are computed at once. Blocks start at multiples of it, so that
the same compiled code computes a draw in the same row, whenever the draw is written."""
MOST_BYTES_ASIDE = 2**30
"""Largest size of surplus draws that are set aside, far more than one write can leave."""

Rows = dict[tuple[str, str], np.ndarray]
"""Rows of every array, by group and name; draws are axis 1, or the only axis."""


class DrawFiles:
    """The Zarr arrays of a store, which are read-only without a posterior."""

    def __init__(self, folder: Path, num_chains: int, dim: int, posterior: Posterior | None = None):
        self.folder = folder / DRAWS
        self.num_chains, self.dim = num_chains, dim
        self._posterior = posterior
        bytes_per_row = num_chains * dim * 8
        self.rows_per_file = int(np.clip(BYTES_PER_FILE // bytes_per_row, FEWEST_ROWS, MOST_ROWS))
        self._arrays: dict[tuple[str, str], Any] = {}
        if self.folder.exists():
            self._open()

    @property
    def posterior(self) -> Posterior:
        """The posterior whose variables are written."""
        if self._posterior is None:
            raise StoreError(f"{self.folder} was opened for reading only; use nnghmc.resume.")
        return self._posterior

    def append(
        self, first: int, positions: np.ndarray, columns: dict[str, np.ndarray]
    ) -> dict[str, str]:
        """Add rows to all arrays, and return the digests of the blocks that have changed."""
        stop = first + positions.shape[1]
        rows = self._rows(first, positions, columns)
        if not self._arrays:
            self._create(rows)
        for place, array in self._arrays.items():
            array.resize(_with_length(array, stop))
            array[_span(array, first, stop)] = rows[place].astype(array.dtype)
        self._publish(first, stop)
        blocks = range(first // self.rows_per_file, -(-stop // self.rows_per_file))
        return {str(block): self._digest(block, stop) for block in blocks}

    def read(self, group: str, name: str, length: int, step: int = 1) -> np.ndarray:
        """Return the first `length` rows of one array, or every `step`-th of them."""
        if not self._arrays:
            return np.empty((self.num_chains, 0, self.dim))
        array = self._arrays[group, name]
        parts = []
        for first in range(0, length, self.rows_per_file):
            rows = self._rows_of(array, first, min(first + self.rows_per_file, length))
            parts.append(rows[:, -first % step :: step].copy())
        values = np.concatenate(parts, axis=1)
        return values.astype(bool) if array.attrs.get("dtype") == "bool" else values

    def names(self, group: str) -> list[str]:
        """Return the names of the arrays of a group that have a row per draw."""
        return [name for owner, name in self._arrays if owner == group and name != "draw"]

    def begin_anew(self) -> None:
        """Start with no draws; move a folder of draws that the journal does not know aside."""
        if self.folder.exists():
            self.folder.rename(self.folder.with_name(f"{DRAWS}.aside-{uuid4().hex[:8]}"))
        self._arrays = {}

    def check_length(self, length: int) -> None:
        """Raise an error if the arrays are missing, or if one has fewer than `length` draws."""
        if not self._arrays:
            raise damaged(self.folder.parent, f"{self.folder.name} is missing")
        for (group, name), found in self._lengths.items():
            if found < length:
                place = f"{self.folder.name}/{group}/{name}"
                raise damaged(
                    self.folder.parent, f"{place} has {found} draws, and {length} were written"
                )

    @property
    def _lengths(self) -> dict[tuple[str, str], int]:
        """The number of draws in each array."""
        return {place: array.shape[_axis(array)] for place, array in self._arrays.items()}

    def cut(self, length: int) -> None:
        """Move rows aside that no line of the journal mentions."""
        lengths = self._lengths
        if max(lengths.values()) > length:
            self._set_aside_from(length, lengths)
            for array in self._arrays.values():
                array.resize(_with_length(array, length))
            self._publish(length, length)

    def _set_aside_from(self, first: int, lengths: Mapping[tuple[str, str], int]) -> None:
        """Copy the rows from `first` on to a file of their own, because no draw is ever deleted.

        Raise an error if their positions take more than `MOST_BYTES_ASIDE`, which is 1 GiB.
        """
        surplus = max(lengths.values()) - first
        if surplus * self.num_chains * self.dim * 8 > MOST_BYTES_ASIDE:
            raise damaged(
                self.folder.parent,
                f"{self.folder.name} has {first + surplus} draws, and {first} were written",
            )
        rows = {
            "/".join(place): self._rows_of(array, first, lengths[place])
            for place, array in self._arrays.items()
        }
        name = f"{DRAWS}.aside-{uuid4().hex[:8]}.npz"
        write_atomically(self.folder.with_name(name), as_bytes(rows))

    @property
    def labels_digest(self) -> str:
        """The digest of all arrays without a draw axis: labels and observed data."""
        import zarr

        root: Any = zarr.open_group(self.folder, mode="r", use_consolidated=False)
        return self._digest_of(root, [*GROUPS, *DATA_GROUPS], without_draws=True)

    @property
    def warmup_digest(self) -> str:
        """The digest of the warm-up draws."""
        import zarr

        root: Any = zarr.open_group(self.folder, mode="r", use_consolidated=False)
        return self._digest_of(root, WARMUP_GROUPS, without_draws=False)

    def _digest_of(self, root: Any, groups: Sequence[str], *, without_draws: bool) -> str:
        """Return the digest of the arrays in some groups, or of those without a draw axis."""
        try:
            with _quiet_zarr():
                arrays = [
                    (f"{group}/{name}", np.asarray(array[...]))
                    for group in groups
                    if group in root
                    for name, array in sorted(root[group].arrays())
                    if not without_draws or "draw" not in array.attrs["_ARRAY_DIMENSIONS"]
                ]
        except Exception as error:  # Zarr raises many kinds of errors for a damaged file
            raise damaged(self.folder.parent, f"{self.folder.name}: {error}") from None
        parts = [(name.encode(), str(array.tolist()).encode()) for name, array in arrays]
        return digest(*(part for pair in parts for part in pair))

    def check_labels(self, found: str) -> None:
        """Raise an error if the labels have changed since they were written."""
        if self.labels_digest != found:
            raise damaged(self.folder.parent, f"the labels in {self.folder.name} have changed")

    def check_warmup(self, found: str) -> None:
        """Raise an error if the warm-up draws have changed since they were written."""
        if self.warmup_digest != found:
            raise damaged(
                self.folder.parent, f"the warm-up draws in {self.folder.name} have changed"
            )

    def check(self, notes: Sequence[Mapping[str, Any]]) -> None:
        """Raise an error if draws differ from the digests in the journal's notes."""
        latest = {
            int(block): (found, int(note["stop"]))
            for note in notes
            for block, found in note["blocks"].items()
        }
        for block, (found, stop) in latest.items():
            if self._digest(block, stop) != found:
                first = block * self.rows_per_file
                last = min(stop, first + self.rows_per_file) - 1
                raise damaged(
                    self.folder.parent,
                    f"the draws {first} to {last} in {self.folder.name} have changed since they "
                    "were written",
                )

    def _digest(self, block: int, stop: int) -> str:
        """Return the digest of the draws of one block, up to the draw `stop`."""
        first = block * self.rows_per_file
        stop = min(stop, first + self.rows_per_file)
        rows = [self._rows_of(array, first, stop) for array in self._arrays.values()]
        return digest(*(np.ascontiguousarray(part).tobytes() for part in rows))

    def _rows_of(self, array: Any, first: int, stop: int) -> np.ndarray:
        """Return some rows, or raise an error that says that the store is damaged."""
        try:
            return np.asarray(array[_span(array, first, stop)])
        except Exception as error:  # Zarr raises many kinds of errors for a truncated file
            raise damaged(self.folder.parent, f"{self.folder.name}: {error}") from None

    def _rows(self, first: int, positions: np.ndarray, columns: dict[str, np.ndarray]) -> Rows:
        """Return the rows of all arrays for some draws, numbered from `first`."""
        variables = _in_blocks(self.posterior, first, positions)
        numbers = np.arange(first, first + positions.shape[1])
        return {
            **{(group, "draw"): numbers for group in GROUPS},
            **{(POSTERIOR, name): value for name, value in variables.items()},
            **{(STATS, name): value for name, value in columns.items()},
            (POSITIONS, POSITION): positions,
        }

    def _create(self, rows: Rows) -> None:
        """Create all arrays at once, without rows, with the names and labels of their axes."""
        unfinished = self.folder.with_name(f"{DRAWS}{UNFINISHED}")
        shutil.rmtree(unfinished, ignore_errors=True)
        for group in GROUPS:
            own = {name: values for (owner, name), values in rows.items() if owner == group}
            dataset = self._dataset(own).isel(draw=slice(0, 0))
            encoding = {
                name: {"chunks": self._file_shape(values)}
                for name, values in dataset.variables.items()
                if "draw" in values.dims
            }
            self._write_group(unfinished, group, dataset, encoding)
        for group, values in self._data_groups().items():
            self._write_group(unfinished, group, values)
        unfinished.rename(self.folder)
        reach_the_disk(self.folder.parent)
        self._open()

    def write_warmup(self, positions: np.ndarray, stats: Mapping[str, np.ndarray]) -> None:
        """Write the warm-up draws and their statistics beside the kept ones."""
        numbers = {"draw": np.arange(positions.shape[1])}
        variables = {**numbers, **_in_blocks(self.posterior, 0, positions)}
        datasets = (self._dataset(variables), self._dataset({**numbers, **stats}))
        for group, dataset in zip(WARMUP_GROUPS, datasets, strict=True):
            self._write_group(self.folder, group, dataset)
        _consolidate(self.folder)

    def _dataset(self, variables: Mapping[str, np.ndarray]) -> Any:
        """Return a dataset that names all axes of arrays with leading axes (chain, draw)."""
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

    def _data_groups(self) -> dict[str, Any]:
        """Return the observed data and the other data, in ArviZ's groups, if there are any."""
        import xarray

        found = (self.posterior.observed, self.posterior.constants)
        groups = {}
        for group, values in zip(DATA_GROUPS, found, strict=True):
            named = {
                name: (axis_names(self.posterior, name, array.ndim), array)
                for name, array in values.items()
            }
            coords = {
                axis: self.posterior.coords[axis]
                for dims, _ in named.values()
                for axis in dims
                if axis in self.posterior.coords
            }
            if named:
                groups[group] = xarray.Dataset(named, coords)
        return groups

    def _write_group(self, folder: Path, group: str, dataset: Any, encoding: Any = None) -> None:
        shutil.rmtree(folder / group, ignore_errors=True)
        dataset.to_zarr(
            folder, group=group, mode="a", encoding=encoding, zarr_format=2, consolidated=False
        )

    def _file_shape(self, values: Any) -> tuple[int, ...]:
        """Return the shape of the part of an array that one file holds."""
        return tuple(
            self.rows_per_file if dim == "draw" else max(1, size)
            for dim, size in zip(values.dims, values.shape, strict=True)
        )

    def _open(self) -> None:
        import zarr

        try:
            mode: Any = "r" if self._posterior is None else "r+"
            with _quiet_zarr():
                root: Any = zarr.open_group(self.folder, mode=mode, use_consolidated=False)
                self._arrays = {
                    (group, name): array
                    for group in GROUPS
                    for name, array in sorted(root[group].arrays())
                    if "draw" in array.attrs["_ARRAY_DIMENSIONS"]
                }
            chunks = {array.chunks[_axis(array)] for array in self._arrays.values()}
            (self.rows_per_file,) = chunks
        except Exception as error:  # Zarr raises many kinds of errors for a damaged file
            raise damaged(self.folder.parent, f"{self.folder.name}: {error}") from None

    def _publish(self, first: int, stop: int) -> None:
        """Wait until all files are on disk, then announce the draws to readers."""
        for (group, name), array in self._arrays.items():
            folder = self.folder / group / name
            reach_the_disk(folder / ".zarray")
            for block in range(first // self.rows_per_file, -(-stop // self.rows_per_file)):
                numbers = [0] * array.ndim
                numbers[_axis(array)] = block
                file = folder / ".".join(map(str, numbers))
                if file.exists():  # Zarr writes no file if all values are zero
                    reach_the_disk(file)
        _consolidate(self.folder)


@contextmanager
def _quiet_zarr() -> Iterator[None]:
    """Suppress Zarr's warnings about unknown files; digests show if a known file is missing."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Object at .* is not recognized")
        yield


def _consolidate(folder: Path) -> None:
    """Announce all arrays to readers, in one file that is replaced in one operation."""
    import zarr

    try:
        with _quiet_zarr():
            zarr.consolidate_metadata(folder, zarr_format=2)
    except OSError:
        raise
    except Exception as error:  # Zarr raises many kinds of errors for a damaged file
        raise damaged(folder.parent, f"{folder.name}: {error}") from None
    reach_the_disk(folder / ".zmetadata")


def axis_names(posterior: Posterior, name: str, number: int) -> tuple[str, ...]:
    """Return the names of a variable's axes: the posterior's names, or else ArviZ's."""
    if name == POSITION:
        return ("coordinate",)
    given = tuple(posterior.dims.get(name, ()))
    return given + tuple(f"{name}_dim_{axis}" for axis in range(len(given), number))


def _in_blocks(posterior: Posterior, first: int, positions: np.ndarray) -> dict[str, np.ndarray]:
    """Return the variables at positions (chains, draws, dim) of draws numbered from `first`."""
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
