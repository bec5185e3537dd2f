"""What became of the calls of a function outside JAX: how many, how many failed, and how.

A call that fails is a rejection, not the end of a run; so that nobody overlooks it, it is counted
here. Where a function fails always, what is to be raised waits here until the compiled code that
called it has returned: an exception raised inside that would arrive as a page about XLA.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

NOT_FINITE = "not finite"


class Outcome(NamedTuple):
    """What a call returned, or how it failed.

    `problem` is empty where all is well, `NOT_FINITE`, or the name of an exception; `words` say
    more about it.
    """

    value: float
    gradient: np.ndarray | None = None
    problem: str = ""
    words: str = ""


@dataclass(frozen=True)
class Tally:
    """Calls so far.

    Attributes:
        potentials: those that were asked for the log density alone.
        gradients: those that were asked for its gradient too.
        failures: those that raised or returned something unusable, by the name of the exception.
        nonfinite: those that returned infinity or NaN.
        last_error: what the last of the failures said.
    """

    potentials: int = 0
    gradients: int = 0
    failures: Mapping[str, int] = field(default_factory=dict)
    nonfinite: int = 0
    last_error: str = ""

    @property
    def calls(self) -> int:
        """All of them."""
        return self.potentials + self.gradients

    def since(self, before: "Tally") -> "Tally":
        """What has come since an earlier tally of the same calls."""
        failures = dict(Counter(self.failures) - Counter(before.failures))
        return Tally(
            self.potentials - before.potentials,
            self.gradients - before.gradients,
            failures,
            self.nonfinite - before.nonfinite,
            self.last_error if failures else "",
        )

    def __str__(self) -> str:
        """What there is to say about failures; empty where there were none."""
        said = []
        if failed := sum(self.failures.values()):
            said.append(f"failed {_times(failed)} in {self.calls:,} calls ({self._kinds()})")
        if self.nonfinite:
            of_all = "" if failed else f" in {self.calls:,} calls"
            said.append(f"returned infinity or NaN {_times(self.nonfinite)}{of_all}")
        if not said:
            return ""
        once = failed + self.nonfinite == 1
        return f"the function {' and '.join(said)}; {'it' if once else 'each'} was a rejection"

    def _kinds(self) -> str:
        """What was raised; each kind with its number where there are several."""
        if len(self.failures) == 1:
            return self.last_error
        kinds = ", ".join(f"{name} {_times(number)}" for name, number in self.failures.items())
        return f"{kinds}; the last: {self.last_error}"


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number:,} times"


class Calls:
    """The calls of one function, counted as they are made, from any thread."""

    def __init__(self, settle_doubt: Callable[[], None] = lambda: None) -> None:
        self._settle_doubt = settle_doubt
        self._lock = threading.Lock()
        self._tally = Tally()
        self._ending: BaseException | None = None
        self.doubt = ""  # about the gradient, from the look at it when the posterior was made

    @property
    def tally(self) -> Tally:
        """Everything since the posterior was made."""
        return self._tally

    def count(self, outcomes: Iterable[Outcome], *, gradients: bool) -> None:
        """Add these calls."""
        outcomes = list(outcomes)
        failed = [outcome for outcome in outcomes if outcome.problem not in ("", NOT_FINITE)]
        with self._lock:
            now, number = self._tally, len(outcomes)
            self._tally = Tally(
                now.potentials + (0 if gradients else number),
                now.gradients + (number if gradients else 0),
                Counter(now.failures) + Counter(outcome.problem for outcome in failed),
                now.nonfinite + sum(outcome.problem == NOT_FINITE for outcome in outcomes),
                failed[-1].words if failed else now.last_error,
            )

    def end_with(self, error: BaseException) -> None:
        """Have this raised by the next check; until then no call is made any more."""
        self._ending = self._ending or error

    @property
    def ended(self) -> bool:
        """Whether something waits to be raised."""
        return self._ending is not None

    def begin(self) -> Tally:
        """Start anew, and say how many calls there have been before."""
        self._ending = None
        return self._tally

    def check(self) -> None:
        """Raise what ended the calls, if anything did."""
        self._settle_doubt()
        error, self._ending = self._ending, None
        if error is not None:
            raise error

    def remarks_since(self, before: Tally) -> list[str]:
        """What a person should know of the calls since then."""
        return [words for words in (self.doubt, str(self._tally.since(before))) if words]

    def __repr__(self) -> str:
        tally = self._tally
        failed = sum(tally.failures.values())
        return f"Calls({tally.calls:,} made, {failed:,} failed, {tally.nonfinite:,} not finite)"
