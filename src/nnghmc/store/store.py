"""The store of a run: a folder that a run writes to as it goes, and can continue from after a stop.

store.json      the posterior and the settings, written once
arguments.npz   arrays among the settings
journal.jsonl   the steps of the run (see journal.py), with their arrays in journal/
draws.zarr/     the kept draws, on their natural scale and as positions
status.json     events and cost so far, for people and for the report
surrogate.npz   the learned surrogate, which nnghmc.load_surrogate reads
"""

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

from nnghmc.engine.method import Request
from nnghmc.errors import StoreError
from nnghmc.model.fingerprint import difference, fingerprint
from nnghmc.model.posterior import Posterior
from nnghmc.platform.codec import Kinds, described, restored
from nnghmc.platform.files import UNFINISHED, as_bytes, digest, from_bytes, seal, write_atomically
from nnghmc.store.journal import damaged, unwritable
from nnghmc.surrogates import Surrogate

FORMAT = "nnghmc store"
FORMAT_VERSION = 2
HEADER, ARGUMENTS, LOCK, STATUS = "store.json", "arguments.npz", "lock", "status.json"
SURROGATE = "surrogate.npz"
LONGEST_NAME = 200
"""Largest length of a variable's name in bytes; file systems allow 255, also for longer temporary
names."""


@dataclass(frozen=True)
class Store:
    """The folder of a stored run, and its header.

    Attributes:
        folder: the path of the folder.
        header: the contents of store.json.
    """

    folder: Path
    header: Mapping[str, Any]

    @classmethod
    def create(cls, path: Any, posterior: Posterior, request: Request, kinds: Kinds) -> "Store":
        """Create the folder, and write which posterior is to be sampled and by which method."""
        folder = store_folder(path)
        _check_file_names(posterior)
        arrays: dict[str, np.ndarray] = {}
        try:
            written = described(request, arrays, kinds)
        except TypeError as error:
            raise StoreError(
                "the settings of a stored run must be of the package's own classes, and "
                f"{error}. Use one of those classes, or leave store out."
            ) from None
        contents = as_bytes(arrays)
        header = _header(posterior, request) | {"request": written, "arrays": digest(contents)}
        header["seal"] = seal(header)
        _make(folder)
        try:
            write_atomically(folder / ARGUMENTS, contents)
            write_atomically(folder / HEADER, json.dumps(header, indent=1).encode())
        except OSError as error:
            raise unwritable(folder, error) from None
        return cls(folder, header)

    @classmethod
    def open(cls, path: Any) -> "Store":
        """Open an existing store, or raise an error that says what is wrong with it."""
        folder = store_folder(path)
        if not folder.is_dir():
            raise StoreError(
                f"{folder} must be the folder of a store, and there is no such folder."
            )
        try:
            header = json.loads((folder / HEADER).read_bytes())
            if header["format"] != FORMAT:
                raise ValueError
            found = int(header["format_version"])
        except OSError as error:
            raise StoreError(
                f"{folder} must be a folder that sample(..., store=...) has made; {HEADER}: "
                f"{error.strerror}."
            ) from None
        except (ValueError, KeyError, TypeError):
            raise damaged(folder, f"{HEADER} is not what was written there") from None
        _check_format(folder, found, header.get("package_version"))
        if header.pop("seal", None) != seal(header):
            raise damaged(folder, f"{HEADER} has changed since it was written")
        return cls(folder, header)

    def request(self, kinds: Kinds) -> Request:
        """Return the request that `sample` made the store for."""
        contents = _read(self.folder, ARGUMENTS)
        if digest(contents) != self.header["arrays"]:
            raise damaged(self.folder, f"{ARGUMENTS} has changed since it was written")
        try:
            found: Request = restored(self.header["request"], from_bytes(contents), kinds)
        except KeyError:
            raise StoreError(
                f"the store {self.folder} was sampled by {self.header['method']}, which this "
                "process does not know; import the module that defines it, and try again."
            ) from None
        except (ValueError, TypeError) as error:
            raise self._other_version(str(error)) from None
        return found

    def check_same(self, posterior: Posterior) -> None:
        """Raise an error if the posterior is not the one that the run began with."""
        found = difference(self.header["fingerprint"], fingerprint(posterior))
        if found:
            raise StoreError(
                f"the store {self.folder} belongs to another posterior: {found}. Give the one that "
                "the run began with, or start again in another folder."
            )

    def check_version(self) -> None:
        """Raise an error if another version of the package began the run."""
        if self.header["package_version"] != version("nnghmc"):
            raise self._other_version("this version would go on with other draws")

    def _other_version(self, reason: str) -> StoreError:
        """Return the error for a run that another version of the package began."""
        return StoreError(
            f"the run in {self.folder} was begun by nnghmc {self.header['package_version']}, and "
            f"this is {version('nnghmc')}: {reason}. Read it with nnghmc.load, go on with it under "
            "that version, or start again in another folder."
        )

    @property
    def moved_from(self) -> str:
        """The version of JAX and the platform that the run began with; empty if still the same."""
        before = (self.header["jax_version"], self.header["platform"])
        now = (jax.__version__, jax.default_backend())
        return "" if before == now else f"JAX {before[0]} on {before[1]}"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the store against other writers; the system unlocks it if the process dies."""
        self.check_no_links()
        try:
            file = (self.folder / LOCK).open("a")
        except OSError as error:
            raise unwritable(self.folder, error) from None
        with file:
            if not _lock(file):
                raise StoreError(
                    f"the store {self.folder} is in use by another run; wait for it, or stop it."
                )
            yield

    def check_no_links(self) -> None:
        """Raise an error for symbolic links: a run must not write outside its store."""
        for folder, folders, files in os.walk(self.folder):
            for name in (*folders, *files):
                if (Path(folder) / name).is_symlink():
                    raise StoreError(
                        f"a store must hold no symbolic links, and {Path(folder) / name} is one; "
                        "replace it by what it points to."
                    )

    def write_status(self, status: Mapping[str, Any]) -> None:
        """Replace the status of the run."""
        sealed = {**status, "seal": seal(status)}
        try:
            write_atomically(self.folder / STATUS, json.dumps(sealed, indent=1).encode())
        except OSError as error:
            raise unwritable(self.folder, error) from None

    @property
    def status(self) -> dict[str, Any]:
        """The status of the run when it was last written; empty before that."""
        if not (self.folder / STATUS).exists():
            return {}
        try:
            status = dict(json.loads(_read(self.folder, STATUS)))
        except (ValueError, TypeError) as error:
            raise damaged(self.folder, f"{STATUS}: {error}") from None
        if status.pop("seal", None) != seal(status):
            raise damaged(self.folder, f"{STATUS} has changed since it was written")
        return status

    def write_surrogate(self, surrogate: Surrogate | None) -> None:
        """Write the surrogate, if there is one, to a file of its own that is easy to find."""
        if surrogate is not None:
            surrogate.save(self.folder / SURROGATE)


def _header(posterior: Posterior, request: Request) -> dict[str, Any]:
    """Return what the header says about versions, posterior and request."""
    method = request.method
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "package_version": version("nnghmc"),
        "jax_version": jax.__version__,
        "platform": jax.default_backend(),
        "model": repr(posterior),
        "dim": posterior.dim,
        "coordinates": list(posterior.layout.coordinate_names),
        "origin": posterior.origin,
        "fingerprint": fingerprint(posterior),
        "draws": request.draws,
        "chains": request.chains,
        "seed": request.seed,
        "method": f"{type(method).__module__}.{type(method).__qualname__}",
        "title": method.title,
        "exact": method.exact,
        "adaptive": method.adaptive,
    }


def _check_format(folder: Path, found: int, package: Any) -> None:
    """Raise an error for a format that this version cannot read."""
    if found > FORMAT_VERSION:
        raise StoreError(
            f"the store {folder} has format {found}, of nnghmc {package}, and this version reads "
            f"formats up to {FORMAT_VERSION}; upgrade nnghmc."
        )
    if found < FORMAT_VERSION:
        raise StoreError(
            f"the store {folder} has format {found}, which holds a log of single steps instead of "
            f"the results of phases; read it with the version that wrote it, nnghmc {package}."
        )


def _read(folder: Path, name: str) -> bytes:
    """Return the contents of a file, or raise an error that says that the store is damaged."""
    try:
        return (folder / name).read_bytes()
    except OSError as error:
        raise damaged(folder, f"{name}: {error.strerror}") from None


def store_folder(path: Any) -> Path:
    """Return the folder that a user names, or raise an error if it is not a path."""
    if not isinstance(path, str | os.PathLike) or "\0" in str(path) or not str(path):
        raise StoreError(f"store must be the path of a folder, got {path!r}.")
    return Path(path)


def _check_file_names(posterior: Posterior) -> None:
    """Raise an error for a variable whose name cannot be that of its folder in the store."""
    for name in posterior.variables(np.asarray(posterior.initial)[np.newaxis]):
        if len(name.encode()) > LONGEST_NAME or name.startswith("."):
            raise StoreError(
                f"a variable of a stored run must have a name of at most {LONGEST_NAME} bytes that "
                f"does not begin with a dot, got {name!r}; choose another, or leave store out."
            )


def _lock(file: TextIO) -> bool:
    """Lock a file, and return whether that succeeded; always True on Windows, without a lock."""
    if os.name == "nt":
        return True
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _make(folder: Path) -> None:
    """Create the folder, or raise an error if it exists and is not empty."""
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
