"""Holds the result of everything that comes before the first kept draw."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nnghmc.engine.cost import Cost
from nnghmc.engine.events import Event
from nnghmc.engine.history import History
from nnghmc.engine.method import Prepared
from nnghmc.model.monitor import Tally


@dataclass(frozen=True, eq=False)
class Warmup:
    """The warm-up draws, without those by which `NNgHMC` probed a surrogate.

    Attributes:
        draws: positions, shape (chains, draws, dim).
        stats: statistics by ArviZ's names, each of shape (chains, draws).
        phases: names of the phases with their draws per chain, in order.
    """

    draws: np.ndarray
    stats: Mapping[str, np.ndarray] = field(default_factory=dict)
    phases: tuple[tuple[str, int], ...] = ()

    @classmethod
    def of(cls, made: Sequence[tuple[str, History]], chains: int, dim: int) -> "Warmup":
        """Join the histories of several phases."""
        histories = [history for _, history in made if history.length]
        phases: list[tuple[str, int]] = []
        for name, history in made:
            if history.length and phases and phases[-1][0] == name:
                phases[-1] = (name, phases[-1][1] + history.length)
            elif history.length:
                phases.append((name, history.length))
        return cls(
            np.concatenate([np.empty((chains, 0, dim)), *(part.draws for part in histories)], 1),
            _joined([part.stats for part in histories]),
            tuple(phases),
        )


def _joined(parts: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Join statistics of several phases; one that a phase does not have is NaN there."""
    names = dict.fromkeys(name for part in parts for name in part)
    shapes = [next(iter(part.values())).shape for part in parts]
    return {
        name: np.concatenate(
            [
                part.get(name, np.full(shape, np.nan))
                for part, shape in zip(parts, shapes, strict=True)
            ],
            axis=1,
        )
        for name in names
    }


@dataclass(frozen=True, eq=False)
class Preparation:
    """The part of a run before its first kept draw.

    Attributes:
        prepared: everything that the kept draws depend on; None if the run was stopped before.
        warmup: the warm-up draws.
        events: what was found and decided so far.
        cost: evaluations and seconds so far.
        calls: calls of a function outside JAX so far.
    """

    prepared: Prepared | None
    warmup: Warmup
    events: tuple[Event, ...] = ()
    cost: Cost = field(default_factory=Cost)
    calls: Tally = field(default_factory=Tally)

    def values(self) -> dict[str, Any]:
        """Return the part of the preparation that JSON can hold."""
        assert self.prepared is not None
        return {
            "events": [event.as_dict() for event in self.events],
            "cost": self.cost.as_dict(),
            "calls": self.calls.as_dict(),
            "phases": [list(phase) for phase in self.warmup.phases],
            "quick": self.prepared.quick,
        }

    def content(self, leaves: tuple[np.ndarray, ...]) -> dict[str, Any]:
        """Return the part of the preparation with arrays; `leaves` are those of the states."""
        assert self.prepared is not None
        return {
            "states": leaves,
            "parts": dict(self.prepared.parts),
            "warmup_draws": self.warmup.draws,
            "warmup_stats": dict(self.warmup.stats),
        }

    @classmethod
    def restored(
        cls, values: Mapping[str, Any], content: Mapping[str, Any], states: Any
    ) -> "Preparation":
        """Return the preparation that `values` and `content` describe."""
        return cls(
            Prepared(states, content["parts"], bool(values["quick"])),
            Warmup(
                content["warmup_draws"],
                content["warmup_stats"],
                tuple((str(name), int(draws)) for name, draws in values["phases"]),
            ),
            tuple(Event.from_dict(event) for event in values["events"]),
            Cost.from_dict(values["cost"]),
            Tally.from_dict(values["calls"]),
        )
