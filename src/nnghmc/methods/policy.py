"""Holds most thresholds of the automatic run, which the documentation lists as a table."""

from dataclasses import dataclass, field
from typing import Any

from nnghmc.errors import check_fields, positive_integer, positive_number, share
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
        0.9, "A surrogate with at least this expected acceptance needs no further learning."
    )
    largest_uncovered: float = threshold(
        0.05, "Bound on the posterior mass that may lie where the surrogate is off by more than 1."
    )
    largest_closed_off: float = threshold(
        0.004,
        "Share of points on true trajectories, from the outermost draws of the surrogate, where "
        "the surrogate may be too high by more than 1; points count by their mass.",
    )
    largest_uncovered_at_the_end: float = threshold(
        0.1, "The same bound after the kept draws, above which it is noted."
    )
    largest_closed_off_at_the_end: float = threshold(
        0.03, "The same share beyond the outermost kept draws, above which it is noted."
    )
    coverage_points: int = threshold(
        64, "Draws at which the truth is asked before the surrogate counts as good."
    )
    least_acceptance: float = threshold(
        0.3, "Below this mean acceptance the learned gradient is not used, and NUTS samples."
    )
    least_acceptance_of_a_chain: float = threshold(
        0.02,
        "Below this acceptance in any chain of a probe, that chain stands still: NUTS samples.",
    )
    most_rounds: int = threshold(12, "Most rounds of exploring on the surrogate.")
    true_share: float = threshold(
        0.002, "Probability that a kept draw follows the true gradient instead of the learned one."
    )
    defensive_share: float = threshold(
        0.25,
        "Probability that a proposal is made with tails heavier than those of the surrogate.",
    )
    largest_fall: float = threshold(
        0.2, "A chain that accepts this much less than the probe did is noted."
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
        0.15, "Fraction of the estimated time of NUTS that may be spent on rounds."
    )
    least_rounds: int = threshold(3, "Rounds that are always tried before NUTS takes over.")
    round_seconds: float = threshold(0.2, "Seconds that one round takes.")
    least_gain: float = threshold(
        1.25, "Factor by which NUTS must be expected to take longer for learning to be tried."
    )
    nuts_seconds: float = threshold(3.0, "Seconds to compile NUTS.")
    nuts_warmup: int = threshold(300, "Warm-up draws per chain of NUTS, for the estimate.")
    gradients_per_nuts_draw: int = threshold(
        10, "Gradients per draw of NUTS, when chains that advance together wait for the longest."
    )
    learning_seconds: float = threshold(
        9.0, "Seconds to compile everything that learning needs, and to fit."
    )
    gradients_to_learn: int = threshold(
        250, "Gradients of all chains together to find the typical set and to learn."
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
            largest_uncovered=share,
            largest_closed_off=share,
            largest_uncovered_at_the_end=share,
            largest_closed_off_at_the_end=share,
            coverage_points=positive_integer,
            most_rounds=positive_integer,
            true_share=share,
            defensive_share=share,
            largest_fall=share,
            least_tail_index=positive_number,
            nuts_target_acceptance=share,
            nuts_careful_acceptance=share,
            time_at_stake=share,
            least_rounds=positive_integer,
            round_seconds=positive_number,
            least_gain=positive_number,
            gradients_per_nuts_draw=positive_integer,
            learned_steps_per_draw=positive_integer,
        )

    def affordable_rounds(self, nuts_seconds: float) -> int:
        """Return how many rounds may be made before NUTS is the better use of time."""
        affordable = int(self.time_at_stake * nuts_seconds / self.round_seconds)
        return min(self.most_rounds, max(self.least_rounds, affordable))
