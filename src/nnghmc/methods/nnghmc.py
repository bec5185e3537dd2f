"""The paper's NNgHMC: collect true gradients, train on a schedule, hand over to the network."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from nnghmc.engine.events import HandedOver, Note
from nnghmc.engine.history import History
from nnghmc.engine.method import Prepared, Starts
from nnghmc.engine.session import Session
from nnghmc.errors import GradientDataError, check_fields, instance_of, positive_integer
from nnghmc.explore.assessment import assess_tuning
from nnghmc.explore.collect import collect
from nnghmc.explore.fitting import fit_remembered
from nnghmc.kernels import HMCState, Kernel, LearnedGradientHMC, TrueGradientHMC
from nnghmc.methods.learning import as_model, checked_surrogate, titled
from nnghmc.methods.schedule import Decision, TrainingSchedule
from nnghmc.methods.settings import setting
from nnghmc.methods.tuned import Parts, TunedMethod
from nnghmc.model.posterior import Posterior
from nnghmc.surrogates import GradientData, GradientModel, Surrogate, Training


@dataclass(frozen=True)
class NNgHMC(TunedMethod):
    """The paper's Neural Network Gradient HMC, with your own tuning and schedule.

    Args:
        step_size: leapfrog step size ε; from a pair (low, high) it is drawn uniformly per draw.
        num_steps: number L of leapfrog steps per draw, or a pair (low, high). A fixed number can
            resonate: a trajectory of a full period ends where it began.
        warmup: number of draws per chain by standard HMC before gradients are collected.
        inverse_mass_matrix: diagonal (dim,) or dense (dim, dim); None is the identity. Posterior
            variances are a good choice.
        network: model that learns the gradient, such as `GradientMLP(100)`, or the name of one with
            its defaults: "default" (`QuadraticPlus`), "mlp", "blocks", "potential", "bases", "gp",
            "quadratic", "process" or "sparse".
        training: settings of the training; None uses those of the model.
        epochs: largest number of passes over the gradient data; None uses that of `training`.
        schedule: when to train and probe the network, and to hand over to it.
        surrogate: surrogate from an earlier fit, to these data or others, under this prior or
            another. Nothing is then collected or trained. After the warm-up the surrogate is
            probed, and it takes over if the probe accepts enough.
    """

    title: ClassVar[str] = "NNgHMC"
    inverse_mass_matrix: Any = setting(
        None, "Inverse mass matrix or its diagonal.", option="inverse-mass", kind="matrix"
    )
    network: GradientModel | str = setting(
        "default", "Model that learns the gradient; mlp is the paper's network.", kind="network"
    )
    training: Training | None = setting(None, "Settings of the training.", option=None)
    epochs: int | None = setting(None, "Largest number of passes over the gradient data.")
    schedule: TrainingSchedule = setting(TrainingSchedule, "When to train.", kind="group")
    surrogate: Surrogate | None = setting(
        None, "Surrogate file of an earlier run, used instead of learning.", kind="surrogate"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fields(self, epochs=positive_integer)
        object.__setattr__(self, "network", as_model(self.network))
        if self.training is not None:
            instance_of("training", self.training, Training)
        instance_of("schedule", self.schedule, TrainingSchedule)

    @property
    def streams(self) -> str:
        """A part of the name of every random stream, another one if a surrogate is given.

        The run is then independent of the one that the surrogate came from.
        """
        return super().streams if self.surrogate is None else f"{super().streams} reusing"

    def check(self, posterior: Posterior) -> None:
        """Raise an error if the mass matrix or the surrogate does not fit the posterior."""
        super().check(posterior)
        checked_surrogate(self.surrogate, posterior)

    def prepare(self, posterior: Posterior, starts: Starts, session: Session) -> Prepared:
        """Warm up, then learn and probe until the learned gradient takes over or the schedule ends.

        A surrogate that was given is only probed.
        """
        return _Preparation(self, posterior, session).run(starts.at_initial(session))

    def kernel(self, posterior: Posterior, parts: Parts) -> Kernel:
        """Return HMC along the learned gradient if it took over, and standard HMC otherwise."""
        if not parts["handed_over"]:
            return TrueGradientHMC(posterior.potential_and_gradient, self.tuning(posterior))
        return self.learned_kernel(posterior, parts["surrogate"])

    def learned_kernel(self, posterior: Posterior, surrogate: Surrogate) -> LearnedGradientHMC:
        """Return HMC along a learned gradient."""
        gradient = surrogate.gradient_for(posterior)
        return LearnedGradientHMC(posterior.potential, gradient, self.tuning(posterior))

    def describe(self, parts: Parts) -> str:
        """Return the title with the gradient model, or whether it did not take over."""
        if not parts["handed_over"]:
            return f"{self.title}, not handed over"
        return titled(self.title, parts["surrogate"])


class _Preparation:
    """The preparation of one run, with the gradient data and the last surrogate so far."""

    def __init__(self, method: NNgHMC, posterior: Posterior, session: Session):
        self.method, self.posterior, self.session = method, posterior, session
        self.collected: list[GradientData] = []
        self.surrogate: Surrogate | None = method.surrogate

    def run(self, states: HMCState) -> Prepared:
        """Warm up, then learn, or probe the surrogate of an earlier fit."""
        states = self.warm_up(states)
        learn = self.learn if self.method.surrogate is None else self.reuse
        states, handed_over = learn(states)
        if handed_over:
            tuning = self.method.tuning(self.posterior)
            self.session.record(HandedOver(tuning.largest_step, tuning.most_steps))
        data = GradientData.concatenate(self.collected) if self.collected else None
        parts = {
            "handed_over": handed_over,
            "surrogate": self.surrogate,
            "gradient_data": data,
        }
        return Prepared(states, parts)

    def warm_up(self, states: HMCState) -> HMCState:
        """Make draws by standard HMC before gradients are collected."""
        if not self.method.warmup:
            return states
        # Warm-up and collecting share compiled code, so gradients are recorded and dropped here.
        return self.collect("warmup", states, range(self.method.warmup), keep=lambda part: None)

    def collect(
        self, phase: str, states: HMCState, draws: range, keep: Callable[[GradientData], None]
    ) -> HMCState:
        """Make draws by standard HMC, and call `keep` with their gradient data."""
        tuning = self.method.tuning(self.posterior)
        function = self.posterior.potential_and_gradient
        return collect(self.session, phase, function, tuning, states, draws, keep)[0]

    def learn(self, states: HMCState) -> tuple[HMCState, bool]:
        """Collect, fit, probe and decide at each training point."""
        collected = 0
        for point in self.method.schedule.training_points:
            states = self.collect("collect", states, range(collected, point), self.collected.append)
            collected = point
            if self.session.stopped:
                break
            try:
                surrogate = self.train(point)
            except GradientDataError as error:
                self.session.record(_nothing_learned(point, error))
                continue
            predicted = self.predict(surrogate, point)
            probed, probe = self.probe(states, surrogate, point)
            if self.session.stopped:
                break
            decision = self.decide(point, probe, "collect", predicted)
            if decision.hand_over:
                return probed, True
        return states, False

    def reuse(self, states: HMCState) -> tuple[HMCState, bool]:
        """Probe the surrogate of an earlier fit, and decide."""
        assert self.surrogate is not None
        probed, probe = self.probe(states, self.surrogate, 0)
        if self.session.stopped:
            return states, False
        handed_over = self.decide(0, probe, "warmup").hand_over
        return (probed if handed_over else states), handed_over

    def train(self, point: int) -> Surrogate:
        """Fit the network to all gradients collected so far."""
        model = as_model(self.method.network)
        training = self.method.training or model.training
        if self.method.epochs is not None:
            training = dataclasses.replace(training, epochs=self.method.epochs)
        self.collected[:] = [GradientData.concatenate(self.collected)]
        key = self.session.key("train", point)
        self.surrogate = fit_remembered(
            self.session, model, self.collected[0], key, self.posterior.layout, training
        )
        return self.surrogate

    def predict(self, surrogate: Surrogate, point: int) -> float:
        """Return the acceptance predicted from held-out trajectories; NaN if there are none."""
        if surrogate.held_out is None:
            return np.nan
        tuning, key = self.method.tuning(self.posterior), self.session.key("assess", point)
        with self.session.timed("train"):
            found = assess_tuning(surrogate.learned, surrogate.held_out, tuning, key)
        return found.predicted_acceptance

    def probe(self, states: HMCState, surrogate: Surrogate, point: int) -> tuple[HMCState, History]:
        """Make draws along the learned gradient to measure its acceptance."""
        kernel = self.method.learned_kernel(self.posterior, surrogate)
        with self.session.timed("train") as cost:
            states = self.session.begin(kernel, states.position, states.potential)
            cost.count(kernel.entering.times(len(states.position)))
        return self.session.advance(
            "train",
            kernel,
            states,
            self.method.schedule.probe_draws,
            stream=f"probe after draw {point}",
            label="probe",
            in_warmup=False,
        )

    def decide(
        self, point: int, probe: History, true_phase: str, predicted: float = float("nan")
    ) -> Decision:
        """Compare the probe with the standard HMC of a phase, and record the decision."""
        rates = [
            history.stats["acceptance_rate"]
            for phase, history in self.session.warmup
            if phase == true_phase and history.length
        ]
        decision = Decision(
            draws_collected=point,
            true_acceptance=float(np.concatenate(rates, axis=1).mean()) if rates else np.nan,
            learned_acceptance=probe.acceptance,
            worst_chain=probe.worst_acceptance,
            tolerance=self.method.schedule.tolerance,
            least_acceptance=self.method.schedule.least_acceptance,
            predicted_acceptance=predicted,
        )
        self.session.record(decision)
        return decision


def _nothing_learned(point: int, error: GradientDataError) -> Note:
    """Return the note for a training point at which no network could be fitted."""
    return Note("nothing learned", f"nothing could be learned after {point} draws: {error}")
