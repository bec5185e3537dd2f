"""Checkpoints remember the steps of a run, so that it can go on after a stop.

A step is something that takes time: a chunk of draws, an evaluation, a fit, a timing. Its name
depends only on the arguments and the seed. A run that goes on after a stop asks for the result of
each step by its name before it makes the step again.
"""

from typing import Any, NamedTuple


class Remembered(NamedTuple):
    """The result of a step, and the seconds that it took."""

    value: Any
    seconds: float


class NoCheckpoint:
    """The checkpoint of a run without a store, which remembers nothing."""

    active = False
    """Whether the checkpoint remembers steps."""

    def recall(self, name: str) -> Remembered | None:
        """Return the result of the step of this name, or None if it has not been made."""
        return None

    def remember(self, name: str, value: Any, seconds: float) -> None:
        """Remember the result of a step, a value that `nnghmc.platform.codec` can describe."""
