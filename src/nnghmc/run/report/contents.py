"""What a report shows: plain words, numbers and arrays, all of them taken from one run."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from shlex import quote

import numpy as np

from nnghmc.engine.cost import Cost
from nnghmc.engine.events import Note, UnknownEvent
from nnghmc.engine.history import ACCEPTANCE
from nnghmc.model.monitor import Tally
from nnghmc.platform.text import counted
from nnghmc.run.notes import interrupted
from nnghmc.run.plots import labelled_scalars
from nnghmc.run.run import Run
from nnghmc.surrogates import Surrogate
from nnghmc.surrogates.learned import all_gradients

MOST_POINTS = 1000
"""Held-out points that a figure shows at most."""
PHASE_NAMES = {"warmup": "warm-up"}
"""What people call a phase, where that differs from its name in the code."""
COLLECT = "collect"


@dataclass(frozen=True)
class Phase:
    """A part of the run, by its name and the draws per chain that were made in it."""

    name: str
    draws: int


@dataclass(frozen=True)
class Probe:
    """A trial of the learned gradient.

    Attributes:
        after: warm-up draws per chain before it.
        acceptance: the mean acceptance probability of its draws.
    """

    after: int
    acceptance: float


@dataclass(frozen=True, eq=False)
class HeldOutGradients:
    """True and learned gradients at points that were held out of the fit, one row per point.

    Each coordinate is multiplied by the standard deviation of the points along it. A gradient of 1
    is then that of a standard normal one standard deviation from its mean, whatever the units of
    the parameters.
    """

    coordinates: tuple[str, ...]
    true: np.ndarray
    learned: np.ndarray

    @classmethod
    def of(cls, surrogate: Surrogate, coordinates: tuple[str, ...]) -> "HeldOutGradients | None":
        """Evaluate a surrogate at up to `MOST_POINTS` points; None where none were held out."""
        if surrogate.held_out is None or not len(surrogate.held_out):
            return None
        spread = surrogate.held_out.positions.std(axis=0)
        points = surrogate.held_out.thinned(MOST_POINTS)
        learned = all_gradients(surrogate.learned, points.positions)
        if surrogate.of_inputs and surrogate.dim != len(coordinates):
            coordinates = tuple(f"input {number}" for number in range(surrogate.dim))
        return cls(coordinates, points.gradients * spread, learned * spread)

    @property
    def errors(self) -> np.ndarray:
        """The root mean square error of each coordinate, relative to that of its true gradient."""
        size = np.sqrt(np.mean(self.true**2, axis=0))
        error = np.sqrt(np.mean((self.learned - self.true) ** 2, axis=0))
        return np.asarray(error / np.where(size > 0, size, 1.0))


@dataclass(frozen=True, eq=False)
class Fit:
    """How the last fit of the gradient went.

    Attributes:
        lines: a description in words.
        losses: the training loss of each epoch; empty where there were no epochs.
        held_out_losses: the loss on held-out points; empty where they did not decide when to stop.
        gradients: the learned and the true gradient; None where no points were held out.
    """

    lines: tuple[str, ...]
    losses: np.ndarray
    held_out_losses: np.ndarray
    gradients: HeldOutGradients | None

    @classmethod
    def of(cls, surrogate: Surrogate, coordinates: tuple[str, ...]) -> "Fit":
        """Describe the fit of a surrogate whose coordinates have these names."""
        report = surrogate.report
        return cls(
            tuple(report.lines),
            np.asarray(report.losses),
            np.asarray(report.held_out_losses),
            HeldOutGradients.of(surrogate, coordinates),
        )


@dataclass(frozen=True, eq=False)
class Contents:
    """Everything that a report shows.

    Attributes:
        model: what was sampled, in words.
        dim: the number of unconstrained coordinates.
        chains: the number of chains.
        method: the method, in words.
        exact: whether its stationary distribution is the posterior.
        complete: whether all draws that were asked for have been made.
        seed: the seed.
        made: when, where and with which versions the run was made.
        cost: evaluations and seconds by phase.
        scalars: the kept draws of each scalar of the reported variables, shape (chains, draws).
        stats: statistics of the kept draws by ArviZ's names, each of shape (chains, draws).
        warmup_stats: statistics of the warm-up draws, likewise.
        notes: what a person should know before using the draws.
        story: what was found and decided, in sentences.
        fit: what was learned last; None where nothing was.
        phases: all phases in order, the kept draws last; phases without draws are left out.
        probes: the trials of the learned gradient.
        calls: calls of a function outside JAX.
        store: the folder of the run; empty where it has none.
    """

    model: str
    dim: int
    chains: int
    method: str
    exact: bool
    complete: bool
    seed: int
    made: str
    cost: Cost
    scalars: Mapping[str, np.ndarray]
    stats: Mapping[str, np.ndarray]
    warmup_stats: Mapping[str, np.ndarray] = field(default_factory=dict)
    notes: tuple[Note, ...] = ()
    story: tuple[str, ...] = ()
    fit: Fit | None = None
    phases: tuple[Phase, ...] = ()
    probes: tuple[Probe, ...] = ()
    calls: Tally = field(default_factory=Tally)
    store: str = ""

    @classmethod
    def of_run(cls, run: Run) -> "Contents":
        """Take the contents from a run, whether it was just made or loaded from a store."""
        facts = run.facts
        return cls(
            model=facts.model,
            dim=run.dim,
            chains=run.kept.num_chains,
            method=run.title,
            exact=run.exact,
            complete=run.complete,
            seed=run.seed,
            made=facts.made,
            cost=run.cost,
            scalars=labelled_scalars(run) if run.kept.size else {},
            stats=run.stats,
            warmup_stats=run.warmup_stats,
            notes=run.notes,
            story=run.story,
            fit=None if run.surrogate is None else Fit.of(run.surrogate, facts.coordinates),
            phases=_phases(run),
            probes=_probes(run),
            calls=run.calls,
            store="" if run.store is None else str(run.store),
        )

    @property
    def draws(self) -> int:
        """The number of kept draws per chain."""
        return next(iter(self.scalars.values())).shape[1] if self.scalars else 0

    @property
    def unfinished(self) -> Note | None:
        """How far an incomplete run has come, and how to go on; None for a complete one."""
        if self.complete:
            return None
        if self.store:
            text = (
                f"this run is not complete: it was stopped after {counted(self.draws, 'draw')} per "
                "chain, or is still going on"
            )
            remedy = f"once it has stopped, go on with it: nnghmc resume {quote(self.store)}"
            in_python = f"nnghmc.resume({self.store!r}, model)"
            return Note("incomplete", text, f"{remedy}, or in Python {in_python}")
        remedy = "make the others with run.extend" if self.draws else "sample again"
        return Note("incomplete", interrupted(self.draws), remedy)

    @property
    def acceptance(self) -> np.ndarray:
        """Acceptance probabilities of all draws, warm-up first; NaN where nothing was tested."""
        return self._of_all_draws(ACCEPTANCE, np.nan)

    @property
    def diverged(self) -> np.ndarray:
        """Mask of the draws whose trajectory diverged, warm-up first."""
        return self._of_all_draws("diverging", False).astype(bool)

    def _of_all_draws(self, name: str, unknown: float) -> np.ndarray:
        kept = self.draws
        before = sum(phase.draws for phase in self.phases) - kept
        parts = ((self.warmup_stats, before), (self.stats, kept))
        rows = [stats.get(name, np.full((self.chains, size), unknown)) for stats, size in parts]
        return np.concatenate(rows, axis=1)

    def statistic(self, name: str) -> np.ndarray:
        """Return a statistic of the kept draws, shape (chains, draws); without draws if unknown."""
        return np.asarray(self.stats.get(name, np.empty((self.chains, 0))))


def _phases(run: Run) -> tuple[Phase, ...]:
    warmup = [
        Phase(PHASE_NAMES.get(name, name), draws)
        for name, draws in run.preparation.warmup.phases
        if draws
    ]
    return (*warmup, Phase("kept", run.kept.length)) if run.kept.length else tuple(warmup)


def _probes(run: Run) -> tuple[Probe, ...]:
    """Return the probes of the automatic run, and those of a schedule.

    Events that another version of the package wrote are left out: they may have other fields.
    """
    first = _draws_before_collecting(run)
    before = sum(draws for _, draws in run.preparation.warmup.phases)
    probed = [event for event in run.events_of("Probed") if not isinstance(event, UnknownEvent)]
    decided = [event for event in run.decisions if not isinstance(event, UnknownEvent)]
    return (
        *(Probe(before, event.acceptance) for event in probed),
        *(Probe(first + event.draws_collected, event.learned_acceptance) for event in decided),
    )


def _draws_before_collecting(run: Run) -> int:
    """Return the warm-up draws per chain before the first draw of a schedule."""
    phases = run.preparation.warmup.phases
    names = [name for name, _ in phases]
    first = names.index(COLLECT) if COLLECT in names else len(names)
    return sum(draws for _, draws in phases[:first])
