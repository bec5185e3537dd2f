"""A progress bar with phase, acceptance, draws per second and time left; silent off a terminal."""

from collections.abc import Iterator
from contextlib import contextmanager
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
    """What a phase tells about itself while it runs."""

    def begin(self, phase: str, total: int) -> None:
        """A phase of `total` draws a chain begins."""

    def advance(self, draws: int, acceptance: float) -> None:
        """So many more draws a chain, and the mean acceptance of the phase so far."""

    def note(self, phase: str) -> None:
        """Work without draws begins."""


class Silent:
    """Reports nothing."""

    def begin(self, phase: str, total: int) -> None:
        """Nothing."""

    def advance(self, draws: int, acceptance: float) -> None:
        """Nothing."""

    def note(self, phase: str) -> None:
        """Nothing."""


class Bar:
    """Reports to a Rich progress bar, a line a phase."""

    def __init__(self, progress: Progress):
        self._progress = progress
        self._task: TaskID | None = None

    def begin(self, phase: str, total: int) -> None:
        """A new line for this phase."""
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
            acceptance=f"acceptance {acceptance:.2f}",
            speed=f"{speed:,.0f} draws/s" if speed else "",
        )

    def note(self, phase: str) -> None:
        """A line without an end in sight."""
        self._close_note()
        self._task = self._progress.add_task(phase, total=None, acceptance="", speed="")

    def _close_note(self) -> None:
        """What comes next shows that work without draws has ended."""
        for task in self._progress.tasks:
            if task.total is None:
                self._progress.update(task.id, total=1, completed=1)


@contextmanager
def reporting(wanted: bool) -> Iterator[Reporter]:
    """A bar where it is wanted and the output is a terminal or a notebook, else silence."""
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
