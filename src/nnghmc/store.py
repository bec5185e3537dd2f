"""The store of a run: a folder that a run fills as it goes, and goes on from after any stop.

store.json      what is sampled and how: written once
journal.jsonl   every step that took time (see journal.py), with its arrays in journal/
draws.zarr/     the kept draws, on their natural scale and as positions
status.json     story, remarks and cost so far, for people and for the report
    surrogate.npz   what was learned; nnghmc.load_surrogate reads it
"""

import dataclasses
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, TextIO

import jax
import numpy as np

from nnghmc.description import Kinds, described, restored
from nnghmc.errors import StoreError
from nnghmc.files import UNFINISHED, as_bytes, digest, from_bytes, seal, write_atomically
from nnghmc.fingerprint import difference, fingerprint
from nnghmc.journal import damaged, unwritable
from nnghmc.posterior import Posterior
from nnghmc.surrogates import GradientData, Surrogate, load_surrogate

FORMAT = "nnghmc store"
FORMAT_VERSION = 1
HEADER, ARGUMENTS, LOCK, STATUS = "store.json", "arguments.npz", "lock", "status.json"
SURROGATE, HELD_OUT = "surrogate.npz", "held_out.npz"


@dataclass(frozen=True)
class Store:
    """A folder, and what its header says."""

    folder: Path
    header: Mapping[str, Any]

    @classmethod
    def create(
        cls, folder: Path, posterior: Posterior, arguments: Mapping[str, Any], kinds: Kinds
    ) -> "Store":
        """Make the folder, and write down what is to be sampled and how."""
        arrays: dict[str, np.ndarray] = {}
        written = {}
        for name, value in arguments.items():
            try:
                written[name] = described(value, arrays, kinds)
            except TypeError as error:
                raise StoreError(
                    f"{name} must be of the package's own kinds where a store is written: {error}. "
                    "Leave store out, or use one of those."
                ) from None
        contents = as_bytes(arrays)
        header = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "package_version": version("nnghmc"),
            "jax_version": jax.__version__,
            "platform": jax.default_backend(),
            "posterior": repr(posterior),
            "coordinates": posterior.layout.coordinate_names,
            "origin": posterior.origin,
            "fingerprint": fingerprint(posterior),
            "arguments": written,
            "arrays": digest(contents),
        }
        header["seal"] = seal(header)
        _make(folder)
        try:
            write_atomically(folder / ARGUMENTS, contents)
            write_atomically(folder / HEADER, json.dumps(header, indent=1).encode())
        except OSError as error:
            raise unwritable(folder, error) from None
        return cls(folder, header)

    @classmethod
    def open(cls, folder: Path) -> "Store":
        """A store that is there, or what is wrong with it."""
        if not folder.is_dir():
            raise StoreError(
                f"{folder} must be the folder of a store, and there is no such folder."
            )
        try:
            header = json.loads((folder / HEADER).read_bytes())
            if header["format"] != FORMAT:
                raise ValueError
        except OSError as error:
            raise StoreError(
                f"{folder} must be a folder that sample(..., store=...) has made; {HEADER}: "
                f"{error.strerror}."
            ) from None
        except (ValueError, KeyError, TypeError):
            raise damaged(folder, f"{HEADER} is not what was written there") from None
        if header.get("package_version") != version("nnghmc"):
            raise StoreError(
                f"the store {folder} was written by nnghmc {header.get('package_version')}, and "
                f"this is {version('nnghmc')}: draws would not go on as they began. Install that "
                "version, or start anew in another folder."
            )
        if header.pop("seal", None) != seal(header):
            raise damaged(folder, f"{HEADER} has changed since it was written")
        return cls(folder, header)

    def arguments(self, kinds: Kinds) -> dict[str, Any]:
        """What `sample` was called with."""
        try:
            contents = (self.folder / ARGUMENTS).read_bytes()
        except OSError as error:
            raise damaged(self.folder, f"{ARGUMENTS}: {error.strerror}") from None
        if digest(contents) != self.header["arrays"]:
            raise damaged(self.folder, f"{ARGUMENTS} has changed since it was written")
        arrays = from_bytes(contents)
        return {
            name: restored(node, arrays, kinds) for name, node in self.header["arguments"].items()
        }

    def check_same(self, posterior: Posterior) -> None:
        """Refuse another posterior than the one this run began with."""
        found = difference(self.header["fingerprint"], fingerprint(posterior))
        if found:
            raise StoreError(
                f"the store {self.folder} belongs to another posterior: {found}. Give the one it "
                "was begun with, or start anew in another folder."
            )

    @property
    def elsewhere(self) -> str:
        """What may keep draws from being bit for bit the same here; empty if nothing does."""
        before = (self.header["jax_version"], self.header["platform"])
        now = (jax.__version__, jax.default_backend())
        if before == now:
            return ""
        return (
            f"begun with JAX {before[0]} on {before[1]} and gone on with by JAX {now[0]} on "
            f"{now[1]}: exact, but not bit for bit what it would have been there"
        )

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Nobody else writes to it meanwhile; the system unlocks it if the process dies."""
        try:
            file = (self.folder / LOCK).open("w")
        except OSError as error:
            raise unwritable(self.folder, error) from None
        with file:
            if not _lock(file):
                raise StoreError(
                    f"the store {self.folder} is in use by another run; wait for it, or stop it."
                )
            yield

    def write_status(self, status: Mapping[str, Any]) -> None:
        """Put what is known so far in the place of what was."""
        try:
            write_atomically(self.folder / STATUS, json.dumps(status, indent=1).encode())
        except OSError as error:
            raise unwritable(self.folder, error) from None

    def write_surrogate(self, surrogate: Surrogate | None) -> None:
        """Keep what was learned last where a person finds it, with what was held out of it."""
        if surrogate is None:
            return
        surrogate.save(self.folder / SURROGATE)
        held_out = surrogate.held_out
        if held_out is not None:
            points = {"positions": held_out.positions, "gradients": held_out.gradients}
            try:
                write_atomically(self.folder / HELD_OUT, as_bytes(points))
            except OSError as error:
                raise unwritable(self.folder, error) from None

    @property
    def surrogate(self) -> Surrogate | None:
        """What was learned last, with what was held out of it; None where nothing was learned."""
        if not (self.folder / SURROGATE).exists():
            return None
        surrogate = load_surrogate(self.folder / SURROGATE)
        if not (self.folder / HELD_OUT).exists():
            return surrogate
        try:
            held_out = GradientData.of_points(**from_bytes((self.folder / HELD_OUT).read_bytes()))
        except Exception as error:  # whatever a damaged file leads to
            raise damaged(self.folder, f"{HELD_OUT}: {error}") from None
        return dataclasses.replace(surrogate, held_out=held_out)

    @property
    def status(self) -> dict[str, Any]:
        """What was known when it was last written; nothing before that."""
        try:
            return dict(json.loads((self.folder / STATUS).read_bytes()))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise damaged(self.folder, f"{STATUS}: {error}") from None


def _lock(file: TextIO) -> bool:
    """Whether the file could be locked; Windows has no such locks, and two runs go unnoticed."""
    if os.name == "nt":
        return True
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _make(folder: Path) -> None:
    """The folder, which must be new or empty."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        found = {path.name for path in folder.iterdir()} - {ARGUMENTS, LOCK}
        taken = [name for name in found if not name.endswith(UNFINISHED)]
    except FileExistsError:
        raise StoreError(
            f"store must be a folder, and {folder} is a file; choose another."
        ) from None
    except OSError as error:
        raise StoreError(
            f"store must be a folder that can be written to; {folder}: {error.strerror}."
        ) from None
    if not taken:
        return
    if (folder / HEADER).exists():
        raise StoreError(
            f"store must be a new folder, and {folder} holds a run already. Go on with it by "
            f"nnghmc.resume({str(folder)!r}), or choose another folder."
        )
    raise StoreError(f"store must be a new or empty folder, and {folder} is not; choose another.")
