"""Holds everything that one call of `sample` produces, as data."""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from nnghmc.engine.cost import Cost
from nnghmc.engine.events import Event, Note
from nnghmc.engine.history import History
from nnghmc.engine.method import Request
from nnghmc.engine.preparation import Preparation
from nnghmc.engine.statistics import Convergence
from nnghmc.errors import SettingsError
from nnghmc.model.monitor import Tally
from nnghmc.model.posterior import Posterior
from nnghmc.platform.provenance import provenance
from nnghmc.run import arviz, printing
from nnghmc.run.notes import (
    LEARNED_GRADIENT,
    OWN_TUNING,
    TRUE_GRADIENT,
    Kept,
    Remedies,
    failed_calls,
    judge,
    not_exact,
)
from nnghmc.surrogates import GradientData, Surrogate

if TYPE_CHECKING:  # xarray takes long to import, and only results need it
    from xarray import DataTree


@dataclass(frozen=True)
class Facts:
    """A description of the posterior and the method of a run, in words and plain numbers.

    Attributes:
        model: description of the posterior.
        coordinates: names of the unconstrained coordinates.
        title: name of the method that made the kept draws.
        exact: whether the stationary distribution of the method is the posterior.
        adaptive: whether the method finds its tuning itself.
        seed: seed of the run; the same seed gives the same draws.
        doubt: what seems wrong with the gradient of a function outside JAX; empty if nothing does.
        made: date, machine and package versions of the run.
    """

    model: str
    coordinates: tuple[str, ...]
    title: str
    exact: bool
    adaptive: bool
    seed: int
    doubt: str = ""
    made: str = field(default_factory=provenance)


@dataclass(frozen=True, repr=False, eq=False)
class Run:
    """The result of `sample`: draws, statistics, surrogate, events, notes and cost.

    Attributes:
        facts: description of the posterior and the method.
        kept: kept draws and their statistics, in memory or on disk.
        preparation: the part of the run before the first kept draw.
        events: what was found and decided, in order, as typed records.
        cost: evaluations and seconds by phase.
        complete: False if the run was stopped early.
        calls: calls of a function outside JAX, and how many of them failed.
        posterior: the posterior; None for a run that was loaded.
        request: the checked arguments of `sample`; None for a run that was loaded.
        states: states of the chains after the last draw; None for a run that was loaded.
        store: folder of the stored run, or None.
    """

    facts: Facts
    kept: History
    preparation: Preparation
    events: tuple[Event, ...]
    cost: Cost
    complete: bool
    calls: Tally = field(default_factory=Tally)
    posterior: Posterior | None = None
    request: Request | None = None
    states: Any = None
    store: Path | None = None

    @property
    def draws(self) -> np.ndarray:
        """The kept draws, unconstrained, shape (chains, draws, dim); a stored run reads them."""
        return self.kept.draws

    @property
    def stats(self) -> dict[str, np.ndarray]:
        """Statistics of the kept draws by ArviZ's names, each of shape (chains, draws)."""
        return self.kept.stats

    @property
    def warmup_draws(self) -> np.ndarray:
        """The warm-up draws, unconstrained, without the draws of `NNgHMC`'s probes."""
        return self.preparation.warmup.draws

    @property
    def warmup_stats(self) -> dict[str, np.ndarray]:
        """Statistics of the warm-up draws by ArviZ's names, each of shape (chains, draws)."""
        return dict(self.preparation.warmup.stats)

    @property
    def title(self) -> str:
        """The name of the method that made the kept draws."""
        return self.facts.title

    @property
    def exact(self) -> bool:
        """Whether the true posterior is the stationary distribution of the method."""
        return self.facts.exact

    @property
    def seed(self) -> int:
        """The seed of the run; the same seed gives the same draws."""
        return self.facts.seed

    @property
    def dim(self) -> int:
        """The number of unconstrained coordinates."""
        return len(self.facts.coordinates)

    @property
    def method(self) -> Any:
        """The method with its settings; None for a run that was loaded."""
        return None if self.request is None else self.request.method

    @property
    def surrogate(self) -> Surrogate | None:
        """The surrogate that was learned last, or None."""
        return self._part("surrogate")

    @property
    def gradient_data(self) -> GradientData | None:
        """The true gradients that were collected, or None."""
        return self._part("gradient_data")

    def _part(self, name: str) -> Any:
        prepared = self.preparation.prepared
        return None if prepared is None else prepared.parts.get(name)

    def events_of(self, kind: str) -> tuple[Any, ...]:
        """Return the events of the class with this name, such as "Probed".

        Events that another version of the package wrote with other fields are in `events` only.
        """
        return tuple(event for event in self.events if type(event).__name__ == kind)

    @property
    def story(self) -> tuple[str, ...]:
        """Sentences that say what was found and decided, one per event."""
        return tuple(str(event) for event in self.events if event.in_story)

    @property
    def estimate(self) -> Any:
        """The expected times of the run, or None if they were not estimated."""
        return next(iter(self.events_of("Estimate")), None)

    @property
    def decisions(self) -> tuple[Any, ...]:
        """The decisions at the training points of a schedule."""
        return self.events_of("Decision")

    @property
    def handed_over(self) -> bool:
        """Whether the learned gradient has made the kept draws."""
        return any(event.event == "HandedOver" for event in self.events)

    @cached_property
    def notes(self) -> tuple[Note, ...]:
        """Notes to read before using the draws, each with its remedy."""
        known = [event for event in self.events if isinstance(event, Note)]
        words = [words for words in (self.facts.doubt, str(self.calls)) if words]
        known += map(failed_calls, words)
        if not self.exact:
            known.append(not_exact(self.title))
        if not self.kept.size:
            return tuple(known)
        names = list(self.facts.coordinates)
        kept = Kept(self.draws, self.stats, names, self.convergence, self._remedies)
        return (*known, *judge(kept))

    @property
    def _remedies(self) -> Remedies:
        if not self.facts.adaptive:
            return OWN_TUNING
        return LEARNED_GRADIENT if self.handed_over else TRUE_GRADIENT

    @cached_property
    def convergence(self) -> Convergence | None:
        """Bulk and tail ESS and R-hat of each coordinate; None for fewer than 4 draws per chain."""
        return Convergence.if_enough(self.draws) if self.kept.length else None

    @property
    def acceptance(self) -> float:
        """The mean acceptance probability of the kept draws; NaN without a Metropolis test."""
        return self.kept.acceptance

    @property
    def divergences(self) -> int:
        """The number of kept draws whose trajectory diverged."""
        return int(self.stats["diverging"].sum()) if "diverging" in self.stats else 0

    def extend(self, draws: int, *, progress: bool = True) -> "Run":
        """Make more draws per chain, and return a run with all draws.

        The chains go on from their last states with the same kernel, without a new warm-up or
        learning. The draws are those that a longer run would have made. A stored run goes on in its
        store.
        """
        from nnghmc.run.corridor import Surroundings, extend  # the corridor imports this file

        return extend(self, draws, Surroundings(progress))

    def to_arviz(self, log_likelihood: bool = False, posterior_predictive: bool = False) -> Any:
        """Return the run for your ArviZ: a DataTree for ArviZ 1, InferenceData for ArviZ 0.23.

        It has named variables, sample_stats, and groups of their own for the warm-up draws.

        Args:
            log_likelihood: add the log likelihood of every observation at every draw, which
                `arviz.loo` and `arviz.compare` need.
            posterior_predictive: add one simulated data set per draw, for `arviz.plot_ppc_dist`
                (`arviz.plot_ppc` of ArviZ 0.23).
        """
        return arviz.for_users_arviz(self.to_tree(log_likelihood, posterior_predictive))

    def to_tree(
        self, log_likelihood: bool = False, posterior_predictive: bool = False
    ) -> "DataTree":
        """Return the run as a DataTree of xarray, whichever ArviZ is installed."""
        return arviz.tree_of_run(self, log_likelihood, posterior_predictive)

    def summary(self) -> pd.DataFrame:
        """Return ArviZ's table of mean, sd, interval, Monte Carlo error, ESS and R-hat."""
        if not self.kept.size:
            raise SettingsError("a summary needs draws, and this run was interrupted before any.")
        return arviz.summary(self.to_tree())

    def report(self, path: str | Path) -> None:
        """Write one self-contained HTML page about the run."""
        from nnghmc.run.report import write_report  # Matplotlib takes long to import

        write_report(self, path)

    def __str__(self) -> str:
        return printing.run_in_words(self)

    __repr__ = __str__
