"""Stochastic-gradient Langevin dynamics, for comparison: it is not exact."""

from dataclasses import dataclass
from typing import ClassVar

from nnghmc.kernels import SGLDKernel
from nnghmc.methods.stochastic.mini_batches import MiniBatchMethod
from nnghmc.methods.tuned import Parts
from nnghmc.model.posterior import Posterior


@dataclass(frozen=True)
class SGLD(MiniBatchMethod):
    """Stochastic-gradient Langevin dynamics (Welling and Teh). It is not exact.

    Args:
        step_size: step size h, half of Welling and Teh's ε; from a pair (low, high) it is drawn
            uniformly per draw.
        num_steps: number of steps per draw, or a pair (low, high).
        warmup: number of warm-up draws per chain, which are not kept.
        batch_size: number of rows per mini-batch; each gradient draws them with replacement.
    """

    title: ClassVar[str] = "SGLD"
    exact: ClassVar[bool] = False

    def kernel(self, posterior: Posterior, parts: Parts) -> SGLDKernel:
        """Return Langevin dynamics along mini-batch gradients."""
        return SGLDKernel(posterior.batch_gradient(self.batch_size), self.tuning(posterior))
