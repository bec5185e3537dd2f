"""Turns Ctrl-C into a request to stop after the current chunk, so that no work is lost."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class StopRequest:
    """A request to stop, made by pressing Ctrl-C. A second press raises KeyboardInterrupt at once.

    Attributes:
        made: whether Ctrl-C was pressed.
    """

    def __init__(self) -> None:
        self.made = False

    def __call__(self, signal_number: int, frame: FrameType | None) -> None:
        """Record the request. This is the signal handler."""
        if self.made:
            raise KeyboardInterrupt
        self.made = True


@contextmanager
def stop_on_interrupt() -> Iterator[StopRequest]:
    """Turn the first Ctrl-C inside the context into a stop request.

    Only the main thread receives signals; in others the request is never made.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    previous = signal.signal(signal.SIGINT, request)
    try:
        yield request
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL if previous is None else previous)
