"""One Markov transition each: (key, state) -> (state, info)."""

from nnghmc.kernels.hmc import HMCInfo, HMCState, hmc, probing_hmc, true_gradient_hmc
from nnghmc.kernels.leapfrog import simulate
from nnghmc.kernels.nuts import nuts
from nnghmc.kernels.stochastic import metropolis_sghmc, naive_sghmc, sghmc, sgld
from nnghmc.kernels.tuning import Tuning

__all__ = [
    "HMCInfo",
    "HMCState",
    "Tuning",
    "hmc",
    "metropolis_sghmc",
    "naive_sghmc",
    "nuts",
    "probing_hmc",
    "sghmc",
    "sgld",
    "simulate",
    "true_gradient_hmc",
]
