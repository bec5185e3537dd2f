"""Standard HMC along the true gradient."""

from dataclasses import dataclass
from typing import Any, ClassVar

from nnghmc.engine.session import Session
from nnghmc.kernels import Kernel, TrueGradientHMC
from nnghmc.methods.settings import setting
from nnghmc.methods.tuned import Parts, TunedMethod
from nnghmc.model.posterior import Posterior


@dataclass(frozen=True)
class HMC(TunedMethod):
    """Standard HMC with your own step size and number of steps.

    Args:
        step_size: leapfrog step size ε; from a pair (low, high) it is drawn uniformly per draw.
        num_steps: number L of leapfrog steps per draw, or a pair (low, high). A fixed number can
            resonate: a trajectory of a full period ends where it began.
        warmup: number of warm-up draws per chain, which are not kept.
        inverse_mass_matrix: diagonal (dim,) or dense (dim, dim); None is the identity. Posterior
            variances are a good choice.
    """

    title: ClassVar[str] = "standard HMC"
    inverse_mass_matrix: Any = setting(
        None, "Inverse mass matrix or its diagonal.", option="inverse-mass", kind="matrix"
    )

    def kernel(self, posterior: Posterior, parts: Parts) -> TrueGradientHMC:
        """Return standard HMC."""
        return TrueGradientHMC(posterior.potential_and_gradient, self.tuning(posterior))

    def enter(self, kernel: Kernel, starts: Any, session: Session) -> Any:
        """Return the starts as they are: their true gradient is known."""
        return starts
