"""Run: everything one call of `sample` produced."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pandas as pd

from nnghmc import arviz_versions
from nnghmc.chains import History
from nnghmc.cost import PHASES, Cost, PhaseCost
from nnghmc.diagnostics import Convergence, judgements, remedies_for
from nnghmc.errors import SettingsError
from nnghmc.methods import METHODS
from nnghmc.payoff import Estimate, in_words
from nnghmc.posterior import Posterior
from nnghmc.schedule import Decision
from nnghmc.surrogates import MODELS, GradientData, Surrogate

if TYPE_CHECKING:  # it takes long to load, and only results need it
    from xarray import DataTree

SHORT_NAMES = {kind.__name__: name for name, kind in MODELS.items()}
NOT_EXACT = (
    "is not exact: nothing corrects for its step size and its mini-batches; compare it with an "
    "exact method"
)


class Extendable(Protocol):
    """Something that can make more draws."""

    def extended(self, more: int, progress: bool) -> "Run":
        """A run of so many more draws a chain."""


@dataclass(frozen=True, repr=False, eq=False)
class Run:
    """Draws, statistics, what was learned, what was decided, and what it all cost.

    Attributes:
        posterior: what was sampled.
        method: one of "nnghmc", "hmc", "sgld", "sghmc", "naive-sghmc", "metropolis-sghmc".
        seed: the seed; the same seed gives the same draws.
        kept: the kept draws and their statistics, in memory or on disk.
        warmup_draws: draws made before the first kept one: warm-up proper, and what the schedule
            collected. Those that probed a network are not among them.
        warmup_stats: their statistics.
        cost: evaluations and seconds by phase.
        decisions: what each training point found and what was done about it.
        surrogate: the learned gradient of the last training, or None.
        gradient_data: the true gradients that were collected, or None.
        complete: False where Ctrl-C ended the run early.
        remarks: what was noticed while it ran.
        story: what the automatic run tried, found and decided, a line each.
        estimate: what it expected before it decided.
        store: the folder it was written to, or None.
        phase: where the chains stand; None for a run that was stopped before its first draw.
        notes: remarks, and what there is to say about the kept draws, in plain words.
    """

    posterior: Posterior
    method: str
    seed: int
    kept: History
    warmup_draws: np.ndarray
    warmup_stats: dict[str, np.ndarray]
    cost: Cost
    decisions: tuple[Decision, ...] = ()
    surrogate: Surrogate | None = None
    gradient_data: GradientData | None = None
    complete: bool = True
    remarks: tuple[str, ...] = ()
    story: tuple[str, ...] = ()
    estimate: Estimate | None = None
    store: Path | None = None
    phase: Extendable | None = None

    @property
    def draws(self) -> np.ndarray:
        """Kept draws, unconstrained, shape (chains, draws, dim); a stored run reads them."""
        return self.kept.draws

    @property
    def stats(self) -> dict[str, np.ndarray]:
        """Statistics of the kept draws under ArviZ's names, each of shape (chains, draws)."""
        return self.kept.stats

    def extend(self, draws: int, *, progress: bool = True) -> "Run":
        """So many more draws a chain, from where the chains stand: a new run with all of them.

        The kernel is the same, and nothing is warmed up or learned anew: the draws are those that
        a longer run would have made. A stored run goes on in its store.
        """
        if self.phase is None:
            raise SettingsError(
                "a run can be extended once it has begun to sample, and this one was stopped "
                "before. Go on with it by nnghmc.resume if it has a store, or sample anew."
            )
        return self.phase.extended(draws, progress)

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """Everything a person should know before using the draws; nothing if all is well."""
        known = self.known_before_a_look
        if not self.kept.size:
            return known
        names = self.posterior.layout.coordinate_names
        remedies = remedies_for(automatic=bool(self.story), learned=self.handed_over)
        return (*known, *judgements(self.draws, self.stats, self.convergence, names, remedies))

    @property
    def known_before_a_look(self) -> tuple[str, ...]:
        """Remarks, and whether the method is exact: what there is to say whatever the draws."""
        return self.remarks if self.exact else (*self.remarks, f"{self.title} {NOT_EXACT}")

    @cached_property
    def convergence(self) -> Convergence | None:
        """Bulk and tail ESS and R-hat of each coordinate; None for fewer than 4 draws a chain."""
        return Convergence.if_enough(self.draws) if self.kept.length else None

    @property
    def acceptance(self) -> float:
        """The mean acceptance probability of the kept draws."""
        return self.kept.acceptance

    @property
    def divergences(self) -> int:
        """Kept draws whose trajectory diverged, those with a non-finite energy among them."""
        return int(self.kept.stat("diverging").sum()) if self.kept.size else 0

    @property
    def handed_over(self) -> bool:
        """Whether the kept draws were made with the learned gradient."""
        if self.story:
            return self.method == "nnghmc"
        return bool(self.decisions) and self.decisions[-1].hand_over

    @property
    def exact(self) -> bool:
        """Whether the method has the true posterior as its stationary distribution."""
        return METHODS[self.method].exact

    @property
    def title(self) -> str:
        """The method in words, with the model that learned its gradient if not the default."""
        title = METHODS[self.method].title
        if self.method != "nnghmc":
            return title
        if not self.handed_over:
            return f"{title}, not handed over"
        assert self.surrogate is not None  # it was handed over to
        model = self.surrogate.report.model
        name = SHORT_NAMES.get(model, model)
        return title if name == "default" else f"{title}, {name}"

    def to_arviz(self, log_likelihood: bool = False, posterior_predictive: bool = False) -> Any:
        """What your ArviZ works with: a DataTree with ArviZ 1, an InferenceData with ArviZ 0.23.

        It has named variables, sample_stats, and the warm-up in groups of its own.

        Args:
            log_likelihood: add the log likelihood of every observation at every draw, which
                `arviz.loo` and `arviz.compare` need.
            posterior_predictive: add one simulated data set a draw, for `arviz.plot_ppc_dist`
                (`arviz.plot_ppc` of ArviZ 0.23).
        """
        return arviz_versions.for_users_arviz(self.to_tree(log_likelihood, posterior_predictive))

    def to_tree(
        self, log_likelihood: bool = False, posterior_predictive: bool = False
    ) -> "DataTree":
        """The same as a DataTree of xarray, whichever ArviZ there is."""
        groups: dict[str, Any] = {}
        if self.kept.size:
            groups["posterior"] = self.posterior.variables(self.draws)
            groups["sample_stats"] = self.stats
            groups |= self._of_the_observations(log_likelihood, posterior_predictive)
        if self.warmup_draws.size:
            groups["warmup_posterior"] = self.posterior.variables(self.warmup_draws)
            groups["warmup_sample_stats"] = self.warmup_stats
        known = {
            "observed_data": self.posterior.observed,
            "constant_data": self.posterior.constants,
        }
        groups |= {group: values for group, values in known.items() if values}
        attributes = {
            "inference_library": "nnghmc",
            "method": self.title,
            "seed": self.seed,
            "complete": int(self.complete),
            "exact": int(self.exact),
            "sampling_time": self.cost.total.seconds,
        }
        return arviz_versions.tree_of(
            groups,
            coords=self.posterior.coords,
            dims=self.posterior.dims,
            attrs=dict.fromkeys(groups, attributes),
        )

    def _of_the_observations(self, log_likelihood: bool, predictive: bool) -> dict[str, Any]:
        """The groups that take an evaluation of the model at every draw, where asked for."""
        groups = {}
        if log_likelihood:
            groups["log_likelihood"] = self.posterior.log_likelihoods(self.draws)
        if predictive:
            groups["posterior_predictive"] = self.posterior.predictions(self.draws, self.seed)
        return groups

    def outcome(self) -> dict[str, Any]:
        """What came of it, in words and numbers that JSON can hold."""
        return {
            "title": self.title,
            "model": repr(self.posterior),
            "seed": self.seed,
            "exact": self.exact,
            "handed_over": self.handed_over,
            "complete": self.complete,
            "chains": self.kept.num_chains,
            "draws": self.kept.length,
            "remarks": list(self.known_before_a_look),
        }

    def summary(self) -> pd.DataFrame:
        """ArviZ's table: mean, sd, interval, Monte Carlo error, ESS and R-hat by variable."""
        if not self.kept.size:
            raise SettingsError("a summary needs draws, and this run was interrupted before any.")
        return arviz_versions.summary(self.to_tree())

    def __str__(self) -> str:
        chains, draws, dim = self.kept.num_chains, self.kept.length, self.posterior.dim
        size = f"{counted(chains, 'chain')} × {counted(draws, 'draw')}"
        lines = [
            f"{self.title}: {size} of {counted(dim, 'dimension')}, "
            + ("exact" if self.exact else "NOT exact")
            + ("" if self.complete else ", incomplete (interrupted)")
            + f", in {in_words(self.cost.total.seconds)}"
            + self._by_the_true_gradient(),
            *(f"  {line}" for line in (*self.story, *self.decisions)),
        ]
        if self.surrogate is not None and not self.story:
            first, *others = self.surrogate.report.lines
            lines += [f"  {first}", *(f"    {line}" for line in others)]
        if draws:
            lines.append(f"  {self._quality()}")
        lines += [f"  {line}" for line in _cost_lines(self.cost)]
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join(lines)

    __repr__ = __str__

    def _by_the_true_gradient(self) -> str:
        """What the same trajectories would have taken, where they were learned."""
        if self.estimate is None or not self.handed_over:
            return ""
        rounds = self.cost.sample.learned_gradients / self.kept.num_chains
        spared = rounds * self.estimate.timings.gradient
        return f"; about {in_words(spared)} had the same steps been along the true gradient"

    def _quality(self) -> str:
        """Acceptance, divergences, ESS and R-hat of the kept draws."""
        tested = not np.isnan(self.acceptance)
        words = f"acceptance {self.acceptance:.2f}" if tested else "no Metropolis test"
        words += f", {counted(self.divergences, 'divergence')}"
        if nonfinite := int(self.kept.stat("nonfinite").sum()):
            words += f" ({nonfinite} not finite)"
        if self.convergence is None:
            return words
        bulk, tail, rhat = self.convergence
        words += f"; lowest ESS {bulk.min():,.0f} (tails {tail.min():,.0f})"
        return f"{words}; R-hat {rhat.max():.3f}"


def counted(number: int, noun: str) -> str:
    """A number with its noun, in the plural unless it is one."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _cost_lines(cost: Cost) -> list[str]:
    """A phase a line, each of what it took and what it evaluated."""
    lines = []
    for phase in PHASES:
        part: PhaseCost = getattr(cost, phase)
        counts = {
            "potential": part.true_potentials,
            "true gradient": part.true_gradients,
            "learned gradient": part.learned_gradients,
            "mini-batch gradient": part.batch_gradients,
        }
        if part.seconds:
            time = f"{phase:<7}{part.seconds:>8.2f} s ({part.compile_seconds:.2f} compiling)"
            evaluated = (counted(number, noun) for noun, number in counts.items() if number)
            lines.append(", ".join([time, *evaluated]))
    return lines
