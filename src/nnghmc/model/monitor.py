"""A monitor watches the evaluations of a posterior: it counts them and says when to stop.

Inside JAX there is nothing to watch, and `Monitor` does nothing. A function outside JAX may fail;
its monitor is in `nnghmc.model.blackbox.calls`.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Tally:
    """How often a function was called, and how often it failed.

    Attributes:
        potentials: calls for the log density alone.
        gradients: calls for the log density and its gradient.
        failures: calls that raised or returned something unusable, by the name of the exception.
        nonfinite: calls that returned infinity or NaN.
        last_error: the message of the last failure.
    """

    potentials: int = 0
    gradients: int = 0
    failures: Mapping[str, int] = field(default_factory=dict)
    nonfinite: int = 0
    last_error: str = ""

    @property
    def calls(self) -> int:
        """Return the number of all calls."""
        return self.potentials + self.gradients

    @property
    def failed(self) -> int:
        """Return the number of calls that raised or returned something unusable."""
        return sum(self.failures.values())

    def since(self, before: "Tally") -> "Tally":
        """Return the calls that came after an earlier tally of the same function."""
        failures = dict(Counter(self.failures) - Counter(before.failures))
        return Tally(
            self.potentials - before.potentials,
            self.gradients - before.gradients,
            failures,
            self.nonfinite - before.nonfinite,
            self.last_error if failures else "",
        )

    def __add__(self, later: "Tally") -> "Tally":
        return Tally(
            self.potentials + later.potentials,
            self.gradients + later.gradients,
            dict(Counter(self.failures) + Counter(later.failures)),
            self.nonfinite + later.nonfinite,
            later.last_error or self.last_error,
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the numbers as JSON can hold them."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Tally":
        """Return the tally that `as_dict` wrote."""
        return cls(**{**values, "failures": dict(values["failures"])})

    def __str__(self) -> str:
        """Say in words what failed; the string is empty where nothing did."""
        clauses = []
        if self.failed:
            clauses.append(
                f"failed {_times(self.failed)} in {self.calls:,} calls ({self._kinds()})"
            )
        if self.nonfinite:
            of_all = "" if self.failed else f" in {self.calls:,} calls"
            clauses.append(f"returned infinity or NaN {_times(self.nonfinite)}{of_all}")
        if not clauses:
            return ""
        subject = "it" if self.failed + self.nonfinite == 1 else "each"
        return f"the function {' and '.join(clauses)}; {subject} was a rejection"

    def _kinds(self) -> str:
        """Name what was raised, each kind with its number where there are several."""
        if len(self.failures) == 1:
            return self.last_error
        kinds = ", ".join(f"{name} {_times(number)}" for name, number in self.failures.items())
        return f"{kinds}; the last: {self.last_error}"


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number:,} times"


class Monitor:
    """The monitor of a posterior that JAX evaluates: there is nothing to count or to stop."""

    counts = False

    @property
    def tally(self) -> Tally:
        """Return the calls since the posterior was made."""
        return Tally()

    @property
    def doubt(self) -> str:
        """Say what seems wrong with the gradient; the string is empty where nothing does."""
        return ""

    def begin(self) -> None:
        """Forget what ended an earlier run."""

    def check(self) -> None:
        """Raise the error that must end the run, if there is one."""
