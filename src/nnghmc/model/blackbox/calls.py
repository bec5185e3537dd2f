"""What became of the calls of a function outside JAX: how many, how many failed, and how.

A failed call is a rejection and does not end a run. It is counted here, so that nobody overlooks
it. Where the function fails every time, the error waits here until the compiled code that called
the function has returned: raised inside it, the error would arrive as a page about XLA.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterable

from nnghmc.model.blackbox.evaluation import NOT_FINITE, Outcome
from nnghmc.model.monitor import Monitor, Tally


class CallMonitor(Monitor):
    """A monitor that counts the calls of one function, from any thread.

    Args:
        find_out: function that `check` calls first; it may call `end_with` if the user's function
            no longer works.
    """

    counts = True

    def __init__(self, find_out: Callable[[], None] = lambda: None) -> None:
        self._find_out = find_out
        self._lock = threading.Lock()
        self._tally = Tally()
        self._doubt = ""
        self._ending: BaseException | None = None

    @property
    def tally(self) -> Tally:
        """Return the calls since the posterior was made."""
        return self._tally

    @property
    def doubt(self) -> str:
        """Say what seemed wrong with the gradient when the posterior was made."""
        return self._doubt

    def cast_doubt(self, doubt: str) -> None:
        """Remember what seems wrong with the gradient."""
        self._doubt = doubt

    def count(self, outcomes: Iterable[Outcome], *, gradients: bool) -> None:
        """Add these calls to the tally."""
        outcomes = list(outcomes)
        failed = [outcome for outcome in outcomes if outcome.problem not in ("", NOT_FINITE)]
        added = Tally(
            0 if gradients else len(outcomes),
            len(outcomes) if gradients else 0,
            Counter(outcome.problem for outcome in failed),
            sum(outcome.problem == NOT_FINITE for outcome in outcomes),
            failed[-1].words if failed else "",
        )
        with self._lock:
            self._tally = self._tally + added

    def end_with(self, error: BaseException) -> None:
        """Make no further calls; the next `check` raises the first error given."""
        self._ending = self._ending or error

    @property
    def ended(self) -> bool:
        """Say whether an error waits to be raised."""
        return self._ending is not None

    def begin(self) -> None:
        """Forget what ended an earlier run."""
        self._ending = None

    def check(self) -> None:
        """Raise the error that ended the calls, if there is one."""
        self._find_out()
        error, self._ending = self._ending, None
        if error is not None:
            raise error

    def __repr__(self) -> str:
        tally = self._tally
        return f"CallMonitor({tally.calls:,} calls, {tally.failed:,} failed)"
