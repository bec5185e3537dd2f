"""Run: everything one call of `sample` produced."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from nnghmc.cost import PHASES, Cost, PhaseCost
from nnghmc.diagnostics import bulk_ess, load_arviz
from nnghmc.posterior import Posterior
from nnghmc.schedule import Decision
from nnghmc.surrogates import GradientData, Surrogate

METHOD_TITLES = {"hmc": "standard HMC", "nnghmc": "NNgHMC"}


@dataclass(frozen=True, repr=False)
class Run:
    """Draws, statistics, what was learned, what was decided, and what it all cost.

    Attributes:
        posterior: what was sampled.
        method: "hmc" or "nnghmc".
        seed: the seed; the same seed gives the same draws.
        draws: kept draws, unconstrained, shape (chains, draws, dim).
        stats: statistics of the kept draws under ArviZ's names, each of shape (chains, draws).
        warmup_draws: draws made before the first kept one, those of the schedule among them.
        warmup_stats: their statistics.
        cost: evaluations and seconds by phase.
        decisions: what each training point found and what was done about it.
        surrogate: the learned gradient of the last training, or None.
        gradient_data: the true gradients that were collected, or None.
        complete: False where Ctrl-C ended the run early.
        notes: warnings in plain words.
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
    notes: tuple[str, ...] = ()

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
        return load_arviz().from_dict(
            **groups,
            coords=self.posterior.coords,
            dims=self.posterior.dims,
            posterior_attrs=attributes,
            save_warmup=True,
        )

    def summary(self) -> pd.DataFrame:
        """Mean, standard deviation, interval, Monte Carlo error, ESS and R-hat by variable."""
        with np.errstate(invalid="ignore", divide="ignore"):  # chains that never moved: NaN says it
            return load_arviz().summary(self.to_arviz())

    def __str__(self) -> str:
        chains, draws, dim = self.draws.shape
        lines = [
            f"{self.title}: {chains} chains × {draws:,} draws of {dim} dimensions"
            + ("" if self.complete else ", incomplete (interrupted)"),
            *(f"  {decision}" for decision in self.decisions),
        ]
        if self.surrogate is not None:
            lines.append(f"  learned from {self.surrogate.report}")
        if draws:
            lines.append(f"  acceptance {self.acceptance:.2f}, {self._trouble()}{self._ess()}")
        lines += [f"  {line}" for line in _cost_lines(self.cost)]
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join(lines)

    __repr__ = __str__

    def _trouble(self) -> str:
        nonfinite = int(self.stats["nonfinite"].sum())
        return f"{self.divergences} divergences ({nonfinite} with a non-finite energy)"

    def _ess(self) -> str:
        if self.draws.shape[1] < 4:
            return ""
        ess = bulk_ess(self.draws)
        return f", bulk ESS {ess.min():,.0f} to {ess.max():,.0f}"


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
