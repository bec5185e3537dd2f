"""When to train, when to hand over to the learned gradient, when to give up: the paper's way."""

from dataclasses import dataclass
from math import isnan

from nnghmc.errors import SettingsError, positive_integer


@dataclass(frozen=True)
class Decision:
    """What one training point found, and what was done about it.

    The acceptances are means over all chains; `worst_chain` is the lowest of the learned ones.
    `predicted_acceptance` is what held-out trajectories said before the first learned draw; NaN
    where nothing was held out. `true_acceptance` is NaN where no true gradient was used.
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
        """Whether the learned gradient takes over from here."""
        if not self.worst_chain >= self.least_acceptance:
            return False
        return not self.learned_acceptance < self.true_acceptance - self.tolerance

    def __str__(self) -> str:
        others = {"predicted": self.predicted_acceptance, "true": self.true_acceptance}
        known = [f"{name} {value:.2f}" for name, value in others.items() if not isnan(value)]
        when = f"after {self.draws_collected} draws" if self.draws_collected else "reused"
        found = f"{when}: acceptance {self.learned_acceptance:.2f}"
        found += f" ({', '.join(known)})" if known else ""
        if self.hand_over:
            return f"{found}; handed over"
        if not self.worst_chain >= self.least_acceptance:
            return f"{found}; {self.worst_chain:.2f} in the worst chain, not handed over"
        return f"{found}; more than {self.tolerance:g} below, not handed over"


@dataclass(frozen=True)
class TrainingSchedule:
    """Train after `start` draws of standard HMC, and every `every` draws from there to `stop`.

    Each time the network is fitted to all gradients so far and probed by some draws that use it.
    Once its acceptance is close enough to that of standard HMC, it takes over for the rest of the
    run; if `stop` passes without that, standard HMC samples the rest. Draws count per chain. Those
    made under the schedule are warm-up: they are not kept.

    Args:
        start: draws before the first training.
        stop: no training comes later than after this many draws.
        every: draws between two trainings.
        probe_draws: learned-gradient draws a chain that measure the acceptance.
        tolerance: close enough means at most this far below the acceptance of standard HMC.
        least_acceptance: and in no chain less than this; such a chain stands still.
    """

    start: int = 200
    stop: int = 1000
    every: int = 200
    probe_draws: int = 50
    tolerance: float = 0.25
    least_acceptance: float = 0.02

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
        """Train a single time, on the gradients of the first `draws` draws."""
        return cls(start=draws, stop=draws, every=1, **options)  # type: ignore[arg-type]

    @property
    def training_points(self) -> range:
        """The numbers of draws after which the network is trained."""
        return range(self.start, self.stop + 1, self.every)
