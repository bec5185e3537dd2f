"""Events that record what methods find and decide while they learn."""

from dataclasses import dataclass
from math import isnan

from nnghmc.engine.events import Event


@dataclass(frozen=True)
class Explored(Event):
    """The chains went downhill and made rounds of standard HMC, to reach the typical set.

    Attributes:
        descent_steps: evaluations on the way downhill; each evaluation is for all chains at once.
        draws: draws per chain by standard HMC after that.
        rhat: largest R-hat over the potential and all coordinates, without the draws of the first
            third of the rounds.
    """

    descent_steps: int
    draws: int
    rhat: float

    def __str__(self) -> str:
        return (
            f"found the typical set after {self.descent_steps} steps downhill and {self.draws} "
            f"draws per chain along the true gradient; R-hat {self.rhat:.2f}"
        )


@dataclass(frozen=True)
class Fitted(Event):
    """A gradient model was fitted.

    Attributes:
        attempt: number of the fit, from 0.
        gradients: number of true gradients that the model was fitted to.
        predicted_acceptance: acceptance predicted from held-out trajectories; NaN if there is none.
    """

    attempt: int
    gradients: int
    predicted_acceptance: float

    def __str__(self) -> str:
        words = f"fitted to {self.gradients:,} true gradients"
        if isnan(self.predicted_acceptance):
            return words
        return f"{words}; predicted acceptance {self.predicted_acceptance:.2f}"


@dataclass(frozen=True)
class Probed(Event):
    """Some draws along the learned gradient measured its acceptance.

    Attributes:
        attempt: number of the fit that was probed.
        acceptance: mean acceptance over all chains.
        worst_chain: acceptance of the chain with the lowest one.
        after: warm-up draws per chain before the probe.
        reused: whether the surrogate was learned in an earlier run.
    """

    attempt: int
    acceptance: float
    worst_chain: float
    after: int
    reused: bool = False

    def __str__(self) -> str:
        which = "the given surrogate" if self.reused else "the learned gradient"
        return f"a probe of {which} had a mean acceptance of {self.acceptance:.2f}"


REASONS = {
    "no step accepted": (
        "almost no step of standard HMC was accepted after the way downhill: nothing is learned, "
        "and NUTS samples from the first starts"
    ),
    "too few trajectories": (
        "there are too few trajectories to learn from in so many dimensions: NUTS samples instead"
    ),
    "chains disagree": (
        "R-hat is still {value:.2f} after the rounds of standard HMC: nothing is learned, and NUTS "
        "samples from the first starts"
    ),
    "gradient not linear": (
        "the gradient is too far from linear to be learned in so short a run: NUTS samples instead"
    ),
    "heavy tails": (
        "the tails are too heavy to be learned in so short a run: NUTS samples instead"
    ),
    "nothing learned": "nothing could be learned from the gradients: NUTS samples instead",
    "low acceptance": (
        "the acceptance of the learned gradient is too low, {value:.2f}: NUTS samples instead"
    ),
    "tails closed off": (
        "the learned gradient would keep the chains out of tails that hold probability mass: NUTS "
        "samples instead"
    ),
}
"""The sentence for each reason to use NUTS instead of a learned gradient."""


@dataclass(frozen=True)
class FellBack(Event):
    """NUTS samples instead of a learned gradient.

    Attributes:
        reason: key of `REASONS`.
        value: number that decided; NaN if there is none.
    """

    reason: str
    value: float = float("nan")

    def __str__(self) -> str:
        return REASONS[self.reason].format(value=self.value)
