"""What a call of `sample` has made, learned, decided and spent so far, and how it goes on."""

import copy
import dataclasses
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Array, PRNGKeyArray

from nnghmc.calls import Tally
from nnghmc.chains import History, HistoryInMemory, Supervision, run_chains
from nnghmc.compilation import make_room_for_compiled_code
from nnghmc.cost import Cost, PhaseCost
from nnghmc.errors import PosteriorError, PrecisionWarning, StoreError, positive_integer
from nnghmc.interrupts import stop_on_interrupt
from nnghmc.journal import Journal, NoJournal, Step
from nnghmc.kernels import HMCState, Tuning
from nnghmc.payoff import Estimate, estimate_run
from nnghmc.posterior import Posterior
from nnghmc.precision import energy_noise_message
from nnghmc.progress import reporting
from nnghmc.provenance import provenance
from nnghmc.run import Run
from nnghmc.schedule import Decision
from nnghmc.store import Store
from nnghmc.stored_draws import KEPT, StoredHistory
from nnghmc.surrogates import GradientData, GradientModel, Surrogate, Training, fit, fitted_before
from nnghmc.transitions import Transition

EXTENDED = "extended"
"""The kind of note in the journal that says that more draws are wanted than at first."""


@contextmanager
def supervised(
    posterior: Posterior,
    progress: bool,
    chunk_size: int | None = None,
    store: Store | None = None,
) -> Iterator[Supervision]:
    """A progress bar, Ctrl-C as a request to stop, and a journal where there is a store."""
    make_room_for_compiled_code()
    with ExitStack() as stack:
        journal = NoJournal()
        if store is not None:
            stack.enter_context(store.locked())
        stop = stack.enter_context(stop_on_interrupt())
        if store is not None:
            journal = Journal(store.folder, stop)
        reporter = stack.enter_context(reporting(progress))
        watched = Supervision(reporter, stop, chunk_size, journal)
        if posterior.calls is not None:
            watched = dataclasses.replace(watched, check=posterior.calls.check)
        try:
            yield watched
        except StoreError:  # it cannot be written
            raise
        except BaseException:
            with suppress(StoreError):
                journal.write()
            raise
        journal.write()


@dataclass
class Record:
    """It grows phase by phase, and ends as a run."""

    posterior: Posterior
    supervision: Supervision
    store: Store | None = None
    cost: Cost = field(default_factory=Cost)
    discarded: list[tuple[str, History]] = field(default_factory=list)
    collected: list[GradientData] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    surrogate: Surrogate | None = None
    remarks: list[str] = field(default_factory=list)
    story: list[str] = field(default_factory=list)
    estimate: Estimate | None = None

    def __post_init__(self) -> None:
        self.cost.recalled = lambda: self.journal.seconds_recalled
        if isinstance(self.journal, Journal):
            self.journal.on_write = self.tell_status
        calls = self.posterior.calls
        self._calls_before = Tally() if calls is None else calls.begin()

    @property
    def journal(self) -> NoJournal:
        """Where steps are remembered."""
        return self.supervision.journal

    @property
    def remarks_on_calls(self) -> list[str]:
        """What became of the calls of a function outside JAX in this run, if some failed."""
        calls = self.posterior.calls
        return [] if calls is None else calls.remarks_since(self._calls_before)

    @contextmanager
    def explaining(self) -> Iterator[None]:
        """An error inside is told with what a function outside JAX had to say before it."""
        try:
            yield
        except PosteriorError as error:
            calls = self.posterior.calls
            said = Tally() if calls is None else calls.tally.since(self._calls_before)
            if not said.last_error or said.last_error in str(error):
                raise
            told = PosteriorError(f"{error} Before that, {said}.")
            raise told.with_traceback(error.__traceback__) from None

    @cached_property
    def made(self) -> str:
        """When, where and with which versions; found out once, since it looks through packages."""
        return provenance()

    def check_energies(self, states: HMCState) -> None:
        """Warn where rounding makes the energies too coarse for the Metropolis test."""
        noise = energy_noise_message(states.potential, self.posterior.energy_precision)
        if noise is not None:
            self.remarks.append(noise)
            warnings.warn(noise, PrecisionWarning, stacklevel=5)

    def time(self, positions: Array, draws: int, **options: bool) -> Estimate:
        """What a run will take; the clock is asked only once, for it would answer differently."""
        remembered = self.journal.recall("estimate")
        if remembered is not None:
            return Estimate.from_values(remembered.values)
        started = time.perf_counter()
        found = estimate_run(self.posterior, positions, draws, **options)
        seconds = time.perf_counter() - started
        self.journal.add(Step("estimate", values=dataclasses.asdict(found), seconds=seconds))
        return found

    def fit(
        self,
        network: GradientModel,
        data: GradientData,
        key: PRNGKeyArray,
        training: Training | None = None,
    ) -> Surrogate:
        """Fit a model to gradient data, or recall what came of it."""
        given = (network, data, key, training, self.posterior.layout)
        remembered = self.journal.recall("fit")
        if remembered is not None:
            assert self.store is not None
            before = Surrogate.from_arrays(dict(remembered.arrays), self.store.folder)
            self.surrogate = fitted_before(before, *given)
            return self.surrogate
        started = time.perf_counter()
        self.surrogate = fit(*given)
        if self.store is not None:
            seconds = time.perf_counter() - started
            self.journal.add(Step("fit", self.surrogate.as_arrays(), seconds=seconds))
        return self.surrogate

    def advance(
        self,
        phase: str,
        label: str,
        transition: Transition,
        tuning: Tuning,
        key: PRNGKeyArray,
        states: HMCState,
        draw_numbers: range,
        **options: Any,
    ) -> tuple[HMCState, History]:
        """Move all chains on, and count the cost."""
        self.supervision.reporter.begin(label, len(draw_numbers))
        with self.cost.timed(phase) as cost:
            states, history = run_chains(
                transition.move, tuning, key, states, draw_numbers, self.supervision, **options
            )
            cost.add(transition.cost(history))
        return states, history

    def result(
        self, method: str, seed: int, draws: int, kept: History, phase: "SamplePhase | None" = None
    ) -> Run:
        """Everything, in the form a user keeps."""
        made = [history for _, history in self.discarded if history.length]
        empty = np.empty((kept.num_chains, 0, self.posterior.dim))
        closing = [] if phase is None else phase.remarks_on(self, kept)
        run = Run(
            posterior=self.posterior,
            method=method,
            seed=seed,
            kept=kept,
            warmup_draws=np.concatenate([empty, *(history.draws for history in made)], axis=1),
            warmup_stats={
                name: np.concatenate([history.stats[name] for history in made], axis=1)
                for name in (made[0].stats if made else ())
            },
            cost=self.cost,
            decisions=tuple(self.decisions),
            surrogate=self.surrogate,
            gradient_data=GradientData.concatenate(self.collected) if self.collected else None,
            complete=kept.length == draws,
            remarks=(*self.remarks, *closing, *self.remarks_on_calls),
            story=tuple(self.story),
            estimate=self.estimate,
            store=None if self.store is None else self.store.folder,
            phase=phase,
        )
        if self.store is not None:
            self.store.write_status({**self.status(), **run.outcome()})
            self.store.write_surrogate(self.surrogate)
            if isinstance(kept, StoredHistory):
                kept.write_warmup(run.warmup_draws, run.warmup_stats)
        return run

    def status(self) -> dict[str, Any]:
        """What is known so far, for people and for a report."""
        return {
            "made": self.made,
            "story": self.story,
            "remarks": self.remarks,
            "decisions": [str(decision) for decision in self.decisions],
            "cost": self.cost.as_dict(),
            "complete": False,
        }

    def tell_status(self) -> None:
        """Write what is known so far to the store."""
        assert self.store is not None
        self.store.write_status(self.status())


RemarksOn = Callable[[Record, History], list[str]]
"""What is to be said of the kept draws once they are made."""


@dataclass(frozen=True)
class Kernel:
    """What makes the kept draws: the same for the last of them as for the first."""

    transition: Transition
    tuning: Tuning
    key: PRNGKeyArray
    quick: bool = False


@dataclass(frozen=True)
class SamplePhase:
    """The last phase of a run, and where it stands: it can be gone on with at any time."""

    record: Record
    method: str
    seed: int
    kernel: Kernel
    states: HMCState
    kept: History
    remarks_on: RemarksOn

    @classmethod
    def begin(
        cls,
        record: Record,
        method: str,
        seed: int,
        kernel: Kernel,
        states: HMCState,
        draws: int,
        remarks_on: RemarksOn,
    ) -> Run:
        """Make the draws to keep, those that an earlier process has not made; the run that ends."""
        chains, dim = states.position.shape
        kept: History = HistoryInMemory(chains, draws, dim)
        if isinstance(record.journal, Journal):
            assert record.store is not None
            with record.cost.timed("sample"):
                kept = StoredHistory(record.store.folder, record.posterior, chains, record.journal)
            states = states if kept.states is None else kept.states
            wanted = record.journal.notes_of(EXTENDED)
            draws = int(wanted[-1]["draws"]) if wanted else draws
        return cls(record, method, seed, kernel, states, kept, remarks_on).until(draws)

    def until(self, draws: int, counted: PhaseCost | None = None) -> Run:
        """Go on to so many draws a chain; what the kept ones cost may have been counted before."""
        kernel, record = self.kernel, self.record
        states, kept = record.advance(
            "sample",
            "sample",
            kernel.transition,
            kernel.tuning,
            kernel.key,
            self.states,
            range(self.kept.length, draws),
            quick=kernel.quick,
            history=self.kept,
        )
        if counted is not None:
            record.cost.sample.add(PhaseCost() - counted)
        here = dataclasses.replace(self, states=states, kept=kept)
        return record.result(self.method, self.seed, draws, kept, here)

    def extended(self, more: int, progress: bool) -> Run:
        """So many more draws a chain, by the same kernel from where the chains stand."""
        more = positive_integer("draws", more)
        record = self.record
        chunk_size = record.supervision.chunk_size
        with supervised(record.posterior, progress, chunk_size, record.store) as supervision:
            going_on = dataclasses.replace(
                record,
                supervision=supervision,
                cost=copy.deepcopy(record.cost),
                remarks=list(record.remarks),
            )
            kept, draws = self._room_for(more, going_on), self.kept.length + more
            counted = self.kernel.transition.cost(kept)
            with going_on.explaining():
                return dataclasses.replace(self, record=going_on, kept=kept).until(draws, counted)

    def _room_for(self, more: int, record: Record) -> History:
        """The kept draws, and where to put more of them."""
        if isinstance(self.kept, HistoryInMemory):
            return self.kept.longer(more)
        assert isinstance(record.journal, Journal)
        assert record.store is not None
        record.journal.forget_steps()
        last = record.journal.notes_of(KEPT)
        if last and last[-1]["stop"] != self.kept.length:
            raise StoreError(
                f"this run of {self.kept.length} draws a chain has since become one of "
                f"{last[-1]['stop']}; extend that one, nnghmc.resume gives it."
            )
        total = self.kept.length + more
        record.journal.note({"kind": EXTENDED, "draws": total}, {})
        chains = self.kept.num_chains
        return StoredHistory(record.store.folder, record.posterior, chains, record.journal)
