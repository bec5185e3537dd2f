"""Leapfrog along mini-batch gradients with no correction, for comparison: it is not exact."""

from dataclasses import dataclass
from typing import Any, ClassVar

from nnghmc.kernels import NaiveSGHMCKernel
from nnghmc.methods.settings import setting
from nnghmc.methods.stochastic.mini_batches import MiniBatchMethod
from nnghmc.methods.tuned import Parts
from nnghmc.model.posterior import Posterior


@dataclass(frozen=True)
class NaiveSGHMC(MiniBatchMethod):
    """Leapfrog along mini-batch gradients that accepts every proposal. It is not exact.

    Args:
        step_size: leapfrog step size ε; from a pair (low, high) it is drawn uniformly per draw.
        num_steps: number L of leapfrog steps per draw, or a pair (low, high).
        warmup: number of warm-up draws per chain, which are not kept.
        batch_size: number of rows per mini-batch; each gradient draws them with replacement.
        inverse_mass_matrix: diagonal (dim,) or dense (dim, dim); None is the identity.
    """

    title: ClassVar[str] = "naive SGHMC"
    exact: ClassVar[bool] = False
    inverse_mass_matrix: Any = setting(
        None, "Inverse mass matrix or its diagonal.", option="inverse-mass", kind="matrix"
    )

    def kernel(self, posterior: Posterior, parts: Parts) -> NaiveSGHMCKernel:
        """Return leapfrog without a Metropolis test."""
        return NaiveSGHMCKernel(posterior.batch_gradient(self.batch_size), self.tuning(posterior))
