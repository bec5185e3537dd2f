"""sample(): a posterior in, a run out. The only place where the layers meet."""

import dataclasses
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from nnghmc.assessment import assess_tuning
from nnghmc.chains import History, Supervision, evaluate_all, run_chains
from nnghmc.cost import Cost
from nnghmc.errors import (
    GradientDataError,
    PosteriorError,
    PrecisionWarning,
    SettingsError,
    instance_of,
    natural_number,
    one_of,
    positive_integer,
)
from nnghmc.interrupts import stop_on_interrupt
from nnghmc.kernels import (
    HMCState,
    Tuning,
)
from nnghmc.methods import METHODS, MiniBatches
from nnghmc.posterior import Posterior
from nnghmc.precision import energy_noise_message, position_dtype
from nnghmc.progress import reporting
from nnghmc.run import Run
from nnghmc.schedule import Decision, TrainingSchedule
from nnghmc.surrogates import (
    MODELS,
    GradientData,
    GradientModel,
    Learned,
    Surrogate,
    Training,
    fit,
    gradient_model,
)
from nnghmc.transitions import Transition, first_transition, learned_transition
from nnghmc.warmup import collect, start_chains

RANDOMNESS = ("warmup", "collect", "train", "assess", "probe", "sample")
"""Each use of randomness has its own stream, in each method and where a surrogate is reused: no
phase disturbs another's draws, and two such runs with the same seed are independent, so that
comparing them means something."""


def sample(
    posterior: Posterior,
    draws: int = 1000,
    chains: int = 4,
    seed: int = 0,
    method: str = "nnghmc",
    *,
    step_size: float | tuple[float, float] = 0.1,
    num_steps: int | tuple[int, int] = (5, 15),
    inverse_mass_matrix: Any = None,
    warmup: int = 200,
    network: GradientModel | str = "default",
    epochs: int | None = None,
    training: Training | None = None,
    schedule: TrainingSchedule | None = None,
    surrogate: Surrogate | None = None,
    mini_batches: MiniBatches | None = None,
    initial_positions: Any = None,
    chunk_size: int | None = None,
    progress: bool = True,
) -> Run:
    """Sample a posterior by NNgHMC, by standard HMC, or by a stochastic-gradient method.

    Args:
        posterior: what to sample.
        draws: draws to keep, in each chain.
        chains: chains, all advanced together.
        seed: the same seed gives the same draws, for any chunk size.
        method: "nnghmc" learns the gradient and hands over to it; "hmc" uses the true one. For
            comparison "sgld", "sghmc", "naive-sghmc" and "metropolis-sghmc" use mini-batches of
            the data; of these only the last is exact.
        step_size: ε of the leapfrog; a pair (low, high) is uniform between them, anew each draw.
        num_steps: L, the leapfrog steps a draw; a pair (low, high) likewise, both ends included.
            A fixed number can resonate: a trajectory of a full period ends where it began.
        inverse_mass_matrix: diagonal (dim,) or dense (dim, dim); None is the identity. Posterior
            variances are a good choice.
        warmup: draws in each chain before anything is collected or kept, by standard HMC, or by the
            method itself where it uses mini-batches.
        network: what learns the gradient: a model such as `GradientMLP(100)`, or the name of one
            with its defaults: "default" (`QuadraticPlus`), "mlp", "blocks", "potential", "bases",
            "gp" or "quadratic".
        epochs: the most passes over the gradient data, in the place of the model's own number.
        training: how the network is trained; None is the model's own way.
        schedule: when it is trained, probed and handed over to.
        surrogate: one that was fitted before; nothing is collected or trained then, and it takes
            over after the warm-up and a probe.
        mini_batches: size of mini-batches and friction of the stochastic-gradient methods.
        initial_positions: unconstrained starts, shape (chains, dim); None starts every chain at
            the posterior's own initial point.
        chunk_size: the most draws in one compiled call; None lets memory and time decide.
        progress: show a progress bar, where the output is a terminal or a notebook.

    Returns:
        A `Run`. Ctrl-C returns the draws made so far, marked incomplete.
    """
    if not isinstance(posterior, Posterior):
        raise PosteriorError(
            f"sample needs a Posterior, got {type(posterior).__name__}. "
            "Make one with nnghmc.Posterior(...) or nnghmc.from_log_density(...)."
        )
    if posterior.initial.dtype != position_dtype():
        raise PosteriorError(
            f"the posterior was made in {posterior.initial.dtype} and JAX now computes in "
            f"{position_dtype()}; make it anew after changing jax_enable_x64."
        )
    one_of("method", method, tuple(METHODS))
    if inverse_mass_matrix is not None and not METHODS[method].mass_matrix:
        title = METHODS[method].title
        raise SettingsError(f"{title} has no mass matrix; leave inverse_mass_matrix out.")
    tuning = Tuning.checked(step_size, num_steps, inverse_mass_matrix, posterior.dim)
    model = _model(network)
    plan = _Plan(
        draws=positive_integer("draws", draws),
        chains=positive_integer("chains", chains),
        seed=natural_number("seed", seed, largest=2**63 - 1),
        method=method,
        tuning=tuning,
        warmup=natural_number("warmup", warmup),
        network=model,
        training=_merged(instance_of("training", training or model.training, Training), epochs),
        schedule=instance_of("schedule", schedule or TrainingSchedule(), TrainingSchedule),
        surrogate=_checked_surrogate(surrogate, posterior, method),
        mini_batches=_checked_mini_batches(mini_batches, posterior, method, tuning),
        initial_positions=initial_positions,
    )
    if chunk_size is not None:
        positive_integer("chunk_size", chunk_size)
    with stop_on_interrupt() as stop, reporting(progress) as reporter:
        return _Sampling(posterior, plan, Supervision(reporter, stop, chunk_size)).run()


def _model(network: GradientModel | str) -> GradientModel:
    """The gradient model of a name, or the one given."""
    if isinstance(network, str):
        return MODELS[one_of("network", network, tuple(MODELS))]()
    return gradient_model("network", network)


def _checked_surrogate(
    surrogate: Surrogate | None, posterior: Posterior, method: str
) -> Surrogate | None:
    if surrogate is None:
        return None
    instance_of("surrogate", surrogate, Surrogate).check_fits(posterior)
    if method != "nnghmc":
        raise SettingsError(f'only method="nnghmc" uses a surrogate, got {method!r}; leave it out.')
    return surrogate


def _checked_mini_batches(
    given: MiniBatches | None, posterior: Posterior, method: str, tuning: Tuning
) -> MiniBatches:
    mini_batches = instance_of("mini_batches", given or MiniBatches(), MiniBatches)
    if METHODS[method].mini_batches:
        mini_batches.check_fits(posterior.num_observations, METHODS[method].title)
        mini_batches.check_step(tuning.largest_step)
    return mini_batches


def _merged(training: Training, epochs: int | None) -> Training:
    return training if epochs is None else dataclasses.replace(training, epochs=epochs)


@dataclass(frozen=True)
class _Plan:
    """Every argument of `sample`, checked."""

    draws: int
    chains: int
    seed: int
    method: str
    tuning: Tuning
    warmup: int
    network: GradientModel
    training: Training
    schedule: TrainingSchedule
    surrogate: Surrogate | None
    mini_batches: MiniBatches
    initial_positions: Any

    def key(self, use: str) -> PRNGKeyArray:
        kinds = [*METHODS, "reuse"]
        kind = kinds.index(self.method if self.surrogate is None else "reuse")
        stream = kind * len(RANDOMNESS) + RANDOMNESS.index(use)
        return jax.random.fold_in(jax.random.key(self.seed), stream)


@dataclass
class _Sampling:
    """One call of `sample` under way: what has been made, learned, decided and spent so far."""

    posterior: Posterior
    plan: _Plan
    supervision: Supervision
    cost: Cost = field(default_factory=Cost)
    discarded: list[tuple[str, History]] = field(default_factory=list)
    collected: list[GradientData] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    surrogate: Surrogate | None = None
    remarks: list[str] = field(default_factory=list)

    def run(self) -> Run:
        states = self.warm_up(self.start())
        transition = self.first_transition()
        if self.plan.method == "nnghmc":
            states, learned = self.learn(states)
            if learned is not None:
                transition = learned_transition(self.posterior, learned)
        _, kept = self.advance("sample", "sample", states, range(self.plan.draws), transition)
        return self.result(kept)

    def start(self) -> HMCState:
        """The first state of every chain, checked."""
        with self.cost.timed("warmup") as cost:
            states = start_chains(
                self.posterior.potential_and_gradient,
                self.posterior.initial,
                self.plan.initial_positions,
                self.plan.chains,
            )
            cost.true_gradients += self.plan.chains
        noise = energy_noise_message(states.potential, self.posterior.energy_precision)
        if noise is not None:
            self.remarks.append(noise)
            warnings.warn(noise, PrecisionWarning, stacklevel=4)
        return states

    def warm_up(self, states: HMCState) -> HMCState:
        """Standard HMC before anything is collected or kept."""
        if not self.plan.warmup:
            return states
        numbers = range(self.plan.warmup)
        if self.plan.method == "nnghmc" and self.plan.surrogate is None:
            # The compiled kernel of collecting serves here too.
            return self.collect("warmup", states, numbers, keep=lambda part: None)
        transition = self.first_transition()
        states, history = self.advance("warmup", "warmup", states, numbers, transition)
        self.discarded.append(("warmup", history))
        return states

    def learn(self, states: HMCState) -> tuple[HMCState, Learned | None]:
        """Collect, fit, probe and decide at each training point; what takes over, if anything."""
        if self.plan.surrogate is not None:
            return self.reuse(self.plan.surrogate, states)
        collected = 0
        for training_point in self.plan.schedule.training_points:
            numbers = range(collected, training_point)
            states = self.collect("collect", states, numbers, keep=self.collected.append)
            collected = training_point
            if self.supervision.stop.made:
                break
            try:
                self.surrogate = self.train(training_point)
            except GradientDataError as error:
                self.remarks.append(f"nothing learned after {training_point} draws: {error}")
                continue
            predicted = self.predict(self.surrogate, training_point)
            probed, probe = self.probe(states, self.surrogate.learned, training_point)
            if self.supervision.stop.made:
                break
            self.decisions.append(self.decide(training_point, probe, "collect", predicted))
            if self.decisions[-1].hand_over:
                return probed, self.surrogate.learned
        return states, None

    def reuse(self, surrogate: Surrogate, states: HMCState) -> tuple[HMCState, Learned | None]:
        """Probe what was learned before; whether it takes over."""
        self.surrogate = surrogate
        probed, probe = self.probe(states, surrogate.learned, 0)
        if self.supervision.stop.made:
            return states, None
        self.decisions.append(self.decide(0, probe, "warmup"))
        return (probed, surrogate.learned) if self.decisions[-1].hand_over else (states, None)

    def collect(
        self,
        phase: str,
        states: HMCState,
        draw_numbers: range,
        keep: Callable[[GradientData], None],
    ) -> HMCState:
        """Standard HMC that hands its gradients to `keep`."""
        self.supervision.reporter.begin(phase, len(draw_numbers))
        with self.cost.timed(phase) as cost:
            states, history = collect(
                self.posterior.potential_and_gradient,
                self.plan.tuning,
                self.plan.key(phase),
                states,
                draw_numbers,
                self.supervision,
                keep,
            )
            cost.true_gradients += history.leapfrog_steps
        self.discarded.append((phase, history))
        return states

    def train(self, training_point: int) -> Surrogate:
        """Fit the network to all gradients so far."""
        self.supervision.reporter.note("train")
        with self.cost.timed("train"):
            self.collected[:] = [GradientData.concatenate(self.collected)]
            key = jax.random.fold_in(self.plan.key("train"), training_point)
            layout = self.posterior.layout
            return fit(self.plan.network, self.collected[0], key, self.plan.training, layout)

    def predict(self, surrogate: Surrogate, training_point: int) -> float:
        """The acceptance to expect, from held-out trajectories; NaN where there are none."""
        if surrogate.held_out is None:
            return np.nan
        key = jax.random.fold_in(self.plan.key("assess"), training_point)
        with self.cost.timed("train"):
            found = assess_tuning(surrogate.learned, surrogate.held_out, self.plan.tuning, key)
        return found.predicted_acceptance

    def probe(
        self, states: HMCState, learned: Learned, training_point: int
    ) -> tuple[HMCState, History]:
        """Some draws with the learned gradient: where they lead, and what they were like."""
        with self.cost.timed("train") as cost:
            states = states._replace(gradient=evaluate_all(learned.gradient, states.position))
            cost.learned_gradients += self.plan.chains
        first = training_point * self.plan.schedule.probe_draws
        numbers = range(first, first + self.plan.schedule.probe_draws)
        transition = learned_transition(self.posterior, learned)
        return self.advance("train", "probe", states, numbers, transition)

    def decide(
        self,
        training_point: int,
        probe: History,
        true_phase: str,
        predicted: float = float("nan"),
    ) -> Decision:
        """Compare the probe with the standard HMC of a phase."""
        rates = [
            history.stats["acceptance_rate"]
            for phase, history in self.discarded
            if phase == true_phase and history.length
        ]
        return Decision(
            draws_collected=training_point,
            true_acceptance=float(np.concatenate(rates, axis=1).mean()) if rates else np.nan,
            learned_acceptance=probe.acceptance,
            worst_chain=probe.worst_acceptance,
            tolerance=self.plan.schedule.tolerance,
            least_acceptance=self.plan.schedule.least_acceptance,
            predicted_acceptance=predicted,
        )

    def first_transition(self) -> Transition:
        """What the method begins with."""
        return first_transition(self.posterior, self.plan.method, self.plan.mini_batches)

    def advance(
        self,
        phase: str,
        use: str,
        states: HMCState,
        draw_numbers: range,
        transition: Transition,
    ) -> tuple[HMCState, History]:
        """Move all chains on, and count the cost."""
        self.supervision.reporter.begin(use, len(draw_numbers))
        with self.cost.timed(phase) as cost:
            states, history = run_chains(
                transition.algorithm,
                self.plan.tuning,
                self.plan.key(use),
                states,
                draw_numbers,
                self.supervision,
            )
            cost.add(transition.cost(history.leapfrog_steps, history.length * self.plan.chains))
        return states, history

    def result(self, kept: History) -> Run:
        """Everything, in the form a user keeps."""
        made = [history for _, history in self.discarded if history.length]
        empty = np.empty((self.plan.chains, 0, self.posterior.dim))
        return Run(
            posterior=self.posterior,
            method=self.plan.method,
            seed=self.plan.seed,
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
            complete=kept.length == self.plan.draws,
            remarks=tuple(self.remarks),
        )
