"""What a run cost: evaluations of the true posterior, learned gradients, and seconds, by phase."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import jax

PHASES = ("warmup", "collect", "train", "sample")

_COMPILATION_EVENTS = (
    "/jax/core/compile/jaxpr_trace_duration",
    "/jax/core/compile/jaxpr_to_mlir_module_duration",
    "/jax/core/compile/backend_compile_duration",
)


@dataclass
class PhaseCost:
    """The cost of one phase.

    A true gradient brings the potential along, and counts once, as a gradient. `batch_gradients`
    are those of mini-batches; learned ones are those of draws. `seconds` is all
    the time of the phase; `compile_seconds` is the part of it that went into compiling.
    """

    true_potentials: int = 0
    true_gradients: int = 0
    learned_gradients: int = 0
    batch_gradients: int = 0
    seconds: float = 0.0
    compile_seconds: float = 0.0

    def add(self, other: "PhaseCost") -> None:
        """Count another's evaluations and seconds here too."""
        for part in fields(self):
            setattr(self, part.name, getattr(self, part.name) + getattr(other, part.name))

    def __add__(self, other: "PhaseCost") -> "PhaseCost":
        return PhaseCost(
            *(getattr(self, part.name) + getattr(other, part.name) for part in fields(self))
        )

    def __sub__(self, other: "PhaseCost") -> "PhaseCost":
        return PhaseCost(
            *(getattr(self, part.name) - getattr(other, part.name) for part in fields(self))
        )


@dataclass
class Cost:
    """The cost of a run by phase.

    Draws that probe the network belong to training; in the automatic run, where they bring true
    gradients to learn from, to collecting. Evaluations that only serve timing are not counted.
    """

    warmup: PhaseCost = field(default_factory=PhaseCost)
    collect: PhaseCost = field(default_factory=PhaseCost)
    train: PhaseCost = field(default_factory=PhaseCost)
    sample: PhaseCost = field(default_factory=PhaseCost)
    recalled: Callable[[], float] = field(default=lambda: 0.0, repr=False, compare=False)
    """Seconds that an earlier process has spent on what this one only recalls, so far."""

    @property
    def total(self) -> PhaseCost:
        """The cost of all phases together."""
        return sum((getattr(self, phase) for phase in PHASES), PhaseCost())

    def as_dict(self) -> dict[str, dict[str, float]]:
        """Plain numbers by phase."""
        return {phase: asdict(getattr(self, phase)) for phase in PHASES}

    @classmethod
    def from_dict(cls, numbers: Mapping[str, Mapping[str, Any]]) -> "Cost":
        """A cost from what `as_dict` made of it; a phase that is missing cost nothing."""
        parts: dict[str, Any] = {phase: PhaseCost(**part) for phase, part in numbers.items()}
        return cls(**parts)

    @contextmanager
    def timed(self, phase: str) -> Iterator[PhaseCost]:
        """Add the time spent inside to a phase, which is handed over for the counts."""
        cost: PhaseCost = getattr(self, phase)
        start = time.perf_counter() + self.recalled()
        with _compilation_clock() as compiling:
            try:
                yield cost
            finally:
                cost.seconds += time.perf_counter() + self.recalled() - start
                cost.compile_seconds += compiling.seconds


class _CompilationClock:
    """Adds up the time JAX spends on tracing and compiling, nested spans counted once."""

    def __init__(self) -> None:
        self._spans: list[tuple[float, float]] = []
        self._thread = threading.get_ident()

    def __call__(self, event: str, duration_secs: float, **kwargs: str | int) -> None:
        if event not in _COMPILATION_EVENTS or threading.get_ident() != self._thread:
            return
        end = time.perf_counter()
        start = end - duration_secs
        while self._spans and self._spans[-1][0] >= start:
            self._spans.pop()
        self._spans.append((start, end))

    @property
    def seconds(self) -> float:
        return sum(end - start for start, end in self._spans)


@contextmanager
def _compilation_clock() -> Iterator[_CompilationClock]:
    clock = _CompilationClock()
    jax.monitoring.register_event_duration_secs_listener(clock)
    try:
        yield clock
    finally:
        jax.monitoring.unregister_event_duration_listener(clock)
