"""Prepares the automatic run: explores on the surrogate, probes and decides."""

from typing import Any, NamedTuple, Protocol

import jax
import numpy as np

from nnghmc.engine.events import HandedOver
from nnghmc.engine.history import History
from nnghmc.engine.method import Prepared, Starts
from nnghmc.engine.session import Session
from nnghmc.errors import GradientDataError
from nnghmc.explore.adaptation import MOST_STEPS, QUARTER_PERIOD, as_tuning
from nnghmc.explore.descent import Arrival
from nnghmc.explore.fitting import fit_remembered
from nnghmc.explore.rounds.examination import learned_potentials, middle_and_spread
from nnghmc.explore.rounds.exploration import RHAT_OF_SEPARATE_MODES, Aim, Exploration, Round
from nnghmc.explore.tuning import tune_on_learned
from nnghmc.kernels import DefensiveTails, HMCState, Tuning
from nnghmc.methods.events import Explored, FellBack, Fitted, Probed, Split, covered
from nnghmc.methods.learning import as_model, automatic_kernel
from nnghmc.methods.nuts import expect, local_mode, prepare_nuts
from nnghmc.methods.payoff import Estimate
from nnghmc.methods.policy import Policy
from nnghmc.model.posterior import Posterior
from nnghmc.platform.operations import count_operations
from nnghmc.surrogates import GradientData, GradientModel, QuadraticPlusProcess, Surrogate

USUAL_STEP_COST = 0.01
"""Cost of a learned step relative to a true potential whose operations cannot be counted."""
OPERATIONS_PER_CALL = 30_000.0
"""Operations that take as long as the overhead of a step or of a call."""
OPERATIONS_PER_SECOND = 1e10
"""Operations that take a second on a usual machine."""
USUAL_DRAWS = 1000
"""Number of draws per chain over which what learning takes is spread, whatever number is wanted, so
that a run that is extended has the draws of a longer one."""


class AutomaticSettings(Protocol):
    """The settings of the automatic run, which `nnghmc.Auto` documents."""

    @property
    def network(self) -> GradientModel | str:
        """The model that learns the expensive function, or its name."""

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
    """A surrogate with its tuning, where its chains are, and the exploration it comes from."""

    surrogate: Surrogate
    tuning: Tuning
    positions: np.ndarray
    exploration: Exploration


class AutomaticPreparation:
    """The preparation of one automatic run."""

    def __init__(self, settings: AutomaticSettings, posterior: Posterior, session: Session):
        self.method, self.posterior, self.session = settings, posterior, session
        self.policy = settings.policy
        self.surrogate: Surrogate | None = None
        self.gradient_data: GradientData | None = None

    def run(self, starts: Starts) -> Prepared:
        """Decide between a surrogate and NUTS, and prepare the choice."""
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
        arrival = self.descend(states)
        found = None if self.session.stopped else self.explore(arrival)
        prepared = None if found is None or self.session.stopped else self.by_surrogate(found)
        return self.by_nuts(states, arrival) if prepared is None else prepared

    @property
    def should_try_learning(self) -> bool:
        """Whether learning is worth a try, by the estimate unless the settings decide."""
        if self.method.way == "estimate" and self.method.surrogate is None:
            return self.estimate.pays_by(self.policy.least_gain)
        return self.method.way != "nuts"

    @property
    def learning_is_forced(self) -> bool:
        """Whether learning is required by the settings, at any cost."""
        return self.method.way == "learn" or self.method.surrogate is not None

    def descend(self, states: HMCState) -> Arrival:
        """Take the chains downhill along the true gradient."""
        self.session.reporter.note("find")
        self.exploration = Exploration(
            self.posterior, self.posterior.split(), self.session, self.aim, len(states.position)
        )
        if isinstance(self.model, QuadraticPlusProcess):
            self.exploration.model = self.model
        arrival = self.exploration.descend(states)
        if arrival.restarts:
            self.session.record(local_mode(arrival.restarts, len(states.position)))
        return arrival

    @property
    def aim(self) -> Aim:
        """When the surrogate is good enough."""
        policy = self.policy
        return Aim(
            policy.good_acceptance,
            policy.largest_uncovered,
            policy.coverage_points,
            policy.largest_closed_off,
        )

    def explore(self, arrival: Arrival) -> _Candidate | None:
        """Explore on the surrogate; if that fails, record the reason and return None."""
        if self.method.surrogate is not None:
            found = self.reuse(self.method.surrogate, arrival)
            if found is not None or self.session.stopped:
                return found
        split = self.exploration.split
        self.session.record(Split(split.num_inputs, self.posterior.dim, split.has_exact_part))
        self.session.reporter.note("explore")
        if not self.exploration.begin(arrival):
            self.session.record(FellBack("too many inputs", split.num_inputs))
            return None
        try:
            return self.explore_in_rounds(arrival)
        except GradientDataError:
            self.session.record(FellBack("nothing learned"))
            return None

    def explore_in_rounds(self, arrival: Arrival) -> _Candidate | None:
        """Make rounds, and return the surrogate that they have come to if it is good enough."""
        if self.exploration.in_separate_modes(arrival):
            self.session.record(FellBack("separate modes"))
            return None
        made = self.make_rounds(self.exploration)
        if made is None or self.session.stopped:
            return None
        self.gradient_data = self.exploration.truth.gradient_data()
        self.record_rounds(arrival, made)
        shortcoming = self.shortcoming_of(made)
        if shortcoming is not None:
            self.session.record(shortcoming)
            return None
        return self.candidate(self.exploration)

    def reuse(self, surrogate: Surrogate, arrival: Arrival) -> _Candidate | None:
        """Ask the truth about a surrogate of an earlier run; return None if it is not good."""
        posterior = surrogate.on(self.posterior)
        exploration = Exploration(
            self.posterior, posterior.split, self.session, self.aim, self.exploration.num_chains
        )
        exploration.begin(arrival, surrogate)
        made = exploration.make_round()
        if made is None or self.session.stopped:
            return None
        self.surrogate = surrogate
        self.session.record(covered(made.coverage))
        if not self.aim.is_met(made):
            return None
        self.gradient_data = exploration.truth.gradient_data()
        return self.candidate(exploration)

    def make_rounds(self, exploration: Exploration) -> Round | None:
        """Make rounds until the truth agrees with the surrogate, or they are all made."""
        made = None
        for number in range(self.affordable_rounds):
            if number:
                exploration.learn()
            made = exploration.make_round()
            if made is None or self.session.stopped or self.aim.is_met(made):
                break
        return made

    @property
    def affordable_rounds(self) -> int:
        """The largest number of rounds; it depends on the estimated time of NUTS."""
        if self.learning_is_forced:
            return self.policy.most_rounds
        return self.policy.affordable_rounds(self.estimate.nuts_seconds)

    def record_rounds(self, arrival: Arrival, made: Round) -> None:
        """Record what the rounds have come to."""
        rounds = len(self.exploration.rounds)
        points = len(self.exploration.truth.all.potentials)
        self.session.record(
            Explored(arrival.evaluations, rounds, points, made.acceptance, made.rhat)
        )
        self.session.record(covered(made.coverage))

    def shortcoming_of(self, made: Round) -> FellBack | None:
        """Return why a surrogate must not take over, or None if it may."""
        if made.rhat > RHAT_OF_SEPARATE_MODES:
            return FellBack("chains disagree", made.rhat)
        if made.acceptance < self.aim.acceptance_after(made.number):
            return FellBack("low acceptance", made.acceptance)
        if made.coverage.bound > self.policy.largest_uncovered:
            return FellBack("uncovered", made.coverage.mass)
        if not self.aim.is_met(made):
            return FellBack("closed off")
        return None

    def candidate(self, exploration: Exploration) -> _Candidate:
        """Return the surrogate of the last round, or one by the model of the settings."""
        chains, given, model = exploration.chains, self.method.surrogate, self.model
        if given is not None and exploration.surrogate is given:
            surrogate = given
        elif isinstance(model, QuadraticPlusProcess):
            surrogate = exploration.tested_surrogate
        else:
            surrogate = self.fit_another(model, exploration)
        if surrogate.conservative:
            chains.shorten_steps(surrogate.on(self.posterior))
            tuning = chains.tuning
        else:
            with self.session.timed("train"):
                tuning = tune_on_learned(
                    surrogate.on(self.posterior),
                    exploration.last_draws,
                    chains.inverse_mass_matrix,
                    self.session.key("tune"),
                ).tuning
        self.surrogate = surrogate
        return _Candidate(surrogate, tuning, chains.positions, exploration)

    @property
    def model(self) -> GradientModel:
        """The model that learns the expensive function."""
        return as_model(self.method.network)

    def fit_another(self, model: GradientModel, exploration: Exploration) -> Surrogate:
        """Fit a model other than that of the rounds to what they have found."""
        data = exploration.truth.lesson_data()
        fitted = fit_remembered(self.session, model, data, self.session.key("fit"), None)
        self.session.record(Fitted(type(model).__name__, len(data)))
        return fitted.as_of_inputs()

    def by_surrogate(self, found: _Candidate) -> Prepared | None:
        """Probe the kernel that will make the kept draws; return None if it accepts too little."""
        parts, quick = self.parts_of(found), self.session.quick(self.session.wanted_draws)
        states, history = self.probe(found, parts, quick)
        acceptance, worst = _acceptance_of(history)
        if self.session.stopped:
            return None
        self.session.record(Probed(acceptance, worst, self.method.surrogate is found.surrogate))
        low_mean = acceptance < self.policy.least_acceptance
        if low_mean or worst < self.policy.least_acceptance_of_a_chain:
            self.session.record(FellBack("low acceptance", acceptance if low_mean else worst))
            return None
        self.session.record(
            HandedOver(
                found.tuning.largest_step,
                found.tuning.most_steps,
                self.policy.true_share,
                parts["transitions"] if found.surrogate.conservative else 0,
            )
        )
        return Prepared(states, {**parts, "probed_acceptance": acceptance}, quick)

    def parts_of(self, found: _Candidate) -> dict[str, Any]:
        """Return the parts of the kernel that makes the kept draws."""
        chains = found.exploration.chains
        steps = int(np.clip(np.ceil(QUARTER_PERIOD / chains.step_size), 2, MOST_STEPS))
        matrix = chains.inverse_mass_matrix
        return {
            "handed_over": True,
            "tuning": found.tuning,
            "transitions": self.transitions(found),
            "tails": self.tails(found),
            "true_tuning": as_tuning(chains.step_size, (steps // 2, steps), matrix),
            "surrogate": found.surrogate,
            "gradient_data": self.gradient_data,
        }

    def tails(self, found: _Candidate) -> tuple[float, ...]:
        """Return level, scale and share of the defensive tails.

        They are those of a potential. Without one, there are none.
        """
        surrogate, draws = found.surrogate.on(self.posterior), found.exploration.last_draws
        if not surrogate.conservative:
            return ()
        potentials = learned_potentials(found.exploration.truth, surrogate, draws)
        dim, share = draws.shape[1], self.policy.defensive_share
        tails = DefensiveTails.beyond(*middle_and_spread(potentials), dim, share)
        return tuple(float(part) for part in (tails.level, tails.scale, tails.share))

    def transitions(self, found: _Candidate) -> int:
        """Return the number of transitions on the surrogate posterior per draw.

        Costs are counted and not timed, so that the same seed gives the same draws. A surrogate
        without a potential makes no transitions.
        """
        surrogate, positions = found.surrogate.on(self.posterior), found.positions
        if not surrogate.conservative:
            return 1
        functions = (surrogate.potential_and_gradient, self.posterior.potential)
        step, potential = (count_operations(jax.vmap(part), positions) for part in functions)
        step, potential = step + OPERATIONS_PER_CALL, potential + OPERATIONS_PER_CALL
        if np.isnan(potential):
            return found.exploration.transitions_per_draw(USUAL_STEP_COST, 0.0)
        spent = OPERATIONS_PER_SECOND * self.policy.learning_seconds / USUAL_DRAWS
        return found.exploration.transitions_per_draw(step / potential, spent / potential)

    def probe(self, found: _Candidate, parts: dict[str, Any], quick: bool) -> tuple[Any, History]:
        """Make some draws by the kernel of the kept draws; they count as warm-up."""
        kernel = automatic_kernel(self.posterior, parts, self.policy.true_share)
        starts = found.positions[: found.exploration.num_chains]
        with self.session.timed("warmup") as cost:
            states = self.session.begin(kernel, starts)
            cost.true_potentials += len(starts)
            cost.count(kernel.entering.times(len(starts)))
        draws = self.policy.probe_draws
        return self.session.advance(
            "warmup", kernel, states, draws, stream="probe", label="probe", quick=quick
        )

    def by_nuts(self, states: HMCState, arrival: Arrival | None = None) -> Prepared:
        """Prepare NUTS, from where the chains have arrived if they went downhill."""
        return prepare_nuts(
            self.session,
            self.posterior,
            states,
            self.policy,
            arrival=arrival,
            handed_over=False,
            probed_acceptance=float("nan"),
            surrogate=self.surrogate,
            gradient_data=self.gradient_data,
        )


def _acceptance_of(history: History) -> tuple[float, float]:
    """Return the mean acceptance, and that of the chain with the lowest one."""
    # The history's running sums would round differently for other chunk sizes.
    by_chain = history.stats["acceptance_rate"].mean(axis=1) if history.length else np.zeros(1)
    return float(by_chain.mean()), float(by_chain.min())
