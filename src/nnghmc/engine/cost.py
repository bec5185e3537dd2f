"""Counts what a run costs by phase: true evaluations, learned gradients and seconds."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import jax

from nnghmc.kernels.base import Evaluations

PHASES = ("warmup", "collect", "train", "sample")
"""The phases of a run, in order."""

_COMPILATION_EVENTS = (
    "/jax/core/compile/jaxpr_trace_duration",
    "/jax/core/compile/jaxpr_to_mlir_module_duration",
    "/jax/core/compile/backend_compile_duration",
)


@dataclass
class PhaseCost:
    """The cost of one phase.

    Evaluating a true gradient also gives the potential, and counts once, as a gradient.
    `batch_gradients` are gradients of mini-batches, and `learned_gradients` those made for draws.
    `seconds` is the whole time of the phase, and `compile_seconds` the part spent on compiling.
    """

    true_potentials: int = 0
    true_gradients: int = 0
    learned_gradients: int = 0
    batch_gradients: int = 0
    seconds: float = 0.0
    compile_seconds: float = 0.0

    def count(self, evaluations: Evaluations) -> None:
        """Add some evaluations."""
        for part in fields(evaluations):
            setattr(self, part.name, getattr(self, part.name) + getattr(evaluations, part.name))

    def __add__(self, other: "PhaseCost") -> "PhaseCost":
        return PhaseCost(
            *(getattr(self, part.name) + getattr(other, part.name) for part in fields(self))
        )


@dataclass
class Cost:
    """The cost of a run by phase.

    Draws that probe the network belong to training. In the automatic run they belong to the
    warm-up. Evaluations made only to measure time are
    not counted.
    """

    warmup: PhaseCost = field(default_factory=PhaseCost)
    collect: PhaseCost = field(default_factory=PhaseCost)
    train: PhaseCost = field(default_factory=PhaseCost)
    sample: PhaseCost = field(default_factory=PhaseCost)

    @property
    def total(self) -> PhaseCost:
        """The cost of all phases together."""
        return sum((getattr(self, phase) for phase in PHASES), PhaseCost())

    def as_dict(self) -> dict[str, dict[str, float]]:
        """Return plain numbers by phase."""
        return asdict(self)

    @classmethod
    def from_dict(cls, numbers: Mapping[str, Mapping[str, Any]]) -> "Cost":
        """Return the cost that `as_dict` describes; a missing phase has no cost."""
        return cls(**{phase: PhaseCost(**part) for phase, part in numbers.items()})

    @contextmanager
    def timed(self, phase: str, clock: Callable[[], float] = time.perf_counter) -> Iterator[Any]:
        """Add the time spent inside the context to a phase, and yield its cost to count more."""
        cost: PhaseCost = getattr(self, phase)
        start = clock()
        with _compilation_clock() as compiling:
            try:
                yield cost
            finally:
                cost.seconds += clock() - start
                cost.compile_seconds += compiling.seconds


class _CompilationClock:
    """A clock for the time that JAX spends on tracing and compiling; nested spans count once."""

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
