"""The journal of a store: an append-only log of the steps of a run, in which each line is sealed.

Several steps are written at once, and a note by itself. Their arrays go to a file of their own;
then one line goes to the log, and from then on they count. Each line has the digest
of that file, and a seal over itself and all lines before it. A line that a crash cut short does not
count. Anything else that is wrong with a journal is damage and raises an error.
"""

import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from nnghmc.engine.checkpoint import NoCheckpoint, Remembered
from nnghmc.errors import StoreError, UnreadableError
from nnghmc.platform.codec import Kinds, described, restored
from nnghmc.platform.files import as_bytes, digest, from_bytes, seal, write_atomically

LOG = "journal.jsonl"
FOLDER = "journal"
LEAST_SECONDS = 1.0
"""Least number of seconds between two writes. A crash loses at most that much work and the current
chunk, unless writing is slow."""
SHARE_OF_TIME = 0.04
"""Upper bound on the fraction of wall time spent writing."""


def _nothing() -> None:
    return


class Journal(NoCheckpoint):
    """The log in a folder, which recalls steps by their names and notes by their kinds."""

    active = True

    def __init__(
        self,
        folder: Path,
        kinds: Kinds,
        *,
        least: int = 0,
        writable: bool = True,
        clock: Callable[[], float] = time.perf_counter,
        eager: bool = False,
    ):
        """Read the journal in a folder.

        Args:
            folder: the folder of the store.
            kinds: the classes that steps and notes may hold.
            least: the number of lines that are known to have been written; fewer are damage.
            writable: whether lines may be added, and a line that a crash cut short removed.
            clock: returns the time in seconds.
            eager: whether to write every step at once, however long writing takes.
        """
        self.folder = folder
        self.on_write: Callable[[], None] = _nothing
        self._kinds, self._clock = kinds, clock
        self._eager, self._pause = eager, LEAST_SECONDS
        self._lines: list[dict[str, Any]] = []
        self._unwritten: list[dict[str, Any]] = []
        self._unwritten_arrays: dict[str, np.ndarray] = {}
        self._written = clock()
        self._read(writable)
        if len(self._lines) < least:
            reason = f"{LOG} has {len(self._lines)} lines, and {least} were written"
            raise damaged(folder, reason)
        self._steps: dict[str, tuple[dict[str, Any], dict[str, Any]]] | None = None
        self._loaded: tuple[str, dict[str, np.ndarray]] = ("", {})

    @property
    def length(self) -> int:
        """The number of lines written so far."""
        return len(self._lines)

    def notes(self, kind: str) -> list[dict[str, Any]]:
        """Return the values of all notes of a kind, in order, without their arrays."""
        return [line["note"]["values"] for line in self._lines_of(kind)]

    def last(self, kind: str) -> Any:
        """Return the content of the last note of a kind, with its arrays, or None."""
        lines = self._lines_of(kind)
        return self._content(lines[-1]["note"], lines[-1]) if lines else None

    def _lines_of(self, kind: str) -> list[dict[str, Any]]:
        return [line for line in self._lines if line["note"] and line["note"]["kind"] == kind]

    def recall(self, name: str) -> Remembered | None:
        """Return the result of the step of this name, or None if it has not been made."""
        if self._steps is None:
            self._steps = {step["name"]: (step, line) for line, step in self._all_steps()}
        if name not in self._steps:
            return None
        step, line = self._steps[name]
        return Remembered(self._content(step, line), float(step["seconds"]))

    def _all_steps(self) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        return [(line, step) for line in self._lines for step in line["steps"]]

    def remember(self, name: str, value: Any, seconds: float) -> None:
        """Add a step, which is written soon, together with others."""
        content = self._described(value)
        self._unwritten.append({"name": name, "seconds": seconds, "content": content})
        if self.due:
            self.write()

    def _described(self, value: Any) -> dict[str, Any]:
        """Return a description of a value, and add its arrays to those to write."""
        try:
            return described(value, self._unwritten_arrays, self._kinds)
        except TypeError as error:
            raise StoreError(
                f"a store can hold only values of the package's own classes: {error}. Leave store "
                "out."
            ) from None

    @property
    def due(self) -> bool:
        """Whether it is time for the next write."""
        return self._eager or self._clock() - self._written > self._pause

    def write(self) -> None:
        """Write the steps that are not written yet."""
        if self._unwritten:
            self._commit(None)

    def note(
        self, kind: str, values: Mapping[str, Any], content: Any = None, keep: int | None = None
    ) -> None:
        """Write a note, which is not a step, with content that may hold arrays.

        With `keep`, only the last `keep` notes of the same kind keep their files of arrays.
        """
        self.write()
        self._commit({"kind": kind, "values": dict(values), "content": self._described(content)})
        if keep is not None:
            for line in self._lines_of(kind)[:-keep][-2:]:
                (self.folder / FOLDER / line["file"]).unlink(missing_ok=True)

    def _commit(self, note: Mapping[str, Any] | None) -> None:
        """Write the unwritten steps and a note as one line with one file of arrays."""
        started = self._clock()
        steps, self._unwritten = self._unwritten, []
        arrays, self._unwritten_arrays = self._unwritten_arrays, {}
        contents = as_bytes(arrays)
        line: dict[str, Any] = {
            "file": f"{len(self._lines):06d}.npz",
            "digest": digest(contents),
            "steps": steps,
            "note": note,
        }
        line["seal"] = seal(line, self._lines[-1]["seal"] if self._lines else "")
        try:
            write_atomically(self.folder / FOLDER / line["file"], contents)
            self._append(line)
        except OSError as error:
            raise unwritable(self.folder, error) from None
        self._lines.append(line)
        self.on_write()
        self._written = self._clock()
        self._pause = max(LEAST_SECONDS, (self._written - started) / SHARE_OF_TIME)

    def _append(self, line: Mapping[str, Any]) -> None:
        with (self.folder / LOG).open("ab") as log:
            log.write(json.dumps(line).encode() + b"\n")
            log.flush()
            os.fsync(log.fileno())

    def _read(self, writable: bool) -> None:
        """Read and check all lines, and remove a last line that a crash cut short."""
        path = self.folder / LOG
        if not path.exists():
            if (self.folder / FOLDER).exists():
                raise damaged(self.folder, f"{LOG} is missing")
            if not writable:
                return
            path.touch()
        if writable:
            (self.folder / FOLDER).mkdir(exist_ok=True)
        contents = path.read_bytes()
        whole = contents.rfind(b"\n") + 1
        before = ""
        for number, text in enumerate(contents[:whole].splitlines()):
            line = self._checked_line(number, text, before)
            before = line["seal"]
            self._lines.append(line)
        if writable and whole < len(contents):
            os.truncate(path, whole)

    def _checked_line(self, number: int, text: bytes, before: str) -> dict[str, Any]:
        """Return a line, or raise an error if its seal is wrong."""
        try:
            line: dict[str, Any] = json.loads(text)
            found = line.pop("seal")
            right = found == seal(line, before)
        except (ValueError, KeyError, TypeError, AttributeError):
            right = False
        if not right:
            raise damaged(self.folder, f"line {number + 1} of {LOG} is not what was written there")
        return {**line, "seal": found}

    def _content(self, entry: Mapping[str, Any], line: Mapping[str, Any]) -> Any:
        """Return the content of a step or a note."""
        arrays = self._arrays(line)
        try:
            return restored(entry["content"], arrays, self._kinds)
        except (KeyError, ValueError, TypeError) as error:
            raise UnreadableError(
                f"the store {self.folder} has contents that this version cannot read ({error}); "
                "read it with the version that wrote it."
            ) from None

    def _arrays(self, line: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Return the arrays of a line, or raise an error if their file is missing or changed."""
        name = f"{FOLDER}/{line['file']}"
        if self._loaded[0] == name:  # the steps of a line are mostly recalled one after another
            return self._loaded[1]
        try:
            contents = (self.folder / FOLDER / line["file"]).read_bytes()
        except OSError as error:
            raise damaged(self.folder, f"{name}: {error.strerror}") from None
        if digest(contents) != line["digest"]:
            raise damaged(self.folder, f"{name} has changed since it was written")
        self._loaded = (name, from_bytes(contents))
        return self._loaded[1]


def damaged(folder: Path, reason: str) -> StoreError:
    """Return the error for a store whose files are incomplete or have changed."""
    one_line = " ".join(reason.split())
    return StoreError(
        f"the store {folder} is damaged: {one_line}. The run cannot go on; restore the store from "
        "a copy, or start again in another folder."
    )


def unwritable(folder: Path, error: OSError) -> StoreError:
    """Return the error for a store that cannot be written, for example on a full disk."""
    return StoreError(
        f"the store {folder} could not be written: {error.strerror or error}. Everything written "
        "before is safe; make the folder writable, and go on with nnghmc.resume."
    )
