"""Ctrl-C as a request to stop after the current chunk, so that no finished work is lost."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class StopRequest:
    """Whether Ctrl-C was pressed. A second press raises KeyboardInterrupt at once."""

    def __init__(self) -> None:
        self.made = False

    def __call__(self, signal_number: int, frame: FrameType | None) -> None:
        """Note the request; this is the signal handler."""
        if self.made:
            raise KeyboardInterrupt
        self.made = True


@contextmanager
def stop_on_interrupt() -> Iterator[StopRequest]:
    """Turn the first Ctrl-C inside into a stop request (in the main thread, where signals go)."""
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    previous = signal.signal(signal.SIGINT, request)
    try:
        yield request
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL if previous is None else previous)
