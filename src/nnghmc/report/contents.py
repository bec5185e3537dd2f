"""What a report is made of: plain words, numbers and arrays, from a run in memory or from files."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from nnghmc.cost import Cost
from nnghmc.plots import scalars_of
from nnghmc.provenance import provenance
from nnghmc.run import Run
from nnghmc.surrogates import Surrogate
from nnghmc.surrogates.learned import all_gradients

if TYPE_CHECKING:
    from xarray import DataTree

MOST_POINTS = 1000


@dataclass(frozen=True)
class Phase:
    """A stretch of draws, and how many each chain made in it."""

    name: str
    draws: int


@dataclass(frozen=True)
class Probe:
    """Draws that tried the learned gradient: after how many others, and how much they accepted."""

    after: int
    acceptance: float


@dataclass(frozen=True, eq=False)
class HeldOutGradients:
    """True and learned gradients at points that were not learned from, a row a point.

    Each coordinate times the spread of the points along it, so that a gradient of 1 is that of a
    standard normal one standard deviation from its middle, whatever the units of the parameters.
    """

    coordinates: tuple[str, ...]
    true: np.ndarray
    learned: np.ndarray

    @classmethod
    def of(cls, surrogate: Surrogate, coordinates: tuple[str, ...]) -> "HeldOutGradients | None":
        """Of at most so many points as can be seen; None where none were held out."""
        if surrogate.held_out is None or not len(surrogate.held_out):
            return None
        spread = surrogate.held_out.positions.std(axis=0)
        points = surrogate.held_out.thinned(MOST_POINTS)
        learned = all_gradients(surrogate.learned, points.positions)
        return cls(coordinates, points.gradients * spread, learned * spread)

    @property
    def errors(self) -> np.ndarray:
        """The size of each coordinate's error, relative to that of its true gradient."""
        size = np.sqrt(np.mean(self.true**2, axis=0))
        error = np.sqrt(np.mean((self.learned - self.true) ** 2, axis=0))
        return np.asarray(error / np.where(size > 0, size, 1.0))


@dataclass(frozen=True, eq=False)
class Fit:
    """How the last fit of the gradient went.

    Attributes:
        lines: in words, a line a matter.
        losses: the training loss of each epoch, where there were epochs.
        held_out_losses: that on held-out points, where they decided when to stop.
        gradients: the learned gradient beside the true one, where points were held out.
    """

    lines: tuple[str, ...]
    losses: np.ndarray
    held_out_losses: np.ndarray
    gradients: HeldOutGradients | None

    @classmethod
    def of(cls, surrogate: Surrogate, coordinates: tuple[str, ...]) -> "Fit":
        """Of a surrogate for a posterior with these names of coordinates."""
        report = surrogate.report
        return cls(
            tuple(report.lines),
            np.asarray(report.losses),
            np.asarray(report.held_out_losses),
            HeldOutGradients.of(surrogate, coordinates),
        )


@dataclass(frozen=True, eq=False)
class Contents:
    """Everything a report tells.

    Attributes:
        model: what was sampled, in words.
        dim: its unconstrained coordinates.
        chains: the chains.
        method: the method, in words.
        exact: whether its draws are from the true posterior.
        complete: False where the run was interrupted.
        seed: the seed.
        made: when, where and with which versions.
        data: the draws in ArviZ's groups, as `Run.to_tree` has them; groups without draws may be
            missing.
        cost: evaluations and seconds by phase.
        notes: what a person should know before using the draws; nothing if all is well.
        story: what was tried, found and decided, a line each.
        fit: what was learned last; None where nothing was.
        phases: the draws in the order in which they were made, the kept ones last; nothing where no
            more is known than which were kept.
        probes: where the learned gradient was tried.
    """

    model: str
    dim: int
    chains: int
    method: str
    exact: bool
    complete: bool
    seed: int
    made: str
    data: "DataTree"
    cost: Cost
    notes: tuple[str, ...] = ()
    story: tuple[str, ...] = ()
    fit: Fit | None = None
    phases: tuple[Phase, ...] = ()
    probes: tuple[Probe, ...] = ()

    @classmethod
    def of_run(cls, run: Run) -> "Contents":
        """From a run in memory."""
        names = tuple(run.posterior.layout.coordinate_names)
        return cls(
            model=repr(run.posterior),
            dim=run.posterior.dim,
            chains=len(run.draws),
            method=run.title,
            exact=run.exact,
            complete=run.complete,
            seed=run.seed,
            made=provenance(),
            data=run.to_tree(),
            cost=run.cost,
            notes=run.notes,
            story=(*run.story, *map(str, run.decisions)),
            fit=None if run.surrogate is None else Fit.of(run.surrogate, names),
            phases=_phases(run),
            probes=_probes(run),
        )

    @cached_property
    def scalars(self) -> dict[str, np.ndarray]:
        """The reported variables taken apart, (chains, draws) each; nothing without draws."""
        return scalars_of(self.data["posterior"]) if "posterior" in self.data else {}

    @property
    def draws(self) -> int:
        """Kept draws a chain."""
        return int(self.data["posterior"].sizes["draw"]) if "posterior" in self.data else 0

    @property
    def all_phases(self) -> tuple[Phase, ...]:
        """Those told, if they are of just the draws there are statistics of; else two of them."""
        kept, made = (
            self._statistic(group, "acceptance_rate").shape[1]
            for group in ("sample_stats", "warmup_sample_stats")
        )
        if sum(phase.draws for phase in self.phases) == made + kept:
            return self.phases
        phases = (Phase("warm-up", made), Phase("kept", kept))
        return tuple(phase for phase in phases if phase.draws)

    def statistic(self, name: str) -> np.ndarray:
        """A statistic of the kept draws, (chains, draws); without any where it is not known."""
        return self._statistic("sample_stats", name)

    def whole_statistic(self, name: str) -> np.ndarray:
        """A statistic of all draws, warm-up first."""
        groups = ("warmup_sample_stats", "sample_stats")
        return np.concatenate([self._statistic(group, name) for group in groups], axis=1)

    def _statistic(self, group: str, name: str) -> np.ndarray:
        if group not in self.data or name not in self.data[group]:
            return np.empty((self.chains, 0))
        return np.asarray(self.data[group][name].values)


def _phases(run: Run) -> tuple[Phase, ...]:
    """What is known of them: only a schedule says how many draws it collected."""
    made, collected = run.warmup_draws.shape[1], _collected(run)
    phases = [
        Phase("warm-up", made - collected),
        Phase("collect", collected),
        Phase("kept", run.draws.shape[1]),
    ]
    return tuple(phase for phase in phases if phase.draws)


def _collected(run: Run) -> int:
    if run.story or run.gradient_data is None or not len(run.gradient_data):
        return 0
    return int(run.gradient_data.trajectories.max()) + 1


def _probes(run: Run) -> tuple[Probe, ...]:
    first = run.warmup_draws.shape[1] - _collected(run)
    return tuple(
        Probe(first + decision.draws_collected, decision.learned_acceptance)
        for decision in run.decisions
    )
