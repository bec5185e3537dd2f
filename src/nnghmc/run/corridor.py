"""The corridor: the code between a method and a run, which samples, extends and resumes."""

import copy
import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import numpy as np

from nnghmc.engine.cost import Cost
from nnghmc.engine.events import Event, Note
from nnghmc.engine.history import History, HistoryInMemory
from nnghmc.engine.method import Request, Starts
from nnghmc.engine.preparation import Preparation, Warmup
from nnghmc.engine.progress import Reporter, reporting
from nnghmc.engine.session import Session
from nnghmc.errors import PosteriorError, SettingsError, StoreError, positive_integer
from nnghmc.model.monitor import Tally
from nnghmc.model.posterior import Posterior
from nnghmc.platform.compilation import make_room_for_compiled_code
from nnghmc.platform.interrupts import StopRequest, stop_on_interrupt
from nnghmc.run.run import Facts, Run
from nnghmc.store.history import KEPT, GrowingHistory
from nnghmc.store.journal import Journal
from nnghmc.store.kinds import known_kinds
from nnghmc.store.store import Store

PREPARED, EXTENDED = "prepared", "extended"
"""Kinds of notes in the journal: the finished preparation, and a larger number of draws to keep."""


@dataclass(frozen=True)
class Surroundings:
    """The surroundings of a run, which tests can replace.

    Attributes:
        progress: whether to show a progress bar if the output is a terminal or a notebook.
        stop: request to stop; None means Ctrl-C.
        reporter: object that shows progress instead of a bar.
        eager: whether to write every step to the store at once, however long writing takes.
        clock: function that returns the time in seconds.
    """

    progress: bool = True
    stop: StopRequest | None = None
    reporter: Reporter | None = None
    eager: bool = False
    clock: Callable[[], float] = time.perf_counter


class Corridor:
    """One call of `sample`, `extend` or `resume`: posterior, request, session and maybe a store."""

    def __init__(
        self,
        posterior: Posterior,
        request: Request,
        session: Session,
        store: Store | None = None,
        journal: Journal | None = None,
    ):
        self.posterior, self.request, self.session = posterior, request, session
        self.store, self.journal = store, journal
        self.calls_before = Tally()
        self._tally_at_start = posterior.monitor.tally
        self._facts = Facts(
            model=repr(posterior),
            coordinates=tuple(posterior.layout.coordinate_names),
            title=request.method.title,
            exact=request.method.exact,
            adaptive=request.method.adaptive,
            seed=request.seed,
            doubt=posterior.monitor.doubt,
        )

    @property
    def calls(self) -> Tally:
        """The calls of a function outside JAX, including those of earlier processes."""
        return self.calls_before + self.posterior.monitor.tally.since(self._tally_at_start)

    def prepare(self, starts: Starts) -> Preparation:
        """Return the preparation in the store, or prepare the run and store the result."""
        stored = self._stored_preparation()
        if stored is not None:
            return stored
        prepared = self.request.method.prepare(self.posterior, starts, self.session)
        warmup = Warmup.of(self.session.warmup, self.request.chains, self.posterior.dim)
        done = Preparation(
            None if self.session.stopped else prepared,
            warmup,
            tuple(self.session.events),
            copy.deepcopy(self.session.cost),
            self.calls,
        )
        if self.journal is not None and done.prepared is not None:
            leaves = tuple(np.asarray(leaf) for leaf in jax.tree.leaves(prepared.states))
            self.journal.note(PREPARED, done.values(), done.content(leaves))
        return done

    def _stored_preparation(self) -> Preparation | None:
        """Return the preparation in the store, or None if there is none."""
        content = None if self.journal is None else self.journal.last(PREPARED)
        if content is None:
            return None
        assert self.journal is not None
        surrogate = content["parts"].get("surrogate")
        if (
            surrogate is not None and not surrogate.of_inputs
        ):  # files do not hold the layout of the parameters
            restored = dataclasses.replace(surrogate, layout=self.posterior.layout)
            content["parts"]["surrogate"] = restored
        kernel = self.request.method.kernel(self.posterior, content["parts"])
        shapes = eqx.filter_eval_shape(kernel.init, self.posterior.initial)
        leaves = [jax.numpy.asarray(leaf) for leaf in content["states"]]
        states = jax.tree.unflatten(jax.tree.structure(shapes), leaves)
        return Preparation.restored(self.journal.notes(PREPARED)[-1], content, states)

    def sample(
        self, preparation: Preparation, kept: History, states: Any, draws: int, cost: Cost
    ) -> Run:
        """Make draws until each chain has `draws` kept draws, and return the run."""
        prepared, method = preparation.prepared, self.request.method
        session = self.session
        self.take_over(preparation, cost)
        if prepared is None:
            return self._run(preparation, kept, states, draws)
        kernel = method.kernel(self.posterior, prepared.parts)
        states, kept = session.advance(
            "sample",
            kernel,
            states,
            range(kept.length, draws),
            history=kept,
            quick=prepared.quick,
        )
        if kept.length:
            method.look_back(self.posterior, prepared.parts, kept, session)
        return self._run(preparation, kept, states, draws)

    def take_over(self, preparation: Preparation, cost: Cost) -> None:
        """Continue the session after a preparation, with its events and cost; end its steps."""
        self.session.remember_no_more()
        self.session.cost, self.session.events = cost, list(preparation.events)
        if preparation.prepared is not None:
            title = self.request.method.describe(preparation.prepared.parts)
            self._facts = dataclasses.replace(self._facts, title=title)

    def _run(self, preparation: Preparation, kept: History, states: Any, draws: int) -> Run:
        """Return the run, and write the rest of it to the store."""
        if self.store is not None and self.store.moved_from:
            self.session.record(_moved(self.store))
        run = Run(
            facts=self._facts,
            kept=kept,
            preparation=preparation,
            events=tuple(self.session.events),
            cost=self.session.cost,
            complete=kept.length == draws,
            calls=self.calls,
            posterior=self.posterior,
            request=dataclasses.replace(self.request, draws=draws),
            states=states,
            store=None if self.store is None else self.store.folder,
        )
        if self.store is not None:
            if isinstance(kept, GrowingHistory):
                kept.write_warmup(run.warmup_draws, run.warmup_stats)
            self.store.write_surrogate(run.surrogate)
            self.write_status(complete=run.complete)
        return run

    def write_status(self, complete: bool = False) -> None:
        """Write facts, events and cost so far to the store."""
        assert self.store is not None
        assert self.journal is not None
        self.store.write_status(
            {
                "facts": dataclasses.asdict(self._facts),
                "events": [event.as_dict() for event in self.session.events],
                "cost": self.session.cost.as_dict(),
                "calls": self.calls.as_dict(),
                "complete": complete,
                "journal_lines": self.journal.length,
            }
        )


def begin(
    posterior: Posterior,
    request: Request,
    starts: Starts,
    store: Store | None,
    surroundings: Surroundings,
) -> Run:
    """Prepare and sample a run, or go on with the run in a store."""
    with _entered(posterior, request, store, surroundings) as corridor:
        if store is not None and (ended := _ended(corridor, store)) is not None:
            return ended
        preparation = corridor.prepare(starts)
        draws, cost = request.draws, copy.deepcopy(preparation.cost)
        if corridor.journal is None or preparation.prepared is None:
            nothing = preparation.prepared is None
            kept = HistoryInMemory(request.chains, 0 if nothing else draws, posterior.dim)
            states = None if nothing else preparation.prepared.states  # type: ignore[union-attr]
            return corridor.sample(preparation, kept, states, draws, cost)
        stored = _stored_draws(corridor)
        states = stored.states_like(preparation.prepared.states)
        cost.sample.seconds += stored.seconds
        if stored.length:
            kernel = request.method.kernel(posterior, preparation.prepared.parts)
            cost.sample.count(kernel.evaluations(stored.stats))
        draws = _wanted(corridor.journal, draws)
        return corridor.sample(preparation, stored, states, draws, cost)


def extend(run: Run, more: int, surroundings: Surroundings) -> Run:
    """Make more draws per chain of a run, with the same kernel and from the last states."""
    more = positive_integer("draws", more)
    posterior, request = run.posterior, run.request
    if posterior is None or request is None:
        raise SettingsError(
            "a run that was loaded has no model to go on with; use "
            f"nnghmc.resume({str(run.store)!r}, model).extend({more})."
        )
    if run.preparation.prepared is None:
        raise SettingsError(
            "a run can be extended once it has begun to sample, and this one was stopped before. "
            "Go on with it by nnghmc.resume if it has a store, or sample again."
        )
    store = None if run.store is None else Store.open(run.store)
    total = run.kept.length + more
    with _entered(posterior, request, store, surroundings) as corridor:
        corridor.calls_before = run.calls
        cost = copy.deepcopy(run.cost)
        corridor.take_over(run.preparation, cost)  # before the note below writes the status
        if corridor.journal is None:
            assert isinstance(run.kept, HistoryInMemory)
            kept: History = run.kept.longer(more)
        else:
            kept = _room_in_store(corridor, run, total)
        return corridor.sample(run.preparation, kept, run.states, total, cost)


def _room_in_store(corridor: Corridor, run: Run, total: int) -> GrowingHistory:
    """Return the stored draws of a run, after a note that more are wanted."""
    assert corridor.journal is not None
    assert corridor.store is not None
    corridor.store.check_version()
    last = corridor.journal.notes(KEPT)
    if last and last[-1]["stop"] != run.kept.length:
        raise StoreError(
            f"this run of {run.kept.length} draws per chain has since become one of "
            f"{last[-1]['stop']}; extend that one, nnghmc.resume gives it."
        )
    corridor.journal.note(EXTENDED, {"draws": total})
    return _stored_draws(corridor)


def _stored_draws(corridor: Corridor) -> GrowingHistory:
    """Return the kept draws in the store, to which more can be added."""
    assert corridor.journal is not None
    chains, journal, clock = corridor.request.chains, corridor.journal, corridor.session.clock
    return GrowingHistory(journal.folder, corridor.posterior, chains, journal, clock)


def _wanted(journal: Journal, draws: int) -> int:
    """Return the total draws per chain after the last extension, or `draws` without one."""
    extensions = journal.notes(EXTENDED)
    return int(extensions[-1]["draws"]) if extensions else draws


def _ended(corridor: Corridor, store: Store) -> Run | None:
    """Return the run in a store if it is complete, or None if draws are left to make."""
    status, journal = store.status, corridor.journal
    assert journal is not None
    kept_draws = [note["stop"] for note in journal.notes(KEPT)][-1:]
    # A kill right after an extension was noted leaves a status from before it.
    if not status.get("complete") or kept_draws != [_wanted(journal, corridor.request.draws)]:
        if journal.length:
            store.check_version()
        return None
    preparation = corridor._stored_preparation()
    assert preparation is not None
    assert preparation.prepared is not None
    kept = _stored_draws(corridor)
    return Run(
        facts=stored_facts(status),
        kept=kept,
        preparation=preparation,
        events=stored_events(status),
        cost=Cost.from_dict(status["cost"]),
        complete=True,
        calls=Tally.from_dict(status["calls"]),
        posterior=corridor.posterior,
        request=dataclasses.replace(corridor.request, draws=kept.length),
        states=kept.states_like(preparation.prepared.states),
        store=store.folder,
    )


def stored_facts(status: Mapping[str, Any]) -> Facts:
    """Return the facts of a run from the status of its store."""
    values = dict(status["facts"])
    return Facts(**{**values, "coordinates": tuple(values["coordinates"])})


def stored_events(status: Mapping[str, Any]) -> tuple[Event, ...]:
    """Return the events of a run from the status of its store."""
    return tuple(Event.from_dict(event) for event in status["events"])


def _moved(store: Store) -> Note:
    """Return the note on a run that went on with another version of JAX or platform."""
    return Note(
        "moved",
        f"the run was begun with {store.moved_from} and went on with JAX {jax.__version__} on "
        f"{jax.default_backend()}: the draws are exact, but not bit for bit those of a run that "
        "was never moved",
    )


@contextmanager
def _entered(
    posterior: Posterior, request: Request, store: Store | None, surroundings: Surroundings
) -> Iterator[Corridor]:
    """Yield a corridor that shows progress, stops at Ctrl-C, and has locked and read the store."""
    make_room_for_compiled_code()
    posterior.monitor.begin()
    with ExitStack() as stack:
        journal = None
        if store is not None:
            stack.enter_context(store.locked())
            status = store.status
            least = status.get("journal_lines", 0)
            journal = Journal(
                store.folder,
                known_kinds(),
                least=least,
                clock=surroundings.clock,
                eager=surroundings.eager,
            )
        session = Session(
            request.seed,
            request.method.streams,
            wanted_draws=request.draws,
            stop=surroundings.stop or stack.enter_context(stop_on_interrupt()),
            reporter=surroundings.reporter or stack.enter_context(reporting(surroundings.progress)),
            checkpoint=journal,
            chunk_size=request.chunk_size,
            check=posterior.monitor.check,
            clock=surroundings.clock,
        )
        corridor = Corridor(posterior, request, session, store, journal)
        if journal is not None:
            corridor.calls_before = Tally.from_dict(status["calls"]) if status else Tally()
            journal.on_write = corridor.write_status
            stack.enter_context(_written_at_the_end(journal))
        with _explained(corridor):
            yield corridor


@contextmanager
def _written_at_the_end(journal: Journal) -> Iterator[None]:
    """Write the unwritten steps at the end, also if an error ends the run."""
    try:
        yield
    except StoreError:  # the store cannot be written
        raise
    except BaseException:
        with suppress(StoreError):
            journal.write()
        raise
    journal.write()


@contextmanager
def _explained(corridor: Corridor) -> Iterator[None]:
    """Add the last failure of a function outside JAX to an error about the posterior."""
    try:
        yield
    except PosteriorError as error:
        said = corridor.calls
        if not said.last_error or said.last_error in str(error):
            raise
        explained = PosteriorError(f"{error} Before that, {said}.")
        raise explained.with_traceback(error.__traceback__) from None
