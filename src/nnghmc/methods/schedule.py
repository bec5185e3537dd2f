"""The paper's schedule: when to train, to hand over to the learned gradient, and to give up."""

from dataclasses import dataclass
from math import isnan

from nnghmc.engine.events import Event
from nnghmc.errors import SettingsError, positive_integer
from nnghmc.methods.settings import setting
from nnghmc.platform.codec import storable


@dataclass(frozen=True)
class Decision(Event):
    """The result of a probe, and the decision whether the learned gradient takes over.

    Attributes:
        draws_collected: draws per chain whose gradients were learned from; 0 for a surrogate of an
            earlier fit.
        true_acceptance: acceptance of standard HMC; NaN if it made no draws.
        learned_acceptance: mean acceptance of the probe over all chains.
        worst_chain: acceptance of the chain with the lowest one.
        tolerance: largest difference between the acceptance of standard HMC and of the probe.
        least_acceptance: least acceptance of every chain.
        predicted_acceptance: acceptance predicted from held-out trajectories; NaN if there are
            none.
    """

    draws_collected: int
    true_acceptance: float
    learned_acceptance: float
    worst_chain: float
    tolerance: float
    least_acceptance: float
    predicted_acceptance: float = float("nan")

    @property
    def hand_over(self) -> bool:
        """Whether the probe is good enough for the learned gradient to take over."""
        if not self.worst_chain >= self.least_acceptance:
            return False
        return not self.learned_acceptance < self.true_acceptance - self.tolerance

    def __str__(self) -> str:
        others = {"predicted": self.predicted_acceptance, "true": self.true_acceptance}
        known = [f"{name} {value:.2f}" for name, value in others.items() if not isnan(value)]
        when = f"after {self.draws_collected} draws" if self.draws_collected else "given surrogate"
        found = f"{when}: acceptance {self.learned_acceptance:.2f}"
        found += f" ({', '.join(known)})" if known else ""
        if self.hand_over:
            return f"{found}; handed over"
        if not self.worst_chain >= self.least_acceptance:
            return f"{found}; {self.worst_chain:.2f} in the worst chain, not handed over"
        return f"{found}; more than {self.tolerance:g} below standard HMC, not handed over"


@storable
@dataclass(frozen=True)
class TrainingSchedule:
    """A schedule that trains after `start` draws of standard HMC, then every `every` up to `stop`.

    At each training point the network is fitted to all gradients so far, and a probe measures the
    acceptance of draws along the learned gradient. Once it is close enough to that of standard HMC,
    the learned gradient takes over for the rest of the run. If that has not happened by `stop`,
    standard HMC makes the remaining draws. All numbers of draws are per chain. Draws made under the
    schedule are warm-up draws, and are not kept.

    Args:
        start: draws before the first training.
        stop: draws after which no further training takes place.
        every: draws between two trainings.
        probe_draws: draws per chain of each probe.
        tolerance: largest difference between the acceptance of standard HMC and of the probe.
        least_acceptance: least acceptance of every chain; a chain with less stands still.
    """

    start: int = setting(200, "Schedule: draws before the first training.")
    stop: int = setting(1000, "Schedule: draws before the last training.")
    every: int = setting(200, "Schedule: draws between trainings.")
    probe_draws: int = setting(50, "Schedule: draws per chain of a probe.")
    tolerance: float = setting(0.25, "Schedule: largest acceptance lost by handing over.")
    least_acceptance: float = setting(0.02, "Schedule: least acceptance of every chain.")

    def __post_init__(self) -> None:
        for name in ("start", "stop", "every", "probe_draws"):
            positive_integer(f"schedule {name}", getattr(self, name))
        if self.stop < self.start:
            raise SettingsError(
                f"a schedule must stop no earlier than it starts, got start={self.start} and "
                f"stop={self.stop}."
            )
        for name in ("tolerance", "least_acceptance"):
            value = getattr(self, name)
            if not isinstance(value, int | float) or not 0 <= value <= 1:
                raise SettingsError(f"schedule {name} must lie between 0 and 1, got {value!r}.")

    @classmethod
    def once(cls, draws: int, **options: int | float) -> "TrainingSchedule":
        """Return a schedule that trains once, on the gradients of the first `draws` draws."""
        return cls(start=draws, stop=draws, every=1, **options)  # type: ignore[arg-type]

    @property
    def training_points(self) -> range:
        """The numbers of draws after which the network is trained."""
        return range(self.start, self.stop + 1, self.every)
