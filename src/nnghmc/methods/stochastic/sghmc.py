"""Stochastic-gradient HMC with friction, for comparison: it is not exact."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from nnghmc.errors import SettingsError, check_fields, positive_number
from nnghmc.kernels import SGHMCKernel
from nnghmc.methods.settings import setting
from nnghmc.methods.stochastic.mini_batches import MiniBatchMethod
from nnghmc.methods.tuned import Parts
from nnghmc.model.posterior import Posterior


@dataclass(frozen=True)
class SGHMC(MiniBatchMethod):
    """Stochastic-gradient HMC with friction (Chen, Fox and Guestrin). It is not exact.

    Args:
        step_size: step size ε; from a pair (low, high) it is drawn uniformly per draw.
        num_steps: number of steps per draw, or a pair (low, high).
        warmup: number of warm-up draws per chain, which are not kept.
        batch_size: number of rows per mini-batch; each gradient draws them with replacement.
        friction: friction per unit of time, the rate at which noise replaces momentum.
        noise: estimated variance of the noise of the gradient; so much less noise is injected. Most
            applications use 0.
    """

    title: ClassVar[str] = "SGHMC with friction"
    exact: ClassVar[bool] = False
    friction: float = setting(1.0, "Friction of SGHMC.")
    noise: float = setting(0.0, "Estimated variance of the gradient's noise.")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fields(self, friction=positive_number, noise=_not_negative)
        largest = float(np.max(self.step_size))
        if self.noise * largest > 2 * self.friction:
            raise SettingsError(
                f"noise must be at most 2 friction / step_size, {2 * self.friction / largest:g} "
                f"here, got {self.noise:g}; use a smaller one, or a smaller step_size."
            )

    def kernel(self, posterior: Posterior, parts: Parts) -> SGHMCKernel:
        """Return Hamiltonian dynamics with friction along mini-batch gradients."""
        gradient = posterior.batch_gradient(self.batch_size)
        return SGHMCKernel(gradient, self.tuning(posterior), self.friction, self.noise)


def _not_negative(name: str, value: Any) -> float:
    return 0.0 if isinstance(value, int | float) and value == 0 else positive_number(name, value)
