"""Shows a progress bar with phase, acceptance, draws per second and time left on a terminal."""

from collections.abc import Iterator
from contextlib import contextmanager
from math import isnan
from typing import Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)


class Reporter(Protocol):
    """An object that shows the progress of a run."""

    def begin(self, phase: str, total: int) -> None:
        """Begin a phase of `total` draws per chain."""

    def advance(self, draws: int, acceptance: float) -> None:
        """Add draws per chain; `acceptance` is the mean of the draws in the history so far."""

    def note(self, phase: str) -> None:
        """Begin a phase without draws."""


class Silent:
    """A reporter that shows nothing."""

    def begin(self, phase: str, total: int) -> None:
        """Do nothing."""

    def advance(self, draws: int, acceptance: float) -> None:
        """Do nothing."""

    def note(self, phase: str) -> None:
        """Do nothing."""


class Bar:
    """A reporter that shows a Rich progress bar with one line per phase."""

    def __init__(self, progress: Progress):
        self._progress = progress
        self._task: TaskID | None = None

    def begin(self, phase: str, total: int) -> None:
        """Add a line for a phase."""
        self._close_note()
        self._task = self._progress.add_task(phase, total=total, acceptance="compiling", speed="")

    def advance(self, draws: int, acceptance: float) -> None:
        """Move the bar of the current phase."""
        if self._task is None:
            return
        self._progress.advance(self._task, draws)
        speed = self._progress.tasks[self._progress.task_ids.index(self._task)].speed
        self._progress.update(
            self._task,
            acceptance="" if isnan(acceptance) else f"acceptance {acceptance:.2f}",
            speed=f"{speed:,.0f} draws/s" if speed else "",
        )

    def note(self, phase: str) -> None:
        """Add a line without a total."""
        self._close_note()
        self._task = self._progress.add_task(phase, total=None, acceptance="", speed="")

    def _close_note(self) -> None:
        """Mark the last phase without draws as done, because the next one begins."""
        for task in self._progress.tasks:
            if task.total is None:
                self._progress.update(task.id, total=1, completed=1)


@contextmanager
def reporting(wanted: bool) -> Iterator[Reporter]:
    """Yield a bar if it is wanted and the output can show it, and a silent reporter otherwise."""
    console = Console(stderr=True)
    if not wanted or not (console.is_terminal or console.is_jupyter):
        yield Silent()
        return
    columns = (
        TextColumn("{task.description:<8}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[acceptance]}"),
        TextColumn("{task.fields[speed]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as progress:
        yield Bar(progress)
