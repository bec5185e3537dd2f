"""What the tests hand in from outside: a session that watches, and progress that asks to stop."""

import copy
from dataclasses import dataclass
from typing import Any

from nnghmc import Session
from nnghmc.engine.history import HistoryInMemory
from nnghmc.engine.method import Request
from nnghmc.engine.progress import Silent
from nnghmc.explore.starts import ChainStarts
from nnghmc.methods import as_method
from nnghmc.platform.interrupts import StopRequest
from nnghmc.run.corridor import Corridor, Surroundings, begin


@dataclass(frozen=True)
class Phase:
    """What a phase of draws was started with."""

    name: str
    kernel: Any
    key: Any
    states: Any
    numbers: range


class WatchedSession(Session):
    """A session that remembers what every phase of draws was started with."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.phases = []

    def advance(self, phase, kernel, states, draws, *, stream=None, **options):
        numbers = range(draws) if isinstance(draws, int) else draws
        key = self.key(phase if stream is None else stream)
        self.phases.append(Phase(phase, kernel, key, states, numbers))
        return super().advance(phase, kernel, states, draws, stream=stream, **options)


def watched_run(posterior, draws, chains, method, seed=0, **options):
    """The run that `sample` makes, and what each of its phases was started with."""
    request = Request(draws, chains, seed, as_method(method))
    session = WatchedSession(seed, request.method.streams, wanted_draws=draws, **options)
    corridor = Corridor(posterior, request, session)
    preparation = corridor.prepare(ChainStarts(posterior, chains))
    kept = HistoryInMemory(chains, draws, posterior.dim)
    states, cost = preparation.prepared.states, copy.deepcopy(preparation.cost)
    return corridor.sample(preparation, kept, states, draws, cost), session.phases


class StopWhen(Silent):
    """Progress that asks to stop when a phase begins, or once it has made some draws."""

    def __init__(self, phase, draws=0):
        self.stop = StopRequest()
        self.phase, self.left, self.current = phase, draws, ""

    def begin(self, phase, total):
        self.note(phase)

    def note(self, phase):
        self.current = phase
        self.advance(0, float("nan"))

    def advance(self, draws, acceptance):
        if self.current == self.phase:
            self.left -= draws
            self.stop.made |= self.left <= 0


def run_stopped_in(phase, posterior, draws, chains, method, after=0, chunk_size=None):
    """A run that somebody asks to stop when a phase begins, or after so many draws of it."""
    request = Request(draws, chains, 0, as_method(method), chunk_size=chunk_size)
    reporter = StopWhen(phase, after)
    surroundings = Surroundings(stop=reporter.stop, reporter=reporter)
    run = begin(posterior, request, ChainStarts(posterior, chains), None, surroundings)
    assert reporter.stop.made
    return run
