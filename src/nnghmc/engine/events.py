"""Events record what a run found and decided, as typed records with numbers.

An event is a frozen dataclass. Sentences are rendered from it by `str(event)`, and no code reads a
sentence back. A class that derives from `Event` is registered under its name.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from nnghmc.platform.text import counted

PACKAGE = __name__.partition(".")[0]


def register(kind: type, known: dict[str, Any]) -> None:
    """Register a class under its name, or raise an error if the package has one of that name."""
    before = known.get(kind.__name__)
    foreign = before is not None and kind.__module__ != before.__module__
    if foreign and before.__module__.startswith(f"{PACKAGE}."):
        raise TypeError(
            f"files know a class by its name, and {kind.__name__} is {before.__module__}."
            f"{kind.__name__}; choose another name for that of {kind.__module__}."
        )
    known[kind.__name__] = kind


@dataclass(frozen=True)
class Event:
    """A record of one thing that a run found or decided."""

    known: ClassVar[dict[str, type["Event"]]] = {}
    """All classes of events, by name."""

    in_story: ClassVar[bool] = True
    """Whether the story of a run has a line for the event."""

    def __init_subclass__(cls) -> None:
        register(cls, Event.known)

    @property
    def event(self) -> str:
        """The name of the event's class."""
        return type(self).__name__

    def as_dict(self) -> dict[str, Any]:
        """Return the event as plain values that JSON can hold, including its sentence."""
        values = {part.name: getattr(self, part.name) for part in fields(self)}
        return {"event": self.event, "text": str(self), "values": values}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> "Event":
        """Return the event that `as_dict` describes.

        An event of another version, or of a method that was not imported, is returned as an
        `UnknownEvent` with its sentence and its numbers.
        """
        kind, values = cls.known.get(stored["event"]), dict(stored["values"])
        if kind is not None and set(values) == {part.name for part in fields(kind)}:
            listed = {name: tuple(v) if isinstance(v, list) else v for name, v in values.items()}
            return kind(**listed)
        return UnknownEvent(stored["event"], stored["text"], values)


@dataclass(frozen=True)
class UnknownEvent(Event):
    """An event of a class that this process does not know."""

    name: str
    text: str
    values: Mapping[str, Any]

    @property
    def event(self) -> str:
        """The name of the event's class."""
        return self.name

    def __str__(self) -> str:
        return self.text

    def as_dict(self) -> dict[str, Any]:
        """Return the values that the event was created from."""
        return {"event": self.name, "text": self.text, "values": dict(self.values)}


@dataclass(frozen=True)
class Note(Event):
    """A warning or a hint that a person should read before using the draws.

    Attributes:
        kind: a short name that never changes, such as "divergences".
        text: what happened, with its number, and what it means for the result.
        remedy: what to do about it.
    """

    in_story: ClassVar[bool] = False
    kind: str
    text: str
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.text}; {self.remedy}" if self.remedy else self.text


@dataclass(frozen=True)
class HandedOver(Event):
    """What was learned takes over from the true gradient.

    Attributes:
        step_size: largest leapfrog step size.
        num_steps: largest number of steps per trajectory; NUTS chooses it itself.
        true_share: fraction of the kept draws that follow the true gradient.
        transitions: number of transitions of NUTS on the surrogate posterior per draw; 0 for HMC
            along the learned gradient.
    """

    step_size: float
    num_steps: int
    true_share: float = 0.0
    transitions: int = 0

    def __str__(self) -> str:
        words = (
            f"the learned gradient takes over: step size {self.step_size:.2g}, up to "
            f"{self.num_steps} steps per draw"
        )
        if self.transitions:
            words = (
                f"the surrogate takes over: {counted(self.transitions, 'transition')} of NUTS on "
                f"the surrogate posterior per draw, step size {self.step_size:.2g}"
            )
        if self.true_share:
            words += f"; {self.true_share:.1%} of the draws follow the true gradient"
        return words
