"""Race standard HMC against NNgHMC with the paper's settings and against the automatic run.

All runs have the same posterior and the same number of chains. Unless starts are given, the
automatic run starts around the initial point and the others start at it. Each chain has as many
draws as the single chain of the paper; those that HMC with the paper's settings learns from count.
The quick form makes fewer draws, and times and effective sample sizes of whole runs are
extrapolated from it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from nnghmc import (
    HMC,
    Auto,
    GradientModel,
    Method,
    NNgHMC,
    Posterior,
    Run,
    Training,
    TrainingSchedule,
    diagnostics,
)
from nnghmc.paper.experiment import Table, whole_run

CHAINS = 8
LARGEST_RHAT = 1.1
"""R-hat above which there are too few draws to estimate an ESS."""
PAPER_TRAINING = Training(epochs=50, batch_size=32, learning_rate=0.02, held_out=0.0)
"""The paper prints the number of epochs; batch size and learning rate are values that work well."""
UNKNOWN = "We do not know why it is less."
STANDARD, PAPERS_WAY, OUR_WAY = "standard HMC", "NNgHMC, the paper's way", "NNgHMC, our way"
HEADER = (
    "", "AP", "ESS min", "median", "max", "paper's ESS", "R-hat", "seconds", "ESS/s", "speed-up",
    "sampling alone",
)  # fmt: skip


@dataclass(frozen=True)
class Draws:
    """Numbers of draws.

    Attributes:
        true: draws per chain by standard HMC.
        collected: draws of all chains together whose gradients are learned from.
        learned: draws per chain along a learned gradient.
    """

    true: int
    collected: int
    learned: int


@dataclass(frozen=True)
class Course:
    """The settings with which the paper samples a posterior.

    Attributes:
        step_size: ε.
        most_steps: L; the number of steps is uniform between 1 and L, as in the authors' own code.
        draws: draws per chain of a whole run.
        collected: draws of all chains together whose gradients are learned from.
        network: the model that learns the gradients.
        training: how it is trained.
        quick: the numbers of draws of the quick form; None where the full form is quick.
        warmup: draws per chain by standard HMC before all of these.
    """

    step_size: float
    most_steps: int
    draws: int
    collected: int
    network: GradientModel
    training: Training = PAPER_TRAINING
    quick: Draws | None = None
    warmup: int = 0

    def numbers(self, full: bool) -> Draws:
        """Return the numbers of draws of the full or the quick form."""
        whole = Draws(self.draws, self.collected, self.learned_draws)
        return whole if full or self.quick is None else self.quick

    @property
    def learned_draws(self) -> int:
        """Draws per chain along a learned gradient in a whole run."""
        return self.draws - self.collected // CHAINS

    @property
    def tuning(self) -> dict[str, Any]:
        """Step size, number of steps and warm-up, as arguments of a method."""
        return {
            "step_size": self.step_size,
            "num_steps": (1, self.most_steps),
            "warmup": self.warmup,
        }


@dataclass(frozen=True)
class Leg:
    """A run, and the length of the whole run that it stands for.

    Attributes:
        name: the name of its row in the table.
        run: the run.
        draws: draws per chain of the whole run.
        collected_share: the part of a whole run's gradients that this run collected.
        axes: the directions to look at, in columns; None for the coordinates.
    """

    name: str
    run: Run
    draws: int
    collected_share: float = 1.0
    axes: np.ndarray | None = None

    @property
    def drawn_share(self) -> float:
        """The number of draws of this run, as a fraction of those of a whole run."""
        return self.run.draws.shape[1] / self.draws

    @property
    def extrapolated(self) -> bool:
        """Whether the times of the whole run are extrapolated from fewer draws."""
        return self.drawn_share < 0.99 or self.collected_share < 0.99

    def seconds(self, *phases: str) -> float:
        """Return the seconds of a whole run, or of some of its phases.

        Code is compiled once per run; all other time grows with the number of draws.
        """
        shares = {
            "sample": self.drawn_share,
            "collect": self.collected_share,
            "train": self.collected_share,
        }
        total = 0.0
        for phase in phases or self.run.cost.as_dict():
            cost = getattr(self.run.cost, phase)
            work = (cost.seconds - cost.compile_seconds) / shares.get(phase, 1.0)
            total += cost.compile_seconds + work
        return total

    @property
    def projections(self) -> np.ndarray:
        """The draws in the directions to look at."""
        return self.run.draws if self.axes is None else self.run.draws @ self.axes

    @cached_property
    def ess(self) -> np.ndarray:
        """The bulk ESS of a whole run in each direction.

        Chains that do not move have one effective draw each, however long the run.
        """
        more = np.maximum(diagnostics.bulk_ess(self.projections) - CHAINS, 0.0)
        return np.asarray(CHAINS + more / self.drawn_share)

    @cached_property
    def rhat(self) -> np.ndarray:
        """The R-hat of the draws in each direction."""
        return diagnostics.rhat(self.projections)

    def rate(self, *phases: str) -> float:
        """Return the median ESS per second of a whole run, or of some of its phases."""
        return float(np.median(self.ess)) / self.seconds(*phases)


@dataclass(frozen=True)
class Race:
    """The legs of a race; the first one is the measure of speed-up."""

    legs: tuple[Leg, ...]

    def __getitem__(self, name: str) -> Run:
        return self.leg(name).run

    def leg(self, name: str) -> Leg:
        """Return the leg of this name."""
        return next(leg for leg in self.legs if leg.name == name)

    @property
    def runs(self) -> tuple[Run, ...]:
        """The runs of all legs."""
        return tuple(leg.run for leg in self.legs)

    def speed_up(self, leg: Leg, *phases: str) -> float:
        """Return the median ESS per second of a leg, relative to that of the first."""
        return leg.rate(*phases) / self.legs[0].rate(*phases)

    def verdict(self, paper: float, why: str = UNKNOWN) -> str:
        """Compare our speed-ups with the paper's; say why where its own settings give us less."""
        like_the_paper = [
            self.speed_up(leg) for leg in self.legs if leg.name.startswith(PAPERS_WAY)
        ]
        best, at_best = max(like_the_paper), " at best" if len(like_the_paper) > 1 else ""
        words = (
            f"The paper reports a speed-up of {paper:.2f}. Here the paper's way gives {best:.2f}"
            f"{at_best}, and our way {self.speed_up(self.leg(OUR_WAY)):.2f}."
        )
        reason = why if best < paper else ""
        return " ".join(part for part in (words, reason, self.doubt) if part)

    def table(self, title: str, paper: Sequence[Sequence[str]] = ()) -> Table:
        """Return a table of our legs, followed by rows of the paper's own figures."""
        rows = [self._row(leg) for leg in self.legs]
        return Table(title, HEADER, [*rows, *paper])

    def _row(self, leg: Leg) -> tuple[str, ...]:
        acceptance = leg.run.acceptance
        paper_ess = np.median(diagnostics.paper_ess(leg.projections)) / leg.drawn_share
        return (
            leg.name,
            "" if np.isnan(acceptance) else f"{acceptance:.2f}",
            *(f"{size:,.0f}" for size in (leg.ess.min(), np.median(leg.ess), leg.ess.max())),
            f"{paper_ess:,.0f}",
            f"{leg.rhat.max():.2f}",
            f"{leg.seconds():,.1f}{' *' if leg.extrapolated else ''}",
            f"{leg.rate():,.2f}",
            f"{self.speed_up(leg):.2f}",
            f"{self.speed_up(leg, 'sample'):.2f}",
        )

    @property
    def remarks(self) -> str:
        """A paragraph that explains the table."""
        words = (
            f"Each run has {CHAINS} chains, and each chain as many draws as the paper's single "
            "one. The paper's way has the paper's settings; our way is the automatic run, with no "
            f"settings at all. ESS is ArviZ's bulk ESS over the {self._directions}; the next "
            "column is the median by the paper's formula, and R-hat is the largest one. Seconds "
            "are those of the whole run, with compiling, collecting and training. The speed-up "
            "compares the median ESS per second; the last column compares it for the kept draws "
            "alone, once the gradient is learned."
        )
        if any(leg.extrapolated for leg in self.legs):
            words += (
                " Times with a * and the ESS in their rows are extrapolated to the whole run from "
                "fewer draws."
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
    def doubt(self) -> str:
        """A sentence about directions in which the first leg has not converged; else empty."""
        measure = self.legs[0]
        above = int(np.sum(measure.rhat > LARGEST_RHAT))
        if not above:
            return ""
        words = (
            f"R-hat of {measure.name} is above {LARGEST_RHAT} in {above} of {len(measure.rhat)} "
            f"{self._directions}"
        )
        if 2 * above < len(measure.rhat):
            return f"{words}; the median ESS is not that of one of these."
        return (
            f"{words}: so few draws overestimate its ESS, and the speed-ups are larger than they "
            "seem."
        )


def paper_row(
    name: str,
    acceptance: float | None = None,
    seconds: float | None = None,
    rate: float | None = None,
    speed_up: float | None = None,
) -> tuple[str, ...]:
    """Return a row of figures that the paper reports, with empty cells where it reports none."""

    def shown(value: float | None, form: str) -> str:
        return "" if value is None else f"{value:{form}}"

    known = (shown(seconds, ",.0f"), shown(rate, ".2f"), shown(speed_up, ".2f"))
    return (f"the paper: {name}", shown(acceptance, ".2f"), *[""] * 5, *known, "")


@dataclass(frozen=True)
class Runner:
    """Runs the legs of a race: what all of them have in common.

    Attributes:
        posterior: what is sampled.
        course: the paper's settings.
        full: whether to make the paper's own numbers of draws.
        seed: the seed of every run.
        progress: whether to show progress bars.
        axes: the directions to look at, in columns; None for the coordinates.
        starts: where the chains start; None leaves it to the method.
    """

    posterior: Posterior
    course: Course
    full: bool = False
    seed: int = 0
    progress: bool = True
    axes: np.ndarray | None = None
    starts: np.ndarray | None = None

    @property
    def numbers(self) -> Draws:
        """The numbers of draws of the chosen form."""
        return self.course.numbers(self.full)

    def sample(self, draws: int, method: Method) -> Run:
        """Sample the posterior by a method, with this many draws per chain."""
        return whole_run(
            self.posterior,
            draws,
            CHAINS,
            self.seed,
            method,
            progress=self.progress,
            initial_positions=self.starts,
        )

    def leg(self, name: str, run: Run, draws: int, collected_share: float = 1.0) -> Leg:
        """Return the leg of a run, looked at along the axes."""
        return Leg(name, run, draws, collected_share, self.axes)

    def run_standard(self) -> Leg:
        """Run standard HMC."""
        run = self.sample(self.numbers.true, HMC(**self.course.tuning))
        return self.leg(STANDARD, run, self.course.draws)

    def run_papers_way(self, name: str = PAPERS_WAY) -> Leg:
        """Run NNgHMC with the paper's settings: it learns once, and hands over in any case."""
        course, numbers = self.course, self.numbers
        method = NNgHMC(
            network=course.network,
            training=course.training,
            schedule=TrainingSchedule.once(
                numbers.collected // CHAINS, probe_draws=5, tolerance=1.0, least_acceptance=0.0
            ),
            **course.tuning,
        )
        run = self.sample(numbers.learned, method)
        return self.leg(name, run, course.learned_draws, numbers.collected / course.collected)

    def run_our_way(self) -> Leg:
        """Run the automatic method, which is given nothing but the number of draws."""
        draws = self.numbers.learned + self.numbers.collected // CHAINS
        return self.leg(OUR_WAY, self.sample(draws, Auto()), self.course.draws)


def race(
    posterior: Posterior, course: Course, full: bool, seed: int = 0, progress: bool = True
) -> Race:
    """Run standard HMC, NNgHMC with the paper's settings, and the automatic run."""
    runner = Runner(posterior, course, full, seed, progress)
    return Race((runner.run_standard(), runner.run_papers_way(), runner.run_our_way()))
