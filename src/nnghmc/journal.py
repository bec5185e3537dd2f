"""The journal of a run: every step that took time, in the order it was made, on disk.

A run that goes on after a stop does everything again from the beginning, and takes from the journal
what it finds there instead of computing it. All of it depends on seed and arguments alone, but for
the clock, and what the clock has decided is a step too: the draws are those of a run that was never
stopped.

Steps are written some at a time: their arrays to a file of their own, then one line to the log,
which makes them count. Each line has the digest of that file and of all lines before it. A line
that was cut short by a crash does not count, and nothing else may be wrong with a journal.
"""

import json
import os
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from nnghmc.errors import StoreError
from nnghmc.files import as_bytes, digest, from_bytes, seal, write_atomically
from nnghmc.interrupts import StopRequest

LOG = "journal.jsonl"
FOLDER = "journal"
LEAST_SECONDS = 1.0
"""Between two writes: what a crash takes away at most, beside the chunk under way."""
SHARE_OF_TIME = 0.04
"""That writing may take."""

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Step:
    """Something that took time: what it was, what came of it, and how long it took."""

    what: str
    arrays: Arrays = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0


class NoJournal:
    """Remembers nothing: a run without a store."""

    seconds_recalled = 0.0

    def recall(self, what: str) -> Step | None:
        """Nothing."""
        return None

    def add(self, step: Step) -> None:
        """Nothing."""

    def write(self) -> None:
        """Nothing."""


class Journal(NoJournal):
    """The journal in a folder: what it remembers is recalled step by step, then it grows."""

    def __init__(self, folder: Path, stop: StopRequest):
        self.seconds_recalled = 0.0
        self.on_write: Callable[[], None] = lambda: None
        self._folder = folder
        self._stop = stop
        self._closed = False
        self._remembered: deque[Step] = deque()
        self._lines: list[dict[str, Any]] = []
        self._unwritten: list[Step] = []
        self._written = time.perf_counter()
        self._pause = LEAST_SECONDS
        self._read()

    def notes_of(self, kind: str) -> list[Mapping[str, Any]]:
        """The notes of a kind, in order."""
        return [line["note"] for line in self._lines_of(kind)]

    def _lines_of(self, kind: str) -> list[dict[str, Any]]:
        return [line for line in self._lines if line["note"] and line["note"]["kind"] == kind]

    def recall(self, what: str) -> Step | None:
        """The next step that was made before, which must be this one; None if it was not made."""
        if self._stop.made:  # what begins from now on does not belong to the run
            self._closed = True
        if self._closed or not self._remembered:
            return None
        step = self._remembered.popleft()
        if step.what != what:
            raise StoreError(
                f"{self._folder} does not belong to this run: its next step is {step.what!r}, and "
                f"the run has come to {what!r}. Start anew in another folder."
            )
        self.seconds_recalled += step.seconds
        return step

    def forget_steps(self) -> None:
        """Nothing is to be recalled: the run goes on from its last draw."""
        self._remembered.clear()

    def add(self, step: Step) -> None:
        """One more step; it is written soon, together with others."""
        if self._closed:
            return
        self._unwritten.append(step)
        if self.due:
            self.write()

    @property
    def due(self) -> bool:
        """Whether so much time has passed since the last write that the next should come."""
        return time.perf_counter() - self._written > self._pause

    def write(self) -> None:
        """Write the steps that are not written yet."""
        if self._unwritten:
            self._commit(None, {})

    def note(self, note: Mapping[str, Any], arrays: Arrays, keep: int | None = None) -> None:
        """Write something that is not a step, with arrays that belong to it.

        With `keep`, the arrays of earlier notes of the same kind are removed but for so many.
        """
        self.write()
        self._commit(note, arrays)
        if keep is not None:
            for line in self._lines_of(note["kind"])[:-keep][-2:]:
                (self._folder / FOLDER / line["file"]).unlink(missing_ok=True)

    def arrays_of_last(self, kind: str) -> dict[str, np.ndarray]:
        """The arrays of the last note of a kind."""
        arrays = self._arrays(self._lines_of(kind)[-1])
        return {name.removeprefix("note."): value for name, value in arrays.items()}

    def _commit(self, note: Mapping[str, Any] | None, arrays: Arrays) -> None:
        started = time.perf_counter()
        steps, self._unwritten = self._unwritten, []
        named = {f"note.{name}": value for name, value in arrays.items()}
        for number, step in enumerate(steps):
            named |= {f"{number}.{name}": value for name, value in step.arrays.items()}
        contents = as_bytes(named)
        line: dict[str, Any] = {
            "file": f"{len(self._lines):06d}.npz",
            "digest": digest(contents),
            "steps": [
                {"what": step.what, "values": dict(step.values), "seconds": step.seconds}
                for step in steps
            ],
            "note": None if note is None else dict(note),
        }
        before = self._lines[-1]["seal"] if self._lines else ""
        line["seal"] = seal(line, before)
        try:
            write_atomically(self._folder / FOLDER / line["file"], contents)
            self._append(line)
        except OSError as error:
            raise unwritable(self._folder, error) from None
        self._lines.append(line)
        self.on_write()
        self._written = time.perf_counter()
        self._pause = max(LEAST_SECONDS, (self._written - started) / SHARE_OF_TIME)

    def _append(self, line: Mapping[str, Any]) -> None:
        with (self._folder / LOG).open("ab") as log:
            log.write(json.dumps(line).encode() + b"\n")
            log.flush()
            os.fsync(log.fileno())

    def _read(self) -> None:
        """All lines, checked; what a crash has left of a line is cut off."""
        path = self._folder / LOG
        if not path.exists():
            if (self._folder / FOLDER).exists():
                raise damaged(self._folder, f"{LOG} is missing")
            path.touch()
        (self._folder / FOLDER).mkdir(exist_ok=True)
        contents = path.read_bytes()
        whole = contents.rfind(b"\n") + 1
        before = ""
        for number, text in enumerate(contents[:whole].splitlines()):
            line = self._checked_line(number, text, before)
            before = line["seal"]
            self._lines.append(line)
        if whole < len(contents):
            os.truncate(path, whole)
        for line in self._lines:
            if line["steps"]:
                self._remember(line)

    def _checked_line(self, number: int, text: bytes, before: str) -> dict[str, Any]:
        try:
            line: dict[str, Any] = json.loads(text)
            found = line.pop("seal")
            right = found == seal(line, before)
        except (ValueError, KeyError, TypeError, AttributeError):
            right = False
        if not right:
            raise damaged(self._folder, f"line {number + 1} of {LOG} is not what was written there")
        return {**line, "seal": found}

    def _remember(self, line: Mapping[str, Any]) -> None:
        arrays = self._arrays(line)
        for number, step in enumerate(line["steps"]):
            start = f"{number}."
            own = {
                name.removeprefix(start): value
                for name, value in arrays.items()
                if name.startswith(start)
            }
            self._remembered.append(Step(step["what"], own, step["values"], step["seconds"]))

    def _arrays(self, line: Mapping[str, Any]) -> dict[str, np.ndarray]:
        try:
            contents = (self._folder / FOLDER / line["file"]).read_bytes()
        except OSError as error:
            raise damaged(self._folder, f"{FOLDER}/{line['file']}: {error.strerror}") from None
        if digest(contents) != line["digest"]:
            raise damaged(self._folder, f"{FOLDER}/{line['file']} has changed since it was written")
        return from_bytes(contents)


def damaged(folder: Path, reason: str) -> StoreError:
    """What to say of a store that is torn or was edited."""
    return StoreError(
        f"the store {folder} is damaged: {reason}. It cannot be gone on with; restore it from a "
        "copy, or start anew in another folder."
    )


def unwritable(folder: Path, error: OSError) -> StoreError:
    """What to say where the disk is full, or does not take any more for another reason."""
    return StoreError(
        f"the store {folder} could not be written: {error.strerror or error}. All that was written "
        "before is safe: see to it that it can be written, and go on with nnghmc.resume."
    )
