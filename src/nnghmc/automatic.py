"""The automatic run: will it pay, find the bulk, learn, tune, sample, and know when not to."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from nnghmc.assessment import assess_tuning
from nnghmc.chains import Draws, History, HistoryInMemory, evaluate_all
from nnghmc.diagnostics import LEAST_DRAWS_FOR_TAILS
from nnghmc.errors import (
    GradientDataError,
    check_fields,
    instance_of,
    natural_number,
    one_of,
    positive_integer,
    share,
)
from nnghmc.kernels import HMCState, Tuning
from nnghmc.learned_tuning import tune_on_learned
from nnghmc.payoff import (
    GRADIENTS_A_NUTS_DRAW,
    NUTS_WARMUP,
    ROUNDS_OF_GRADIENTS,
    Estimate,
)
from nnghmc.record import Kernel, Record, SamplePhase
from nnghmc.run import Run
from nnghmc.surrogates import GradientData, GradientModel, QuadraticPlus, Surrogate
from nnghmc.surrogates.learned import gradient_model
from nnghmc.tails import Rays, follow_rays
from nnghmc.transitions import insured_transition, nuts_transition, probing_transition
from nnghmc.warmup import Adaptation, Bulk, find_bulk, spread_starts, warm_up_nuts

USES = ("start", "bulk", "fit", "tune", "assess", "probe", "nuts", "sample")
NUTS_TARGET = 0.97
"""Steps so short that narrow places are not missed; where gradients are cheap they cost little."""
NO_VARIANCE = 2.5
STRAIGHT = 0.8
"""Of the gradient explained by a straight line: then learning hardly ever fails."""
STANDING_STILL = 0.02
FALLEN = 0.2
HEAVY_TAILS = (
    "the tails of this posterior are so heavy that it may have no variance; do not trust means and "
    "standard deviations, use quantiles"
)
MOST_DRAWS_FOR_TAILS = 4_000
"""In each chain: enough to know the outermost, and little memory however long the run."""
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
    surrogate: Surrogate | None = None

    def __post_init__(self) -> None:
        instance_of("automatic", self.settings, Automatic)
        self.posterior = self.record.posterior

    def key(self, use: str) -> PRNGKeyArray:
        """The stream of randomness of one use; NUTS from the start has streams of its own.

        So has a run that uses what another learned: with the same seed they are independent.
        """
        kind = 1 if self.settings.way == "nuts" else 0 if self.surrogate is None else 2
        stream = 1000 + kind * len(USES) + USES.index(use)
        return jax.random.fold_in(jax.random.key(self.seed), stream)

    def tell(self, line: str) -> None:
        """One more line of the story."""
        self.record.story.append(line)

    @property
    def stopped(self) -> bool:
        """Whether Ctrl-C was pressed."""
        return self.record.supervision.stop.made

    def run(self) -> Run:
        """Decide, and do it."""
        states = self.start()
        if not self.learning_is_worth_a_try:
            return self.by_nuts(states)
        bulk = self.find_bulk(states)
        found = None if self.stopped else self.learn_from(bulk)
        if self.stopped:
            return self.nothing()
        if found is not None:
            return self.by_learned(bulk, found)
        return self.by_nuts(bulk.states, bulk) if bulk.settled else self.by_nuts(states)

    def start(self) -> HMCState:
        """The first states, and what is to be expected of them."""
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
            self.record.estimate = self.record.time(
                states.position, self.draws, thorough=self.settings.way == "learn"
            )
        self.tell(str(self.estimate))
        return states

    @property
    def estimate(self) -> Estimate:
        """What was expected at the start."""
        assert self.record.estimate is not None
        return self.record.estimate

    @property
    def learning_is_worth_a_try(self) -> bool:
        """By the estimate, unless it is said outright, or has been learned before."""
        if self.settings.way == "estimate" and self.surrogate is None:
            return self.estimate.pays
        return self.settings.way != "nuts"

    @property
    def failing_is_no_matter(self) -> bool:
        """Whether learning is wanted, whatever it may cost."""
        return self.settings.way == "learn" or self.surrogate is not None

    def quick(self, evaluations: int) -> bool:
        """Whether so many gradients of all chains are too little work to compile for."""
        return self.estimate.flops * evaluations < QUICK_FLOPS

    def nothing(self) -> Run:
        """A run that was stopped before its first draw."""
        kept = HistoryInMemory(self.chains, 0, self.posterior.dim)
        return self.record.result("nuts", self.seed, self.draws, kept)

    def find_bulk(self, states: HMCState) -> Bulk:
        """By the true gradient, all chains at once."""
        self.record.supervision.reporter.note("find")
        with self.record.cost.timed("warmup") as cost:
            bulk = find_bulk(
                self.posterior,
                states,
                self.key("bulk"),
                self.record.supervision,
                quick=self.quick(ROUNDS_OF_GRADIENTS),
            )
            cost.true_gradients += bulk.gradients
        self.record.discarded += [("warmup", history) for history in bulk.histories]
        if self.stopped or not bulk.rounds:
            return bulk
        self.record.collected += [bulk.way_down, *bulk.rounds]
        made = sum(history.length for history in (*bulk.histories, *bulk.failed))
        if bulk.moved:
            self.record.remarks.append(
                f"{bulk.moved} of {self.chains} chains went down into a hollow that holds next to "
                "nothing beside those of the others, and went on from where those are; if it may "
                "hold more than it seems, give initial_positions inside it"
            )
        self.tell(
            f"the bulk after {bulk.descent_evaluations} steps downhill and {made} draws by the "
            f"true gradient; R-hat {bulk.disagreement:.2f}"
        )
        return bulk

    def learn_from(self, bulk: Bulk) -> "_Probed | None":
        """What was learned, or None with the reason told."""
        obstacle = self.obstacle_in(bulk)
        if obstacle:
            self.tell(obstacle)
            return None
        rays = self.look_beyond(bulk)
        if self.too_heavy(rays):
            self.tell("tails too heavy to be learned in so short a run: NUTS samples")
            return None
        found = self.learn(bulk, rays)
        if self.stopped or found is None:
            return None
        if found.acceptance < self.settings.least_acceptance or found.worst < STANDING_STILL:
            self.tell("the learned gradient is not good enough: NUTS samples")
        elif self.closes_off(rays, found.surrogate):
            self.tell("the learned gradient closes off tails that the posterior has: NUTS samples")
        else:
            return found
        return None

    def obstacle_in(self, bulk: Bulk) -> str:
        """Why nothing can be learned from what was found; empty where something can."""
        if not bulk.rounds:
            return (
                "hardly a step of standard HMC was accepted after going downhill: nothing is "
                "learned, NUTS samples from where it all began"
            )
        if not bulk.has_met_enough:
            return "too few trajectories for so many dimensions to learn from: NUTS samples"
        if not bulk.settled:
            return (
                f"R-hat is still {bulk.disagreement:.2f} after {bulk.draws.shape[1]} draws by the "
                "true gradient: nothing is learned, NUTS samples from where it all began"
            )
        if self.too_bent(bulk):
            return "the gradient is too far from a straight line for so short a run: NUTS samples"
        return ""

    def too_bent(self, bulk: Bulk) -> bool:
        """Whether learning may well fail, where a failure would cost too much of the run."""
        if self.failing_is_no_matter or self.estimate.can_afford_to_fail:
            return False
        with self.record.cost.timed("train"):
            return bulk.straightness < STRAIGHT

    def too_heavy(self, rays: Rays) -> bool:
        """Whether there is more in the tails than a gradient learned from the bulk will know."""
        if self.failing_is_no_matter or self.estimate.can_afford_a_likely_failure:
            return False
        return rays.heavy

    def learn(self, bulk: Bulk, rays: Rays) -> "_Probed | None":
        """Fit, tune, predict, probe; where that is not good enough, learn from the probe too."""
        self.record.collected.append(rays.met)
        data, states = GradientData.concatenate([bulk.gradient_data, rays.lesson]), bulk.states
        sizes, seen, predicted, found = [], [], np.nan, None
        if self.surrogate is not None:
            found, met = self.reuse(self.surrogate, bulk)
            if self.stopped or found.acceptance >= self.settings.good_acceptance:
                return found
            states, data = found.states, GradientData.concatenate([data, met])
        for attempt in range(self.refits + 1):
            sizes.append(f"{len(data):,}")
            try:
                surrogate, tuning = self.fit_and_tune(data, bulk, attempt)
            except GradientDataError as error:
                self.tell(f"nothing could be learned: {error}")
                return None
            predicted = predicted if attempt else self.predict(surrogate, tuning)
            found, met = self.probe(surrogate, tuning, states, attempt)
            self.record.collected.append(met)
            seen.append(f"{found.acceptance:.2f}")
            if self.stopped or found.acceptance >= self.settings.good_acceptance:
                break
            states, data = found.states, GradientData.concatenate([data, met])
        expected = "" if np.isnan(predicted) else f"{predicted:.2f} predicted, "
        self.tell(
            f"learned from {', then '.join(sizes)} gradients: acceptance {expected}"
            f"{', then '.join(seen)} in a probe"
        )
        return found

    def reuse(self, surrogate: Surrogate, bulk: Bulk) -> "tuple[_Probed, GradientData]":
        """A probe of what was learned before, perhaps from other data or under another prior."""
        self.record.surrogate = surrogate
        number = self.settings.most_refits + 1  # beyond those of what may be learned anew
        found, met = self.probe(surrogate, self.tune(surrogate, bulk), bulk.states, number)
        self.record.collected.append(met)
        good = found.acceptance >= self.settings.good_acceptance
        verdict = "it is used" if good else "learned anew"
        self.tell(
            f"what was learned before: acceptance {found.acceptance:.2f} in a probe, {verdict}"
        )
        return found, met

    @property
    def refits(self) -> int:
        """As many as the settings and the time at stake allow."""
        if self.settings.way == "learn":
            return self.settings.most_refits
        return min(self.settings.most_refits, self.estimate.affordable_refits)

    def fit_and_tune(
        self, data: GradientData, bulk: Bulk, attempt: int
    ) -> tuple[Surrogate, Tuning]:
        """A surrogate and the tuning for it, with no true evaluation."""
        self.record.supervision.reporter.note("train")
        with self.record.cost.timed("train"):
            key = jax.random.fold_in(self.key("fit"), attempt)
            surrogate = self.record.fit(self.settings.network, data, key)
        return surrogate, self.tune(surrogate, bulk)

    def tune(self, surrogate: Surrogate, bulk: Bulk) -> Tuning:
        """Step size and number of steps for what was learned."""
        with self.record.cost.timed("train"):
            return tune_on_learned(
                surrogate.learned,
                bulk.draws.reshape(-1, self.posterior.dim),
                bulk.adaptation.inverse_mass_matrix,
                self.key("tune"),
            ).tuning

    def predict(self, surrogate: Surrogate, tuning: Tuning) -> float:
        """The acceptance to expect; NaN where nothing was held out."""
        if surrogate.held_out is None:
            return np.nan
        with self.record.cost.timed("train"):
            found = assess_tuning(surrogate.learned, surrogate.held_out, tuning, self.key("assess"))
        return found.predicted_acceptance

    def probe(
        self, surrogate: Surrogate, tuning: Tuning, states: HMCState, attempt: int
    ) -> "tuple[_Probed, GradientData]":
        """Learned draws with the true gradient at every proposal: what they were, what they met."""
        learned = surrogate.learned
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
            tuning,
            self.key("probe"),
            states,
            range(first, first + self.settings.probe_draws),
            path_rows=1,
            on_chunk=keep,
            quick=True,
        )
        by_chain = history.stats["acceptance_rate"].mean(axis=1) if history.length else np.zeros(1)
        rates = float(by_chain.mean()), float(by_chain.min())
        probed = _Probed(surrogate, tuning, states, *rates)
        return probed, _without_outliers(GradientData.concatenate(met))

    def closes_off(self, rays: Rays, surrogate: Surrogate) -> bool:
        """Whether what was learned keeps trajectories from the tails."""
        with self.record.cost.timed("train"):
            return rays.closed_off(surrogate.learned)

    def look_beyond(self, bulk: Bulk) -> Rays:
        """How the posterior goes on where the draws end."""
        with self.record.cost.timed("collect") as cost:
            rays = follow_rays(
                self.posterior.potential_and_gradient,
                bulk.draws,
                bulk.potentials,
                self.record.supervision,
            )
            cost.true_gradients += rays.evaluations
        return rays

    def by_learned(self, bulk: Bulk, found: "_Probed") -> Run:
        """Sample along the frozen gradient, with insurance."""
        probability = self.settings.insurance
        transition = insured_transition(
            self.posterior, found.surrogate.learned, probability, bulk.adaptation.tuning
        )
        self.tell(
            f"steps of {found.tuning.largest_step:.2g} in up to {found.tuning.most_steps}; "
            f"{probability:.1%} of the draws by the true gradient"
        )
        kernel = Kernel(transition, found.tuning, self.key("sample"), self.quick(self.draws))

        def remarks_on(record: Record, kept: History) -> list[str]:
            fallen = _fallen(found.acceptance, kept.worst_acceptance)
            return [*fallen, *_beyond_the_draws(record, kept)]

        return SamplePhase.begin(
            self.record, "nnghmc", self.seed, kernel, found.states, self.draws, remarks_on
        )

    def by_nuts(self, states: HMCState, bulk: Bulk | None = None) -> Run:
        """Sample by NUTS, adapted on all chains together."""
        quick = self.quick((self.draws + NUTS_WARMUP) * GRADIENTS_A_NUTS_DRAW)
        transition = nuts_transition(self.posterior)
        with self.record.cost.timed("warmup") as cost:
            warm = warm_up_nuts(
                transition.move,
                states,
                self.key("nuts"),
                self.record.supervision,
                self.adaptation_of_nuts(bulk),
                in_the_bulk=bulk is not None,
                quick=quick,
            )
            cost.true_gradients += sum(history.leapfrog_steps for history in warm.histories)
        self.record.discarded += [("warmup", history) for history in warm.histories]
        if self.stopped:
            return self.nothing()
        kernel = Kernel(transition, warm.tuning, self.key("sample"), quick)
        return SamplePhase.begin(
            self.record, "nuts", self.seed, kernel, warm.states, self.draws, _beyond_the_draws
        )

    def adaptation_of_nuts(self, bulk: Bulk | None) -> Adaptation:
        """What NUTS begins with: what the bulk was found with, if it was."""
        if bulk is None:
            return Adaptation(0.1, np.ones(self.posterior.dim), NUTS_TARGET)
        diagonal = np.diag(bulk.adaptation.dense_matrix).copy()
        return Adaptation(bulk.adaptation.step_size, diagonal, NUTS_TARGET)


def _fallen(before: float, now: float) -> list[str]:
    """What to say where less is accepted than a probe has promised."""
    if not now < before - FALLEN:
        return []
    return [
        f"acceptance fell from {before:.2f} in the probe to {now:.2f} in a chain that has been "
        "where the gradient was not learned; the draws are exact, but fewer count; run again with "
        'another seed, or with method="nuts"'
    ]


def _beyond_the_draws(record: Record, kept: History) -> list[str]:
    """What a look beyond the outermost draws says."""
    if kept.size < LEAST_DRAWS_FOR_TAILS:
        return []
    with record.cost.timed("sample") as cost:
        draws, potentials = kept.spread(MOST_DRAWS_FOR_TAILS)
        rays = follow_rays(record.posterior.potential_and_gradient, draws, potentials)
        cost.true_gradients += rays.evaluations
    return [HEAVY_TAILS] if rays.index < NO_VARIANCE else []


class _Probed(NamedTuple):
    """A surrogate, its tuning, where a probe of it has ended, and how much that accepted.

    `worst` is the acceptance of the chain that has the lowest.
    """

    surrogate: Surrogate
    tuning: Tuning
    states: HMCState
    acceptance: float
    worst: float


def _without_outliers(data: GradientData) -> GradientData:
    """Points whose potential is finite and not absurd: far out nothing is worth learning."""
    data = data.select(np.isfinite(data.potentials))
    middle = np.median(data.potentials) if len(data) else 0.0
    spread = np.median(np.abs(data.potentials - middle)) if len(data) else 0.0
    return data.select(data.potentials < middle + 20 * spread + data.dim)
