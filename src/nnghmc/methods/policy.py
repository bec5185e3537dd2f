"""Holds all thresholds of the automatic run, which the documentation lists as a table."""

from dataclasses import dataclass, field
from typing import Any

from nnghmc.errors import check_fields, natural_number, positive_integer, positive_number, share
from nnghmc.platform.codec import storable


def threshold(default: Any, meaning: str) -> Any:
    """Return a field with a default and a sentence that says what it means."""
    return field(default=default, metadata={"meaning": meaning})


@storable
@dataclass(frozen=True)
class Policy:
    """The thresholds of most decisions of the automatic run, which the documentation lists."""

    probe_draws: int = threshold(20, "Draws per chain of each probe of a learned gradient.")
    good_acceptance: float = threshold(
        0.8, "A probe with at least this mean acceptance needs no further learning."
    )
    least_acceptance: float = threshold(
        0.3, "Below this mean acceptance the learned gradient is not used, and NUTS samples."
    )
    least_acceptance_of_a_chain: float = threshold(
        0.02,
        "Below this acceptance in any chain of a probe, that chain stands still: NUTS samples.",
    )
    most_refits: int = threshold(
        3, "Most times the network is fitted again, to gradients where its trajectories go."
    )
    true_share: float = threshold(
        0.005, "Probability that a kept draw follows the true gradient instead of the learned one."
    )
    largest_fall: float = threshold(
        0.2, "A chain that accepts this much less than the probe did is noted."
    )
    least_linearity: float = threshold(
        0.8,
        "Fraction of the gradient's variance that a linear map must explain in short runs, where a "
        "failed attempt at learning would cost too much.",
    )
    least_tail_index: float = threshold(
        2.5, "Below this tail index of the kept draws the variance may not exist, which is noted."
    )
    nuts_target_acceptance: float = threshold(0.9, "Acceptance that NUTS adapts its step size to.")
    nuts_careful_acceptance: float = threshold(
        0.97,
        "Acceptance that NUTS adapts its step size to once a trajectory of the warm-up diverged: "
        "shorter steps do not miss narrow places.",
    )
    time_at_stake: float = threshold(
        0.15, "Fraction of the estimated time of NUTS that may be lost to learning that fails."
    )
    attempt_seconds: float = threshold(4.2, "Seconds lost to an attempt at learning that fails.")
    likely_failure_seconds: float = threshold(
        12.0, "Seconds lost to an attempt that will hardly succeed, as with heavy tails."
    )
    refit_seconds: float = threshold(3.0, "Seconds that one more fit and probe take.")
    nuts_seconds: float = threshold(3.0, "Seconds to compile NUTS.")
    nuts_warmup: int = threshold(300, "Warm-up draws per chain of NUTS, for the estimate.")
    gradients_per_nuts_draw: int = threshold(
        25, "Gradients per draw of NUTS, when chains that advance together wait for the longest."
    )
    learning_seconds: float = threshold(
        9.0, "Seconds to compile everything that learning needs, and to fit."
    )
    gradients_to_learn: int = threshold(
        350, "Gradients of all chains together to find the typical set and to learn."
    )
    learned_steps_per_draw: int = threshold(
        20, "Learned leapfrog steps per draw, for the estimate."
    )

    def __post_init__(self) -> None:
        check_fields(
            self,
            probe_draws=positive_integer,
            good_acceptance=share,
            least_acceptance=share,
            least_acceptance_of_a_chain=share,
            most_refits=natural_number,
            true_share=share,
            largest_fall=share,
            least_linearity=share,
            least_tail_index=positive_number,
            nuts_target_acceptance=share,
            nuts_careful_acceptance=share,
            time_at_stake=share,
            gradients_per_nuts_draw=positive_integer,
            learned_steps_per_draw=positive_integer,
        )

    def can_afford_to_fail(self, nuts_seconds: float) -> bool:
        """Return whether a failed attempt costs little compared with the time of NUTS."""
        return self.time_at_stake * nuts_seconds >= self.attempt_seconds

    def can_afford_a_likely_failure(self, nuts_seconds: float) -> bool:
        """Return whether even an attempt that is unlikely to succeed costs little."""
        return self.time_at_stake * nuts_seconds >= self.likely_failure_seconds

    def affordable_refits(self, nuts_seconds: float) -> int:
        """Return how many further fits may be tried before NUTS is the better use of time."""
        left = self.time_at_stake * nuts_seconds - self.attempt_seconds
        return min(self.most_refits, max(0, int(left / self.refit_seconds)))
