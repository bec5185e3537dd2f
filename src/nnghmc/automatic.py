"""The automatic run: will it pay, find the bulk, learn, tune, sample, and know when not to."""

from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from nnghmc.assessment import assess_tuning
from nnghmc.chains import Draws, History, evaluate_all
from nnghmc.errors import (
    GradientDataError,
    check_fields,
    instance_of,
    natural_number,
    one_of,
    positive_integer,
    share,
)
from nnghmc.kernels import HMCState
from nnghmc.learned_tuning import LearnedTuning, tune_on_learned
from nnghmc.payoff import (
    GRADIENTS_A_NUTS_DRAW,
    NUTS_WARMUP,
    ROUNDS_OF_GRADIENTS,
    Estimate,
    estimate_run,
)
from nnghmc.record import Record
from nnghmc.run import Run
from nnghmc.surrogates import GradientData, GradientModel, QuadraticPlus, Surrogate, fit
from nnghmc.surrogates.learned import gradient_model
from nnghmc.tails import follow_rays
from nnghmc.transitions import insured_transition, nuts_transition, probing_transition
from nnghmc.warmup import Adaptation, Bulk, find_bulk, spread_starts, warm_up_nuts

USES = ("start", "bulk", "fit", "tune", "assess", "probe", "nuts", "sample")
NUTS_TARGET = 0.9
NO_VARIANCE = 2.5
HEAVY_TAILS = (
    "the tails of this posterior are so heavy that it may have no variance; do not trust means and "
    "standard deviations, use quantiles"
)
QUICK_FLOPS = 2e10
"""A phase of less work than this, some seconds, is compiled quickly. Not decided by the clock, so
that the same seed gives the same draws."""


@dataclass(frozen=True)
class Automatic:
    """What the automatic run does, where a person wants to say so.

    Args:
        network: what learns the gradient.
        way: "estimate" decides by timing; "learn" and "nuts" do the one or the other.
        good_acceptance: a probe that accepts so much needs no further learning.
        least_acceptance: below this the learned gradient is not used, and NUTS samples instead.
        most_refits: how often the network is fitted again, to true gradients where its own
            trajectories go.
        probe_draws: draws a chain of each probe.
        insurance: the probability of a draw along the true gradient instead of the learned one.
    """

    network: GradientModel = field(default_factory=QuadraticPlus)
    way: str = "estimate"
    good_acceptance: float = 0.8
    least_acceptance: float = 0.3
    most_refits: int = 3
    probe_draws: int = 20
    insurance: float = 0.005

    def __post_init__(self) -> None:
        gradient_model("network", self.network)
        one_of("way", self.way, ("estimate", "learn", "nuts"))
        check_fields(
            self,
            good_acceptance=share,
            least_acceptance=share,
            most_refits=natural_number,
            probe_draws=positive_integer,
            insurance=share,
        )


@dataclass
class AutomaticSampling:
    """One call of `sample` that finds everything out by itself, under way."""

    record: Record
    settings: Automatic
    draws: int
    chains: int
    seed: int
    initial_positions: Any = None

    def __post_init__(self) -> None:
        instance_of("automatic", self.settings, Automatic)
        self.posterior = self.record.posterior

    def key(self, use: str) -> PRNGKeyArray:
        """The stream of randomness of one use."""
        return jax.random.fold_in(jax.random.key(self.seed), 1000 + USES.index(use))

    def tell(self, line: str) -> None:
        """One more line of the story."""
        self.record.story.append(line)

    def run(self) -> Run:
        """Decide, and do it."""
        self.record.supervision.reporter.note("estimate")
        with self.record.cost.timed("warmup") as cost:
            states = spread_starts(
                self.posterior.potential_and_gradient,
                self.posterior.initial,
                self.initial_positions,
                self.chains,
                self.key("start"),
            )
            cost.true_gradients += self.chains
            self.record.check_energies(states)
            estimate = estimate_run(
                self.posterior,
                states.position,
                self.draws,
                thorough=self.settings.way == "learn",
            )
        self.tell(str(estimate))
        learn = estimate.pays if self.settings.way == "estimate" else self.settings.way == "learn"
        if not learn:
            return self.by_nuts(states, estimate)
        bulk = self.find_bulk(states, estimate)
        if self.stopped:
            return self.nothing()
        if bulk.settled:
            found = self.learn(bulk)
            if self.stopped:
                return self.nothing()
            if found is not None:
                return self.by_learned(bulk, found, estimate)
        elif not bulk.rounds:
            self.tell("no step of standard HMC was accepted: nothing is learned, NUTS samples")
        else:
            self.tell(
                f"R-hat is still {bulk.disagreement:.2f} after {bulk.draws.shape[1]} draws by the "
                "true gradient: nothing is learned, NUTS samples"
            )
        return self.by_nuts(bulk.states, estimate, bulk.adaptation)

    @property
    def stopped(self) -> bool:
        """Whether Ctrl-C was pressed."""
        return self.record.supervision.stop.made

    def nothing(self) -> Run:
        """A run that was stopped before its first draw."""
        kept = History(self.chains, 0, self.posterior.dim)
        return self.record.result("nuts", self.seed, self.draws, kept)

    def find_bulk(self, states: HMCState, estimate: Estimate) -> Bulk:
        """By the true gradient, all chains at once."""
        quick = estimate.flops * ROUNDS_OF_GRADIENTS < QUICK_FLOPS
        self.record.supervision.reporter.note("find")
        with self.record.cost.timed("warmup") as cost:
            bulk = find_bulk(
                self.posterior,
                states,
                self.key("bulk"),
                self.record.supervision,
                quick=quick,
            )
            cost.true_gradients += bulk.gradients
        self.record.discarded += [("warmup", history) for history in bulk.histories]
        if self.stopped or not bulk.rounds:
            return bulk
        self.record.collected += [bulk.way_down, *bulk.rounds]
        made = sum(history.length for history in (*bulk.histories, *bulk.failed))
        if bulk.moved:
            self.tell(
                f"{bulk.moved} of {self.chains} chains went down into a hollow far above the "
                "others, where next to no mass can be, and go on from where those are"
            )
        self.tell(
            f"the bulk after {bulk.descent_evaluations} steps downhill and {made} draws by the "
            f"true gradient; R-hat {bulk.disagreement:.2f}"
        )
        return bulk

    def learn(self, bulk: Bulk) -> "_Learned | None":
        """Fit, tune, predict, probe; where that is not good enough, learn from the probe too."""
        data, states = bulk.gradient_data, bulk.states
        found = None
        for attempt in range(self.settings.most_refits + 1):
            try:
                found = self.fit_and_tune(data, bulk, attempt)
            except GradientDataError as error:
                self.tell(f"nothing could be learned: {error}")
                return None
            predicted = self.predict(found, attempt)
            states, probe, met = self.probe(found, states, attempt)
            self.record.collected.append(met)
            seen = float(probe.stats["acceptance_rate"].mean()) if probe.length else 0.0
            self.tell(
                f"learned from {len(data):,} gradients: acceptance {seen:.2f} in a probe"
                + ("" if np.isnan(predicted) else f", {predicted:.2f} predicted")
            )
            found.states, found.acceptance = states, seen
            if self.stopped or seen >= self.settings.good_acceptance:
                break
            data = GradientData.concatenate([data, met])
        assert found is not None
        if found.acceptance < self.settings.least_acceptance:
            self.tell("the learned gradient is not good enough: NUTS samples")
            return None
        with self.record.cost.timed("train") as cost:
            rays = follow_rays(self.posterior.potential, bulk.draws, bulk.potentials)
            cost.true_potentials += 2 * len(rays.rises)
            closed_off = rays.closed_off(found.surrogate.learned)
        if closed_off:
            self.tell("the learned gradient closes off tails that the posterior has: NUTS samples")
            return None
        return found

    def fit_and_tune(self, data: GradientData, bulk: Bulk, attempt: int) -> "_Learned":
        """A surrogate and the tuning for it, with no true evaluation."""
        self.record.supervision.reporter.note("train")
        with self.record.cost.timed("train"):
            key = jax.random.fold_in(self.key("fit"), attempt)
            surrogate = fit(self.settings.network, data, key, layout=self.posterior.layout)
            self.record.surrogate = surrogate
            tuning = tune_on_learned(
                surrogate.learned,
                bulk.draws.reshape(-1, self.posterior.dim),
                bulk.adaptation.inverse_mass_matrix,
                self.key("tune"),
            )
        return _Learned(surrogate, tuning)

    def predict(self, found: "_Learned", attempt: int) -> float:
        """The acceptance to expect; NaN where nothing was held out."""
        held_out = found.surrogate.held_out
        if held_out is None or attempt:
            return np.nan
        with self.record.cost.timed("train"):
            tuning = found.tuning.tuning
            assessment = assess_tuning(
                found.surrogate.learned, held_out, tuning, self.key("assess")
            )
        return assessment.predicted_acceptance

    def probe(
        self, found: "_Learned", states: HMCState, attempt: int
    ) -> tuple[HMCState, History, GradientData]:
        """Learned draws with the true gradient at every proposal: what they were, what they met."""
        learned = found.surrogate.learned
        nothing = np.empty((0, self.posterior.dim))
        met = [GradientData.of_points(nothing, nothing)]

        def keep(first: int, draws: Draws) -> None:
            path = jax.tree.map(lambda part: part.reshape(-1, *part.shape[3:]), draws.info.path)
            met.append(GradientData.of_points(path.positions, path.gradients, path.potentials))

        with self.record.cost.timed("train"):
            states = states._replace(
                gradient=evaluate_all(learned.gradient, states.position, quick=True)
            )
        first = attempt * self.settings.probe_draws
        states, history = self.record.advance(
            "collect",
            "probe",
            probing_transition(self.posterior, learned),
            found.tuning.tuning,
            self.key("probe"),
            states,
            range(first, first + self.settings.probe_draws),
            path_rows=1,
            on_chunk=keep,
            quick=True,
        )
        return states, history, _without_outliers(GradientData.concatenate(met))

    def by_learned(self, bulk: Bulk, found: "_Learned", estimate: Estimate) -> Run:
        """Sample along the frozen gradient, with insurance."""
        true_tuning = bulk.adaptation.tuning(16)
        probability = self.settings.insurance
        transition = insured_transition(
            self.posterior, found.surrogate.learned, probability, true_tuning
        )
        self.tell(
            f"steps of {found.tuning.tuning.largest_step:.2g} in up to "
            f"{found.tuning.tuning.most_steps}; {probability:.1%} of the draws by the true gradient"
        )
        _, kept = self.record.advance(
            "sample",
            "sample",
            transition,
            found.tuning.tuning,
            self.key("sample"),
            found.states,
            range(self.draws),
            quick=estimate.flops * self.draws < QUICK_FLOPS,
        )
        return self.result("nnghmc", kept)

    def by_nuts(
        self, states: HMCState, estimate: Estimate, adaptation: Adaptation | None = None
    ) -> Run:
        """Sample by NUTS, adapted on all chains together."""
        evaluations = (self.draws + NUTS_WARMUP) * GRADIENTS_A_NUTS_DRAW
        quick = estimate.flops * evaluations < QUICK_FLOPS
        transition = nuts_transition(self.posterior)
        if adaptation is None:
            adaptation = Adaptation(0.1, np.ones(self.posterior.dim), NUTS_TARGET)
        else:
            matrix = adaptation.inverse_mass_matrix
            diagonal = matrix if matrix.ndim == 1 else np.diag(matrix).copy()
            adaptation = Adaptation(adaptation.step_size, diagonal, NUTS_TARGET)
        with self.record.cost.timed("warmup") as cost:
            warm = warm_up_nuts(
                transition.move,
                states,
                self.key("nuts"),
                self.record.supervision,
                adaptation,
                quick=quick,
            )
            cost.true_gradients += sum(history.leapfrog_steps for history in warm.histories)
        self.record.discarded += [("warmup", history) for history in warm.histories]
        if self.stopped:
            return self.nothing()
        _, kept = self.record.advance(
            "sample",
            "sample",
            transition,
            warm.tuning,
            self.key("sample"),
            warm.states,
            range(self.draws),
            quick=quick,
        )
        return self.result("nuts", kept)

    def result(self, method: str, kept: History) -> Run:
        """The run, with a look beyond its outermost draws."""
        if kept.length:
            rays = follow_rays(self.posterior.potential, kept.draws, -kept.stats["lp"])
            self.record.cost.sample.true_potentials += 2 * len(rays.rises)
            if rays.index < NO_VARIANCE:
                self.record.remarks.append(HEAVY_TAILS)
        return self.record.result(method, self.seed, self.draws, kept)


@dataclass
class _Learned:
    """A surrogate, its tuning, and what a probe of it found."""

    surrogate: Surrogate
    tuning: LearnedTuning
    states: HMCState = None  # type: ignore[assignment]
    acceptance: float = float("nan")


def _without_outliers(data: GradientData) -> GradientData:
    """Points whose potential is finite and not absurd: far out nothing is worth learning."""
    data = data.select(np.isfinite(data.potentials))
    middle = np.median(data.potentials) if len(data) else 0.0
    spread = np.median(np.abs(data.potentials - middle)) if len(data) else 0.0
    return data.select(data.potentials < middle + 20 * spread + data.dim)
