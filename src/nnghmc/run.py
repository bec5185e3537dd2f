"""Run: everything one call of `sample` produced."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from nnghmc.cost import PHASES, Cost, PhaseCost
from nnghmc.diagnostics import Convergence, judgements, quiet_arviz
from nnghmc.errors import SettingsError
from nnghmc.posterior import Posterior
from nnghmc.schedule import Decision
from nnghmc.surrogates import GradientData, Surrogate

METHOD_TITLES = {"hmc": "standard HMC", "nnghmc": "NNgHMC"}


@dataclass(frozen=True, repr=False, eq=False)
class Run:
    """Draws, statistics, what was learned, what was decided, and what it all cost.

    Attributes:
        posterior: what was sampled.
        method: "hmc" or "nnghmc".
        seed: the seed; the same seed gives the same draws.
        draws: kept draws, unconstrained, shape (chains, draws, dim).
        stats: statistics of the kept draws under ArviZ's names, each of shape (chains, draws).
        warmup_draws: draws made before the first kept one with the true gradient: warm-up proper
            and what the schedule collected. Those that probed a network are not among them.
        warmup_stats: their statistics.
        cost: evaluations and seconds by phase.
        decisions: what each training point found and what was done about it.
        surrogate: the learned gradient of the last training, or None.
        gradient_data: the true gradients that were collected, or None.
        complete: False where Ctrl-C ended the run early.
        remarks: what was noticed while it ran.
        notes: remarks, and what there is to say about the kept draws, in plain words.
    """

    posterior: Posterior
    method: str
    seed: int
    draws: np.ndarray
    stats: dict[str, np.ndarray]
    warmup_draws: np.ndarray
    warmup_stats: dict[str, np.ndarray]
    cost: Cost
    decisions: tuple[Decision, ...] = ()
    surrogate: Surrogate | None = None
    gradient_data: GradientData | None = None
    complete: bool = True
    remarks: tuple[str, ...] = ()

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """Everything a person should know before using the draws; nothing if all is well."""
        if not self.draws.size:
            return self.remarks
        names = self.posterior.layout.coordinate_names
        return (*self.remarks, *judgements(self.draws, self.stats, self.convergence, names))

    @cached_property
    def convergence(self) -> Convergence | None:
        """Bulk and tail ESS and R-hat of each coordinate; None for fewer than 4 draws a chain."""
        return Convergence.of(self.draws) if self.draws.shape[1] >= 4 else None

    @property
    def acceptance(self) -> float:
        """The mean acceptance probability of the kept draws."""
        return float(self.stats["acceptance_rate"].mean()) if self.draws.size else float("nan")

    @property
    def divergences(self) -> int:
        """Kept draws whose trajectory diverged, those with a non-finite energy among them."""
        return int(self.stats["diverging"].sum()) if self.draws.size else 0

    @property
    def handed_over(self) -> bool:
        """Whether the kept draws were made with the learned gradient."""
        return bool(self.decisions) and self.decisions[-1].hand_over

    @property
    def title(self) -> str:
        """The method in words."""
        title = METHOD_TITLES[self.method]
        if self.method == "nnghmc" and not self.handed_over:
            return f"{title}, not handed over"
        return title

    def to_arviz(self) -> Any:
        """An ArviZ InferenceData: named variables, sample_stats, warm-up in its own groups."""
        groups: dict[str, Any] = {}
        if self.draws.size:
            groups["posterior"] = self.posterior.variables(self.draws)
            groups["sample_stats"] = self.stats
        if self.warmup_draws.size:
            groups["warmup_posterior"] = self.posterior.variables(self.warmup_draws)
            groups["warmup_sample_stats"] = self.warmup_stats
        attributes = {
            "inference_library": "nnghmc",
            "method": self.title,
            "seed": self.seed,
            "complete": int(self.complete),
            "sampling_time": self.cost.total.seconds,
        }
        with quiet_arviz() as arviz:
            data = arviz.from_dict(
                **groups, coords=self.posterior.coords, dims=self.posterior.dims, save_warmup=True
            )
        for group in data.groups():
            data[group].attrs.update(attributes)
        return data

    def summary(self) -> pd.DataFrame:
        """Mean, standard deviation, interval, Monte Carlo error, ESS and R-hat by variable."""
        if not self.draws.size:
            raise SettingsError("a summary needs draws, and this run was interrupted before any.")
        with quiet_arviz() as arviz:
            return arviz.summary(self.to_arviz())

    def __str__(self) -> str:
        chains, draws, dim = self.draws.shape
        size = f"{_counted(chains, 'chain')} × {_counted(draws, 'draw')}"
        lines = [
            f"{self.title}: {size} of {_counted(dim, 'dimension')}"
            + ("" if self.complete else ", incomplete (interrupted)"),
            *(f"  {decision}" for decision in self.decisions),
        ]
        if self.surrogate is not None:
            lines.append(f"  learned from {self.surrogate.report}")
        if draws:
            lines.append(f"  acceptance {self.acceptance:.2f}, {self._divergences()}")
        if self.convergence is not None:
            lines.append(f"  {_convergence_line(self.convergence)}")
        lines += [f"  {line}" for line in _cost_lines(self.cost)]
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join(lines)

    __repr__ = __str__

    def _divergences(self) -> str:
        nonfinite = int(self.stats["nonfinite"].sum())
        return f"{_counted(self.divergences, 'divergence')} ({nonfinite} with a non-finite energy)"


def _convergence_line(found: Convergence) -> str:
    bulk, tail = found.bulk_ess.min(), found.tail_ess.min()
    sizes = f"lowest ESS {bulk:,.0f} in the bulk, {tail:,.0f} in the tails"
    return f"{sizes}; largest R-hat {found.rhat.max():.3f}"


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _cost_lines(cost: Cost) -> list[str]:
    """A small table, a phase a line."""
    lines = [
        f"{'phase':<8}{'seconds':>9}{'compiling':>11}"
        f"{'true potentials':>17}{'true gradients':>16}{'learned':>11}"
    ]
    for phase in PHASES:
        part: PhaseCost = getattr(cost, phase)
        if part.seconds:
            lines.append(
                f"{phase:<8}{part.seconds:>9.2f}{part.compile_seconds:>11.2f}"
                f"{part.true_potentials:>17,}{part.true_gradients:>16,}"
                f"{part.learned_gradients:>11,}"
            )
    return lines
