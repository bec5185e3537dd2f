"""Standard HMC against NNgHMC as the paper sets it and as we would run it, whole runs.

All three have the same posterior, the same chains and starts, and in each chain as many draws as
the paper's single one has, those that are learned from among them. In the quick form fewer draws
are made, and the times and effective sample sizes of a whole run are computed from the rates that
were measured.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from nnghmc.cost import PHASES
from nnghmc.diagnostics import bulk_ess, paper_ess, rhat
from nnghmc.paper.experiment import Table, whole_run
from nnghmc.posterior import Posterior
from nnghmc.run import Run
from nnghmc.schedule import TrainingSchedule
from nnghmc.surrogates import GradientModel, Training

CHAINS = 8
SETTLED = 1.1
"""The R-hat above which draws are too few to tell an ESS from."""
PAPER_TRAINING = Training(epochs=50, batch_size=32, learning_rate=0.02, held_out=0.0)
"""The paper prints the epochs; batches and learning rate are what did well."""
UNKNOWN = "Why it is less is not known yet."
HEADER = (
    "", "AP", "ESS min", "median", "max", "paper's ESS", "R-hat", "seconds", "ESS/s", "speed-up",
    "sampling alone",
)  # fmt: skip


@dataclass(frozen=True)
class Draws:
    """Numbers of draws.

    Attributes:
        true: of each chain, by standard HMC.
        collected: of all chains together, to learn from.
        learned: of each chain, along a learned gradient.
    """

    true: int
    collected: int
    learned: int


@dataclass(frozen=True)
class Course:
    """How the paper runs a posterior.

    Attributes:
        step_size: ε.
        most_steps: L; numbers of steps are drawn up to it, as in the authors' own code.
        draws: of the whole run, in each chain.
        collected: draws of all chains together whose gradients are learned from.
        network: what learns them.
        training: how.
        quick: the draws of the quick form; None where the full form is quick.
        warmup: draws a chain before any of these, by standard HMC.
    """

    step_size: float
    most_steps: int
    draws: int
    collected: int
    network: GradientModel
    training: Training = PAPER_TRAINING
    quick: Draws | None = None
    warmup: int = 0

    def made(self, full: bool) -> Draws:
        """The draws that are really made."""
        whole = Draws(self.draws, self.collected, self.kept)
        return whole if full or self.quick is None else self.quick

    @property
    def kept(self) -> int:
        """The draws of each chain along a learned gradient."""
        return self.draws - self.collected // CHAINS

    @property
    def tuning(self) -> dict[str, Any]:
        """As arguments of `sample`."""
        return {
            "step_size": self.step_size,
            "num_steps": (1, self.most_steps),
            "warmup": self.warmup,
        }


@dataclass(frozen=True)
class Leg:
    """A run, and how many draws each chain of the whole run has that it stands for.

    Attributes:
        name: of its row.
        run: what was made.
        draws: of each chain of the whole run.
        collected: the share of what a whole run collects that was collected.
        axes: columns, the directions that are looked at; None for the coordinates.
    """

    name: str
    run: Run
    draws: int
    collected: float = 1.0
    axes: np.ndarray | None = None

    @property
    def share(self) -> float:
        """Of the draws of the whole run that were made."""
        return self.run.draws.shape[1] / self.draws

    @property
    def computed(self) -> bool:
        """Whether times are computed from rates."""
        return self.share < 0.99 or self.collected < 0.99

    def seconds(self, phases: Sequence[str] = PHASES) -> float:
        """Of a whole run: what is compiled is compiled once, the rest goes with the draws."""
        shares = {"sample": self.share, "collect": self.collected, "train": self.collected}
        total = 0.0
        for phase in phases:
            cost = getattr(self.run.cost, phase)
            work = (cost.seconds - cost.compile_seconds) / shares.get(phase, 1.0)
            total += cost.compile_seconds + work
        return total

    @property
    def looked_at(self) -> np.ndarray:
        """The draws along the axes."""
        return self.run.draws if self.axes is None else self.run.draws @ self.axes

    @cached_property
    def sizes(self) -> np.ndarray:
        """Bulk ESS of each direction, of a whole run.

        Chains that do not move have one effective draw each, however long the run.
        """
        more = np.maximum(bulk_ess(self.looked_at) - CHAINS, 0.0)
        return np.asarray(CHAINS + more / self.share)

    @cached_property
    def rhat(self) -> np.ndarray:
        """Of each direction."""
        return rhat(self.looked_at)

    def rate(self, phases: Sequence[str] = PHASES) -> float:
        """Median ESS a second."""
        return float(np.median(self.sizes)) / self.seconds(phases)


@dataclass(frozen=True)
class Race:
    """The three runs; the first is the measure of the others."""

    legs: tuple[Leg, ...]

    def __getitem__(self, name: str) -> Run:
        return self.leg(name).run

    def leg(self, name: str) -> Leg:
        """The one of this name."""
        return next(leg for leg in self.legs if leg.name == name)

    @property
    def runs(self) -> tuple[Run, ...]:
        """The runs alone."""
        return tuple(leg.run for leg in self.legs)

    def speed_up(self, leg: Leg, phases: Sequence[str] = PHASES) -> float:
        """Median ESS a second, relative to that of the first."""
        return leg.rate(phases) / self.legs[0].rate(phases)

    def verdict(self, paper: float, ours: float, why: str = UNKNOWN) -> str:
        """What was to be reached and what was; if that is less, why; whether the measure holds."""
        the_paper_s = max(
            self.speed_up(leg) for leg in self.legs if leg.name.startswith(AS_THE_PAPER)
        )
        our_own = self.speed_up(self.leg(AS_WE_WOULD))
        words = (
            f"Goal: a speed-up of {paper:.2f} the paper's way, as in the paper, and of {ours:g} "
            f"our way. Reached: {the_paper_s:.2f} and {our_own:.2f}."
        )
        reason = "" if the_paper_s >= paper and our_own >= ours else why
        return " ".join(part for part in (words, reason, self.unsettled) if part)

    def table(self, title: str, paper: Sequence[Sequence[str]] = ()) -> Table:
        """Ours, then rows of the paper's own figures."""
        rows = [self._row(leg) for leg in self.legs]
        return Table(title, HEADER, [*rows, *paper])

    def _row(self, leg: Leg) -> tuple[str, ...]:
        sizes = leg.sizes
        accepted = leg.run.acceptance
        return (
            leg.name,
            "" if np.isnan(accepted) else f"{accepted:.2f}",
            *(f"{size:,.0f}" for size in (sizes.min(), np.median(sizes), sizes.max())),
            f"{np.median(paper_ess(leg.looked_at)) / leg.share:,.0f}",
            f"{leg.rhat.max():.2f}",
            f"{leg.seconds():,.1f}{' *' if leg.computed else ''}",
            f"{leg.rate():,.2f}",
            f"{self.speed_up(leg):.2f}",
            f"{self.speed_up(leg, ('sample',)):.2f}",
        )

    @property
    def remarks(self) -> str:
        """How to read the table."""
        words = (
            f"{CHAINS} chains, in each as many draws as the paper's one has. ESS is ArviZ's bulk "
            f"ESS over the {self._directions}; beside it the median by the paper's formula; R-hat "
            "is the largest. Seconds are those of the whole run, with compiling, collecting and "
            "training; speed-up is that of the median ESS a second. The last column is the "
            "speed-up of the draws alone, once the gradient is learned."
        )
        if any(leg.computed for leg in self.legs):
            words += (
                " Times with a * and the sizes in their rows are computed for the whole run from "
                "the rates of fewer draws."
            )
        return words

    @property
    def _directions(self) -> str:
        return (
            "coordinates"
            if self.legs[0].axes is None
            else "principal directions of the normal approximation"
        )

    @property
    def unsettled(self) -> str:
        """Where the measure itself has not mixed; empty where it has."""
        measure = self.legs[0]
        above = int(np.sum(measure.rhat > SETTLED))
        if not above:
            return ""
        words = (
            f"R-hat of {measure.name} is above {SETTLED} in {above} of {len(measure.rhat)} "
            f"{self._directions}"
        )
        if 2 * above < len(measure.rhat):
            return f"{words}; the median is over all, and not of one of these."
        return (
            f"{words}: so few draws of it hardly tell its ESS, which is less than it seems, and "
            "the speed-ups are more."
        )


STANDARD, AS_THE_PAPER, AS_WE_WOULD = "standard HMC", "NNgHMC, the paper's way", "NNgHMC, our way"


def paper_row(
    name: str,
    acceptance: float | None = None,
    seconds: float | None = None,
    rate: float | None = None,
    speed_up: float | None = None,
) -> tuple[str, ...]:
    """What the paper reports; what it does not is left out."""

    def shown(value: float | None, form: str) -> str:
        return "" if value is None else f"{value:{form}}"

    known = (shown(seconds, ",.0f"), shown(rate, ".2f"), shown(speed_up, ".2f"))
    return (f"the paper: {name}", shown(acceptance, ".2f"), *[""] * 5, *known, "")


@dataclass(frozen=True)
class Runner:
    """What the runs of a race have in common."""

    posterior: Posterior
    course: Course
    full: bool = False
    seed: int = 0
    progress: bool = True
    axes: np.ndarray | None = None
    starts: np.ndarray | None = None

    @property
    def made(self) -> Draws:
        """The draws that are really made."""
        return self.course.made(self.full)

    def by(self, draws: int, **settings: Any) -> Run:
        """A whole run of so many draws in each chain."""
        return whole_run(
            self.posterior,
            draws,
            CHAINS,
            self.seed,
            progress=self.progress,
            initial_positions=self.starts,
            **settings,
        )

    def leg(self, name: str, run: Run, draws: int, collected: float = 1.0) -> Leg:
        """Of a run, looked at along the axes."""
        return Leg(name, run, draws, collected, self.axes)

    def standard(self) -> Leg:
        """By the true gradient."""
        run = self.by(self.made.true, method="hmc", **self.course.tuning)
        return self.leg(STANDARD, run, self.course.draws)

    def as_the_paper(self, name: str = AS_THE_PAPER) -> Leg:
        """It learns once, from all it has collected, and goes on with what it got."""
        course, made = self.course, self.made
        schedule = TrainingSchedule.once(
            made.collected // CHAINS, probe_draws=5, tolerance=1.0, least_acceptance=0.0
        )
        run = self.by(
            made.learned,
            method="nnghmc",
            network=course.network,
            training=course.training,
            schedule=schedule,
            **course.tuning,
        )
        return self.leg(name, run, course.kept, made.collected / course.collected)

    def as_we_would(self) -> Leg:
        """With nothing told but the number of draws."""
        made = self.made.learned + self.made.collected // CHAINS
        return self.leg(AS_WE_WOULD, self.by(made), self.course.draws)


def race(
    posterior: Posterior, course: Course, full: bool, seed: int = 0, progress: bool = True
) -> Race:
    """All three."""
    runner = Runner(posterior, course, full, seed, progress)
    return Race((runner.standard(), runner.as_the_paper(), runner.as_we_would()))
