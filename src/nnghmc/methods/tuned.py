"""The base class of methods whose tuning the user chooses."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nnghmc.engine.method import Method, Prepared, Starts
from nnghmc.engine.session import Session
from nnghmc.errors import check_fields, natural_number
from nnghmc.kernels import Kernel, Tuning
from nnghmc.methods.settings import setting
from nnghmc.model.posterior import Posterior

Parts = Mapping[str, Any]
"""The parts that a method builds its kernel from, by name."""


@dataclass(frozen=True)
class TunedMethod(Method):
    """A method with the user's step size and number of steps, which it also warms up with.

    Args:
        step_size: leapfrog step size ε; from a pair (low, high) it is drawn uniformly per draw.
        num_steps: number L of leapfrog steps per draw, or a pair (low, high). A fixed number can
            resonate: a trajectory of a full period ends where it began.
        warmup: number of warm-up draws per chain, which are not kept.
    """

    step_size: Any = setting(0.1, "Leapfrog step size.", kind="range")
    num_steps: Any = setting((5, 15), "Leapfrog steps per draw.", kind="range")
    warmup: int = setting(200, "Warm-up draws per chain, which are not kept.")

    def __post_init__(self) -> None:
        check_fields(self, warmup=natural_number)
        Tuning.checked(self.step_size, self.num_steps, None, 1)

    def tuning(self, posterior: Posterior) -> Tuning:
        """Return the tuning for a posterior, checked against its dimensions."""
        matrix = getattr(self, "inverse_mass_matrix", None)
        return Tuning.checked(self.step_size, self.num_steps, matrix, posterior.dim)

    def check(self, posterior: Posterior) -> None:
        """Raise an error if the mass matrix does not fit the dimensions of the posterior."""
        self.tuning(posterior)

    def prepare(self, posterior: Posterior, starts: Starts, session: Session) -> Prepared:
        """Start the chains at the user's positions or the initial point, and warm up."""
        kernel = self.kernel(posterior, {})
        states = self.enter(kernel, starts.at_initial(session), session)
        if self.warmup:
            states, _ = session.advance("warmup", kernel, states, self.warmup)
        return Prepared(states)

    def enter(self, kernel: Kernel, starts: Any, session: Session) -> Any:
        """Return the states of the kernel at the starts of the chains."""
        with session.timed("warmup") as cost:
            states = session.begin(kernel, starts.position, starts.potential)
            cost.count(kernel.entering.times(len(starts.position)))
        return states
