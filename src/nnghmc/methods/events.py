"""Events that record what methods find and decide while they learn."""

from dataclasses import dataclass

from nnghmc.engine.events import Event
from nnghmc.explore.rounds.coverage import Coverage
from nnghmc.platform.text import counted


@dataclass(frozen=True)
class Split(Event):
    """The potential was split into an exact part and an expensive function of some inputs.

    Attributes:
        inputs: number of inputs of the expensive function, which alone is learned.
        dim: number of parameters.
        has_exact_part: whether priors or Jacobians stay exact.
    """

    inputs: int
    dim: int
    has_exact_part: bool

    def __str__(self) -> str:
        if not self.has_exact_part and self.inputs == self.dim:
            return f"learns the whole potential of {counted(self.dim, 'parameter')}"
        exact = "priors and the map to the inputs stay exact"
        return (
            f"learns a function of {counted(self.inputs, 'input')} of the "
            f"{counted(self.dim, 'parameter')}; {exact}"
        )


@dataclass(frozen=True)
class Explored(Event):
    """The chains went downhill, and rounds on the surrogate found out where the mass is.

    Attributes:
        descent_steps: evaluations on the way downhill; each evaluation is for all chains at once.
        rounds: number of rounds.
        points: number of positions at which the truth was asked.
        acceptance: expected acceptance of a draw from the surrogate posterior.
        rhat: largest R-hat of the chains on the surrogate posterior.
    """

    descent_steps: int
    rounds: int
    points: int
    acceptance: float
    rhat: float

    def __str__(self) -> str:
        return (
            f"{counted(self.descent_steps, 'step')} downhill, then {counted(self.rounds, 'round')} "
            f"on the surrogate; the truth was asked at {self.points:,} positions, expected "
            f"acceptance {self.acceptance:.2f}"
        )


@dataclass(frozen=True)
class Covered(Event):
    """The truth was asked in the tails of the surrogate posterior.

    Attributes:
        mass: estimated fraction of the posterior where the surrogate is off by more than the
            tolerance.
        bound: bound that this fraction hardly exceeds.
        points: number of true evaluations behind the statement.
        temperature: temperature of the draws at which the truth was asked.
        tolerance: error of the surrogate potential above which it counts as wrong.
    """

    mass: float
    bound: float
    points: int
    temperature: float
    tolerance: float

    def __str__(self) -> str:
        return (
            f"at most {self.bound:.1%} of the posterior lies where the surrogate is off by more "
            f"than {self.tolerance:.2g}, by {self.points} true evaluations at temperature "
            f"{self.temperature:.2g}"
        )


def covered(cover: Coverage) -> Covered:
    """Return the event for what the truth says of the coverage."""
    return Covered(cover.mass, cover.bound, cover.points, cover.temperature, cover.tolerance)


@dataclass(frozen=True)
class Fitted(Event):
    """A gradient model other than the default was fitted to what the rounds found.

    Attributes:
        model: name of the gradient model.
        gradients: number of true gradients that the model was fitted to.
    """

    model: str
    gradients: int

    def __str__(self) -> str:
        return f"{self.model} was fitted to {self.gradients:,} true gradients"


@dataclass(frozen=True)
class Probed(Event):
    """Some draws of the kernel that makes the kept draws measured its acceptance.

    Attributes:
        acceptance: mean acceptance over all chains.
        worst_chain: acceptance of the chain with the lowest one.
        reused: whether the surrogate was learned in an earlier run.
    """

    acceptance: float
    worst_chain: float
    reused: bool = False

    def __str__(self) -> str:
        which = "the given surrogate" if self.reused else "the surrogate"
        return f"a probe of {which} had a mean acceptance of {self.acceptance:.2f}"


REASONS = {
    "too many inputs": (
        "the expensive function has {value:.0f} inputs, more than can be learned: NUTS samples "
        "instead"
    ),
    "separate modes": (
        "chains arrived in separate modes, with a barrier between them: NUTS samples instead"
    ),
    "chains disagree": (
        "the chains on the surrogate posterior disagree, with R-hat {value:.2f}, as in separate "
        "modes: NUTS samples instead"
    ),
    "nothing learned": "nothing could be learned from the gradients: NUTS samples instead",
    "low acceptance": (
        "the acceptance of the surrogate is too low, {value:.2f}: NUTS samples instead"
    ),
    "closed off": (
        "the surrogate would keep the chains out of places that hold probability mass, also after "
        "the last round: NUTS samples instead"
    ),
    "uncovered": (
        "{value:.1%} of the posterior seems to lie where the surrogate is wrong, also after the "
        "last round: NUTS samples instead"
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
