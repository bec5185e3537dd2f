"""What a call of `sample` has made, learned, decided and spent so far."""

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import PRNGKeyArray

from nnghmc.calls import Tally
from nnghmc.chains import History, Supervision, run_chains
from nnghmc.cost import Cost
from nnghmc.errors import PosteriorError, PrecisionWarning
from nnghmc.kernels import HMCState, Tuning
from nnghmc.payoff import Estimate
from nnghmc.posterior import Posterior
from nnghmc.precision import energy_noise_message
from nnghmc.run import Run
from nnghmc.schedule import Decision
from nnghmc.surrogates import GradientData, Surrogate
from nnghmc.transitions import Transition


@dataclass
class Record:
    """It grows phase by phase, and ends as a run."""

    posterior: Posterior
    supervision: Supervision
    cost: Cost = field(default_factory=Cost)
    discarded: list[tuple[str, History]] = field(default_factory=list)
    collected: list[GradientData] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    surrogate: Surrogate | None = None
    remarks: list[str] = field(default_factory=list)
    story: list[str] = field(default_factory=list)
    estimate: Estimate | None = None

    def __post_init__(self) -> None:
        calls = self.posterior.calls
        self._calls_before = Tally() if calls is None else calls.begin()

    @property
    def remarks_on_calls(self) -> list[str]:
        """What became of the calls of a function outside JAX in this run, if some failed."""
        calls = self.posterior.calls
        return [] if calls is None else calls.remarks_since(self._calls_before)

    def explained(self, error: PosteriorError) -> PosteriorError:
        """An error, with what a function outside JAX had to say before it."""
        calls = self.posterior.calls
        said = Tally() if calls is None else calls.tally.since(self._calls_before)
        if not said.last_error or said.last_error in str(error):
            return error
        return PosteriorError(f"{error} Before that, {said}.").with_traceback(error.__traceback__)

    def check_energies(self, states: HMCState) -> None:
        """Warn where rounding makes the energies too coarse for the Metropolis test."""
        noise = energy_noise_message(states.potential, self.posterior.energy_precision)
        if noise is not None:
            self.remarks.append(noise)
            warnings.warn(noise, PrecisionWarning, stacklevel=5)

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

    def result(self, method: str, seed: int, draws: int, kept: History) -> Run:
        """Everything, in the form a user keeps."""
        made = [history for _, history in self.discarded if history.length]
        empty = np.empty((len(kept.draws), 0, self.posterior.dim))
        return Run(
            posterior=self.posterior,
            method=method,
            seed=seed,
            draws=kept.draws,
            stats=kept.stats,
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
            remarks=(*self.remarks, *self.remarks_on_calls),
            story=tuple(self.story),
            estimate=self.estimate,
        )
