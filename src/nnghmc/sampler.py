"""sample(): a posterior in, a run out. The only place where the layers meet."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from nnghmc.assessment import assess_tuning
from nnghmc.automatic import Automatic, AutomaticSampling
from nnghmc.chains import History, HistoryInMemory, evaluate_all
from nnghmc.errors import (
    GradientDataError,
    PosteriorError,
    SettingsError,
    instance_of,
    natural_number,
    one_of,
    positive_integer,
)
from nnghmc.frontends import as_posterior
from nnghmc.kernels import (
    HMCState,
    Tuning,
)
from nnghmc.methods import METHODS, MiniBatches
from nnghmc.payoff import Estimate, estimate_run
from nnghmc.posterior import Posterior
from nnghmc.precision import position_dtype
from nnghmc.record import Kernel, Record, SamplePhase, supervised
from nnghmc.run import Run
from nnghmc.schedule import Decision, TrainingSchedule
from nnghmc.store import Store
from nnghmc.stored_arguments import create_store, stored_arguments
from nnghmc.surrogates import (
    MODELS,
    GradientData,
    GradientModel,
    Learned,
    Surrogate,
    Training,
    gradient_model,
)
from nnghmc.transitions import Transition, first_transition, learned_transition
from nnghmc.warmup import collect, spread_starts, start_chains

TUNED_BY_THEMSELVES = ("auto", "nuts")
KINDS = ("nnghmc", "hmc", "sgld", "sghmc", "naive-sghmc", "metropolis-sghmc", "reuse")
RANDOMNESS = ("warmup", "collect", "train", "assess", "probe", "sample")
"""Each use of randomness has its own stream, in each method and where a surrogate is reused: no
phase disturbs another's draws, and two such runs with the same seed are independent, so that
comparing them means something."""


def sample(
    posterior: Posterior | Any,
    draws: int = 1000,
    chains: int = 4,
    seed: int = 0,
    method: str = "auto",
    *,
    model_args: Sequence[Any] = (),
    model_kwargs: Mapping[str, Any] | None = None,
    automatic: Automatic | None = None,
    step_size: float | tuple[float, float] | None = None,
    num_steps: int | tuple[int, int] | None = None,
    inverse_mass_matrix: Any = None,
    warmup: int | None = None,
    network: GradientModel | str = "default",
    epochs: int | None = None,
    training: Training | None = None,
    schedule: TrainingSchedule | None = None,
    surrogate: Surrogate | None = None,
    mini_batches: MiniBatches | None = None,
    initial_positions: Any = None,
    chunk_size: int | None = None,
    store: str | Path | None = None,
    progress: bool = True,
) -> Run:
    """Sample a posterior. With no further word everything is found out: what pays, and how.

    Whoever gives a tuning (a step size, a schedule, ...) gets the paper's NNgHMC with
    a fixed schedule and that tuning, as `method="nnghmc"` does.

    Args:
        posterior: what to sample: a `Posterior`, a PyMC model, or a NumPyro model.
        draws: draws to keep, in each chain.
        chains: chains, all advanced together.
        seed: the same seed gives the same draws, for any chunk size.
        method: "auto" learns the gradient where that pays and samples by NUTS where it does not;
            "nuts" is NUTS, adapted on all chains together. With a tuning of your own, "nnghmc"
            learns the gradient and hands over to it; "hmc" uses the true one. For comparison
            "sgld", "sghmc", "naive-sghmc" and "metropolis-sghmc" use mini-batches of the data; of
            these only the last is exact.
        model_args: the arguments of a NumPyro model.
        model_kwargs: its arguments by name.
        automatic: how the automatic run decides, where a person wants to say so.
        step_size: ε of the leapfrog, 0.1 if not given; a pair (low, high) is uniform between them,
            anew each draw.
        num_steps: L, the leapfrog steps a draw, (5, 15) if not given: a pair (low, high) likewise.
            A fixed number can resonate: a trajectory of a full period ends where it began.
        inverse_mass_matrix: diagonal (dim,) or dense (dim, dim); None is the identity. Posterior
            variances are a good choice.
        warmup: draws in each chain before anything is collected or kept, 200 if not given, by
            standard HMC, or by the method itself where it uses mini-batches.
        network: what learns the gradient: a model such as `GradientMLP(100)`, or the name of one
            with its defaults: "default" (`QuadraticPlus`), "mlp", "blocks", "potential", "bases",
            "gp" or "quadratic".
        epochs: the most passes over the gradient data, in the place of the model's own number.
        training: how the network is trained; None is the model's own way.
        schedule: when it is trained, probed and handed over to.
        surrogate: one that was fitted before, to these data or others, under this prior or
            another. The automatic run tunes and probes it instead of fitting one, which it does
            where the probe accepts too little; with a tuning of your own nothing is collected or
            trained, and it takes over after the warm-up and a probe.
        mini_batches: size of mini-batches and friction of the stochastic-gradient methods.
        initial_positions: unconstrained starts, shape (chains, dim); None starts every chain at
            the posterior's own initial point, or around it in the automatic run.
        chunk_size: the most draws in one compiled call; None lets memory and time decide.
        store: a new folder that the run is written to as it goes. Draws are there, in Zarr, as
            soon as they are made, and are not kept in memory; `nnghmc.resume` goes on after any
            stop as if there had been none.
        progress: show a progress bar, where the output is a terminal or a notebook.

    Returns:
        A `Run`. Ctrl-C returns the draws made so far, marked incomplete.
    """
    posterior = as_posterior(posterior, model_args, model_kwargs)
    if posterior.initial.dtype != position_dtype():
        raise PosteriorError(
            f"the posterior was made in {posterior.initial.dtype} and JAX now computes in "
            f"{position_dtype()}; make it anew after changing jax_enable_x64."
        )
    arguments = {
        "draws": draws,
        "chains": chains,
        "seed": seed,
        "method": method,
        "automatic": automatic,
        "step_size": step_size,
        "num_steps": num_steps,
        "inverse_mass_matrix": inverse_mass_matrix,
        "warmup": warmup,
        "network": network,
        "epochs": epochs,
        "training": training,
        "schedule": schedule,
        "surrogate": surrogate,
        "mini_batches": mini_batches,
        "initial_positions": initial_positions,
        "chunk_size": chunk_size,
    }
    sampling = _prepared(posterior, **arguments)
    where = None if store is None else create_store(store, posterior, arguments)
    return _conducted(sampling, posterior, where, chunk_size, progress)


def go_on(store: Store, posterior: Posterior, *, progress: bool = True) -> Run:
    """Go on with the run of a store, which must be one of this posterior."""
    store.check_same(posterior)
    arguments = stored_arguments(store)
    sampling = _prepared(posterior, **arguments)
    return _conducted(sampling, posterior, store, arguments["chunk_size"], progress)


Sampling = Callable[..., "AutomaticSampling | _Sampling"]
"""A call of `sample` whose arguments are checked; a `record=` makes it ready to run."""


def _conducted(
    sampling: Sampling,
    posterior: Posterior,
    store: Store | None,
    chunk_size: int | None,
    progress: bool,
) -> Run:
    with supervised(posterior, progress, chunk_size, store) as supervision:
        record = Record(posterior, supervision, store)
        if store is not None and store.elsewhere:
            record.remarks.append(store.elsewhere)
        with record.explaining():
            return sampling(record=record).run()


def _prepared(
    posterior: Posterior,
    *,
    draws: int,
    chains: int,
    seed: int,
    method: str,
    automatic: Automatic | None,
    network: GradientModel | str,
    initial_positions: Any,
    chunk_size: int | None,
    **own: Any,
) -> Sampling:
    """Every argument of `sample` checked, and the kind of sampling that they ask for."""
    given = [name for name, value in own.items() if value is not None]
    method = _method(method, given, automatic)
    if own["surrogate"] is not None and method not in ("auto", "nnghmc"):
        raise SettingsError(
            f'only methods "auto" and "nnghmc" use a surrogate, got {method!r}; leave it out.'
        )
    common: dict[str, Any] = {
        "draws": positive_integer("draws", draws),
        "chains": positive_integer("chains", chains),
        "seed": natural_number("seed", seed, largest=2**63 - 1),
        "initial_positions": initial_positions,
    }
    if chunk_size is not None:
        positive_integer("chunk_size", chunk_size)
    if method in TUNED_BY_THEMSELVES:
        settings = _automatic(automatic, method, network)
        surrogate = _checked_surrogate(own["surrogate"], posterior)
        return partial(AutomaticSampling, **common, settings=settings, surrogate=surrogate)
    return partial(_Sampling, plan=_plan(posterior, method, _model(network), common, **own))


def _plan(
    posterior: Posterior,
    method: str,
    model: GradientModel,
    common: dict[str, Any],
    *,
    step_size: Any,
    num_steps: Any,
    inverse_mass_matrix: Any,
    warmup: int | None,
    epochs: int | None,
    training: Training | None,
    schedule: TrainingSchedule | None,
    surrogate: Surrogate | None,
    mini_batches: MiniBatches | None,
) -> "_Plan":
    if inverse_mass_matrix is not None and not METHODS[method].mass_matrix:
        title = METHODS[method].title
        raise SettingsError(f"{title} has no mass matrix; leave inverse_mass_matrix out.")
    tuning = Tuning.checked(
        0.1 if step_size is None else step_size,
        (5, 15) if num_steps is None else num_steps,
        inverse_mass_matrix,
        posterior.dim,
    )
    return _Plan(
        **common,
        method=method,
        tuning=tuning,
        warmup=200 if warmup is None else natural_number("warmup", warmup),
        network=model,
        training=_merged(instance_of("training", training or model.training, Training), epochs),
        schedule=instance_of("schedule", schedule or TrainingSchedule(), TrainingSchedule),
        surrogate=_checked_surrogate(surrogate, posterior),
        mini_batches=_checked_mini_batches(mini_batches, posterior, method, tuning),
    )


def estimate(
    posterior: Posterior | Any,
    draws: int = 1000,
    chains: int = 4,
    seed: int = 0,
    *,
    model_args: Sequence[Any] = (),
    model_kwargs: Mapping[str, Any] | None = None,
) -> Estimate:
    """Will it pay? What the automatic run finds out before it decides, without sampling."""
    posterior = as_posterior(posterior, model_args, model_kwargs)
    if posterior.calls is not None:
        posterior.calls.begin()
    key = jax.random.key(natural_number("seed", seed, largest=2**63 - 1))
    states = spread_starts(
        posterior.potential_and_gradient,
        posterior.initial,
        None,
        positive_integer("chains", chains),
        key,
    )
    return estimate_run(posterior, states.position, positive_integer("draws", draws))


def _method(method: str, given: list[str], automatic: Automatic | None) -> str:
    """The method to use; a tuning of one's own asks for one that takes it."""
    one_of("method", method, ("auto", *METHODS))
    if automatic is not None and method != "auto":
        raise SettingsError(f'automatic= is for method="auto", got {method!r}; leave it out.')
    tuned = [name for name in given if name != "surrogate"]
    if not tuned or method not in TUNED_BY_THEMSELVES:
        return method
    if method == "auto" and automatic is None:
        return "nnghmc"
    raise SettingsError(
        f'method="{method}" finds its tuning itself, got {", ".join(tuned)}; leave it out, or use '
        'method="nnghmc" or method="hmc".'
    )


def _automatic(automatic: Automatic | None, method: str, network: GradientModel | str) -> Automatic:
    settings = instance_of("automatic", automatic or Automatic(), Automatic)
    if method == "nuts":
        return dataclasses.replace(settings, way="nuts")
    if automatic is None or network != "default":
        return dataclasses.replace(settings, network=_model(network))
    return settings


def _model(network: GradientModel | str) -> GradientModel:
    """The gradient model of a name, or the one given."""
    if isinstance(network, str):
        return MODELS[one_of("network", network, tuple(MODELS))]()
    return gradient_model("network", network)


def _checked_surrogate(surrogate: Surrogate | None, posterior: Posterior) -> Surrogate | None:
    if surrogate is not None:
        instance_of("surrogate", surrogate, Surrogate).check_fits(posterior)
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
        kind = KINDS.index(self.method if self.surrogate is None else "reuse")
        stream = kind * len(RANDOMNESS) + RANDOMNESS.index(use)
        return jax.random.fold_in(jax.random.key(self.seed), stream)


@dataclass
class _Sampling:
    """One call of `sample` by a method with fixed tuning, under way."""

    record: Record
    plan: _Plan

    def __post_init__(self) -> None:
        self.posterior, self.supervision = self.record.posterior, self.record.supervision
        self.cost = self.record.cost

    def run(self) -> Run:
        states = self.warm_up(self.start())
        transition = self.first_transition()
        if self.plan.method == "nnghmc":
            states, learned = self.learn(states)
            if learned is not None:
                transition = learned_transition(self.posterior, learned)
        if self.supervision.stop.made:
            nothing = HistoryInMemory(self.plan.chains, 0, self.posterior.dim)
            return self.record.result(self.plan.method, self.plan.seed, self.plan.draws, nothing)
        return SamplePhase.begin(
            self.record,
            self.plan.method,
            self.plan.seed,
            Kernel(transition, self.plan.tuning, self.plan.key("sample")),
            states,
            self.plan.draws,
            lambda record, kept: [],
        )

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
        self.record.check_energies(states)
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
        self.record.discarded.append(("warmup", history))
        return states

    def learn(self, states: HMCState) -> tuple[HMCState, Learned | None]:
        """Collect, fit, probe and decide at each training point; what takes over, if anything."""
        if self.plan.surrogate is not None:
            return self.reuse(self.plan.surrogate, states)
        collected = 0
        for training_point in self.plan.schedule.training_points:
            numbers = range(collected, training_point)
            states = self.collect("collect", states, numbers, keep=self.record.collected.append)
            collected = training_point
            if self.supervision.stop.made:
                break
            try:
                surrogate = self.train(training_point)
            except GradientDataError as error:
                self.record.remarks.append(f"nothing learned after {training_point} draws: {error}")
                continue
            predicted = self.predict(surrogate, training_point)
            probed, probe = self.probe(states, surrogate.learned, training_point)
            if self.supervision.stop.made:
                break
            self.record.decisions.append(self.decide(training_point, probe, "collect", predicted))
            if self.record.decisions[-1].hand_over:
                return probed, surrogate.learned
        return states, None

    def reuse(self, surrogate: Surrogate, states: HMCState) -> tuple[HMCState, Learned | None]:
        """Probe what was learned before; whether it takes over."""
        self.record.surrogate = surrogate
        probed, probe = self.probe(states, surrogate.learned, 0)
        if self.supervision.stop.made:
            return states, None
        self.record.decisions.append(self.decide(0, probe, "warmup"))
        return (
            (probed, surrogate.learned) if self.record.decisions[-1].hand_over else (states, None)
        )

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
        self.record.discarded.append((phase, history))
        return states

    def train(self, training_point: int) -> Surrogate:
        """Fit the network to all gradients so far."""
        self.supervision.reporter.note("train")
        with self.cost.timed("train"):
            self.record.collected[:] = [GradientData.concatenate(self.record.collected)]
            key = jax.random.fold_in(self.plan.key("train"), training_point)
            data = self.record.collected[0]
            return self.record.fit(self.plan.network, data, key, self.plan.training)

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
            for phase, history in self.record.discarded
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
        key = self.plan.key(use)
        return self.record.advance(
            phase, use, transition, self.plan.tuning, key, states, draw_numbers
        )
