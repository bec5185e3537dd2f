"""Prepares the automatic run: explores, learns, probes and decides before the first kept draw."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from nnghmc.engine.events import HandedOver
from nnghmc.engine.history import Draws, History
from nnghmc.engine.method import Prepared, Starts
from nnghmc.engine.session import Session
from nnghmc.errors import GradientDataError
from nnghmc.explore.assessment import assess_tuning
from nnghmc.explore.coverage import Rays, follow_rays
from nnghmc.explore.nuts_warmup import NutsWarmup, usable_matrix
from nnghmc.explore.rounds import Bulk, find_bulk
from nnghmc.explore.tuning import tune_on_learned
from nnghmc.kernels import HMCState, ProbingHMC, Tuning
from nnghmc.methods.events import Explored, FellBack, Fitted, Probed
from nnghmc.methods.learning import as_model, fit_remembered
from nnghmc.methods.nuts import expect, local_mode, prepare_nuts
from nnghmc.methods.payoff import Estimate
from nnghmc.methods.policy import Policy
from nnghmc.model.posterior import Posterior
from nnghmc.surrogates import GradientData, GradientModel, Surrogate


class AutomaticSettings(Protocol):
    """The settings of the automatic run, which `nnghmc.Auto` documents."""

    @property
    def network(self) -> GradientModel | str:
        """The model that learns the gradient, or its name."""

    @property
    def surrogate(self) -> Surrogate | None:
        """A surrogate from an earlier fit, or None."""

    @property
    def way(self) -> str:
        """The way to decide whether to learn: "estimate", "learn" or "nuts"."""

    @property
    def estimate(self) -> Estimate | None:
        """The expected times of the run, or None to measure them."""

    @property
    def policy(self) -> Policy:
        """The thresholds of most decisions."""


class _Candidate(NamedTuple):
    """A surrogate with its tuning, and the states and acceptance at the end of its probe."""

    surrogate: Surrogate
    tuning: Tuning
    states: HMCState
    acceptance: float
    worst_chain: float


class AutomaticPreparation:
    """The preparation of one automatic run, with the gradient data collected so far."""

    def __init__(self, settings: AutomaticSettings, posterior: Posterior, session: Session):
        self.method, self.posterior, self.session = settings, posterior, session
        self.policy = settings.policy
        self.collected: list[GradientData] = []
        self.surrogate: Surrogate | None = None

    def run(self, starts: Starts) -> Prepared:
        """Decide between a learned gradient and NUTS, and prepare the choice."""
        self.session.reporter.note("estimate")
        states = starts.spread(self.session)
        forced = self.method.way == "learn"
        self.estimate = expect(
            self.session,
            self.posterior,
            states.position,
            self.method.estimate,
            self.policy,
            thorough=forced,
        )
        if not self.should_try_learning:
            return self.by_nuts(states)
        bulk = self.find_bulk(states)
        found = None if self.session.stopped else self.learn_from(bulk)
        if found is not None:
            return self.by_learned(bulk, found)
        return self.by_nuts(bulk.states, bulk) if bulk.converged else self.by_nuts(states)

    @property
    def should_try_learning(self) -> bool:
        """Whether learning is worth a try, by the estimate unless the settings decide."""
        if self.method.way == "estimate" and self.method.surrogate is None:
            return self.estimate.pays
        return self.method.way != "nuts"

    @property
    def learning_is_forced(self) -> bool:
        """Whether learning is required by the settings, at any cost."""
        return self.method.way == "learn" or self.method.surrogate is not None

    def find_bulk(self, states: HMCState) -> Bulk:
        """Take the chains into the typical set along the true gradient."""
        self.session.reporter.note("find")
        quick = self.session.quick(self.policy.gradients_to_learn)
        bulk = find_bulk(self.posterior, states, self.session, quick=quick)
        self.session.warmup += [("warmup", history) for history in bulk.histories]
        if self.session.stopped or not bulk.rounds:
            return bulk
        self.collected += [bulk.descent_data, *bulk.rounds]
        if bulk.restarts:
            self.session.record(local_mode(bulk.restarts, len(states.position)))
        draws = sum(history.length for history in (*bulk.histories, *bulk.failures))
        self.session.record(Explored(bulk.descent_evaluations, draws, bulk.disagreement))
        return bulk

    def learn_from(self, bulk: Bulk) -> _Candidate | None:
        """Learn the gradient; if that fails, record the reason and return None."""
        obstacle = self.obstacle_in(bulk)
        if obstacle is not None:
            self.session.record(obstacle)
            return None
        rays = self.look_beyond(bulk)
        if self.too_heavy(rays):
            self.session.record(FellBack("heavy tails"))
            return None
        found = self.learn(bulk, rays)
        if self.session.stopped or found is None:
            return None
        shortcoming = self.shortcoming_of(found, rays)
        if shortcoming is not None:
            self.session.record(shortcoming)
            return None
        return found

    def shortcoming_of(self, found: _Candidate, rays: Rays) -> FellBack | None:
        """Return why a learned gradient must not take over, or None if it may."""
        low = found.acceptance < self.policy.least_acceptance
        if low or found.worst_chain < self.policy.least_acceptance_of_a_chain:
            return FellBack("low acceptance", found.acceptance)
        with self.session.timed("train"):
            closed_off = rays.closed_off(found.surrogate.learned)
        return FellBack("tails closed off") if closed_off else None

    def obstacle_in(self, bulk: Bulk) -> FellBack | None:
        """Return why the gradient cannot be learned from these rounds, or None if it can."""
        if not bulk.rounds:
            return FellBack("no step accepted")
        if not bulk.has_enough_data:
            return FellBack("too few trajectories")
        if not bulk.converged:
            return FellBack("chains disagree", bulk.disagreement)
        nuts_seconds = self.estimate.nuts_seconds
        if not self.learning_is_forced and not self.policy.can_afford_to_fail(nuts_seconds):
            with self.session.timed("train"):
                linearity = bulk.linearity
            if linearity < self.policy.least_linearity:
                return FellBack("gradient not linear", linearity)
        return None

    def too_heavy(self, rays: Rays) -> bool:
        """Return whether the tails are too heavy to try learning in a run this short."""
        nuts_seconds = self.estimate.nuts_seconds
        if self.learning_is_forced or self.policy.can_afford_a_likely_failure(nuts_seconds):
            return False
        return rays.heavy

    def look_beyond(self, bulk: Bulk) -> Rays:
        """Follow rays beyond the outermost draws."""
        with self.session.timed("collect") as cost:
            function = self.posterior.potential_and_gradient
            rays = follow_rays(function, bulk.draws, bulk.potentials, self.session)
            cost.true_gradients += rays.evaluations
        return rays

    def learn(self, bulk: Bulk, rays: Rays) -> _Candidate | None:
        """Fit, tune, predict and probe; if acceptance is low, also learn from the probe's data."""
        self.collected.append(rays.ends)
        data, states = (
            GradientData.concatenate([bulk.gradient_data, rays.training_data]),
            bulk.states,
        )
        found = None
        if self.method.surrogate is not None:
            found, met = self.reuse(self.method.surrogate, bulk)
            if self.session.stopped or found.acceptance >= self.policy.good_acceptance:
                return found
            states, data = found.states, GradientData.concatenate([data, met])
        for attempt in range(self.refits + 1):
            try:
                surrogate, tuning = self.fit_and_tune(data, bulk, attempt)
            except GradientDataError:
                self.session.record(FellBack("nothing learned"))
                return None
            found, met = self.probe(surrogate, tuning, states, attempt)
            if self.session.stopped or found.acceptance >= self.policy.good_acceptance:
                break
            states, data = found.states, GradientData.concatenate([data, met])
        return found

    def reuse(self, surrogate: Surrogate, bulk: Bulk) -> tuple[_Candidate, GradientData]:
        """Tune and probe a surrogate of an earlier run."""
        self.surrogate = surrogate
        tuning = self.tune(surrogate, bulk)
        return self.probe(surrogate, tuning, bulk.states, 0, reused=True)

    @property
    def refits(self) -> int:
        """The largest number of fits after the first; it depends on the estimated time of NUTS."""
        if self.method.way == "learn":
            return self.policy.most_refits
        return self.policy.affordable_refits(self.estimate.nuts_seconds)

    def fit_and_tune(
        self, data: GradientData, bulk: Bulk, attempt: int
    ) -> tuple[Surrogate, Tuning]:
        """Fit a surrogate and tune it, without any true evaluation."""
        key, model = self.session.key("fit", attempt), as_model(self.method.network)
        self.surrogate = fit_remembered(self.session, model, data, key, self.posterior.layout)
        tuning = self.tune(self.surrogate, bulk)
        predicted = np.nan if attempt else self.predict(self.surrogate, tuning)
        self.session.record(Fitted(attempt, len(data), predicted))
        return self.surrogate, tuning

    def tune(self, surrogate: Surrogate, bulk: Bulk) -> Tuning:
        """Choose step size and number of steps on the learned dynamics."""
        with self.session.timed("train"):
            return tune_on_learned(
                surrogate.learned,
                bulk.draws.reshape(-1, self.posterior.dim),
                bulk.adaptation.inverse_mass_matrix,
                self.session.key("tune"),
            ).tuning

    def predict(self, surrogate: Surrogate, tuning: Tuning) -> float:
        """Return the predicted acceptance, or NaN if no trajectories were held out."""
        if surrogate.held_out is None:
            return np.nan
        key = self.session.key("assess")
        with self.session.timed("train"):
            found = assess_tuning(surrogate.learned, surrogate.held_out, tuning, key)
        return found.predicted_acceptance

    def probe(
        self,
        surrogate: Surrogate,
        tuning: Tuning,
        states: HMCState,
        attempt: int,
        *,
        reused: bool = False,
    ) -> tuple[_Candidate, GradientData]:
        """Make draws along the learned gradient, with the true gradient at every proposal.

        Returns the probed candidate, and the true gradients as data to learn from.
        """
        nothing = np.empty((0, self.posterior.dim))
        met = [GradientData.of_points(nothing, nothing)]

        def keep(first: int, chunk: Draws) -> None:
            met.append(GradientData.of_draws(*chunk.recorded))

        gradient = surrogate.learned.gradient
        kernel = ProbingHMC(self.posterior.potential_and_gradient, gradient, tuning)
        with self.session.timed("train"):
            states = self.session.begin(kernel, states.position, states.potential)
        states, history = self.session.advance(
            "collect",
            kernel,
            states,
            self.policy.probe_draws,
            stream="probe of the given surrogate" if reused else f"probe {attempt}",
            label="probe",
            on_chunk=keep,
            quick=True,
            in_warmup=False,
        )
        found = _Candidate(surrogate, tuning, states, *_acceptance_of(history))
        after = sum(made.length for _, made in self.session.warmup)
        self.session.record(Probed(attempt, found.acceptance, found.worst_chain, after, reused))
        data = _without_outliers(GradientData.concatenate(met))
        self.collected.append(data)
        return found, data

    def by_learned(self, bulk: Bulk, found: _Candidate) -> Prepared:
        """Prepare sampling along the learned gradient, with rare draws along the true one."""
        self.session.record(
            HandedOver(found.tuning.largest_step, found.tuning.most_steps, self.policy.true_share)
        )
        parts = {
            "handed_over": True,
            "tuning": found.tuning,
            "true_tuning": bulk.adaptation.tuning,
            "probed_acceptance": found.acceptance,
            "surrogate": found.surrogate,
            "gradient_data": self.gradient_data,
        }
        return Prepared(found.states, parts, self.session.quick(self.session.wanted_draws))

    @property
    def gradient_data(self) -> GradientData | None:
        """All true gradients collected so far, or None."""
        return GradientData.concatenate(self.collected) if self.collected else None

    def by_nuts(self, states: HMCState, bulk: Bulk | None = None) -> Prepared:
        """Prepare NUTS, which starts in the typical set if `bulk` has converged."""
        settled = None
        if bulk is not None:
            settled = NutsWarmup(
                states, bulk.adaptation.step_size, usable_matrix(bulk.adaptation.dense_matrix)
            )
        return prepare_nuts(
            self.session,
            self.posterior,
            states,
            self.policy,
            settled=settled,
            handed_over=False,
            probed_acceptance=float("nan"),
            surrogate=self.surrogate,
            gradient_data=self.gradient_data,
        )


def _acceptance_of(history: History) -> Sequence[float]:
    """Return the mean acceptance, and that of the chain with the lowest one."""
    # The history's running sums would round differently for other chunk sizes.
    by_chain = history.stats["acceptance_rate"].mean(axis=1) if history.length else np.zeros(1)
    return float(by_chain.mean()), float(by_chain.min())


def _without_outliers(data: GradientData) -> GradientData:
    """Return the data without points whose potential is not finite or far above the others."""
    data = data.select(np.isfinite(data.potentials))
    middle = np.median(data.potentials) if len(data) else 0.0
    spread = np.median(np.abs(data.potentials - middle)) if len(data) else 0.0
    return data.select(data.potentials < middle + 20 * spread + data.dim)
