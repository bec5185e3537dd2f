"""Kernels: one Markov transition each, (key, state) -> (state, info)."""

from nnghmc.kernels.base import Evaluations, Kernel
from nnghmc.kernels.defensive_tails import DefensiveTails
from nnghmc.kernels.hmc import HMCInfo, HMCState, hmc, true_gradient_hmc
from nnghmc.kernels.leapfrog import simulate
from nnghmc.kernels.mixture import Mixture
from nnghmc.kernels.nuts import NoUTurn, SurrogateNoUTurn, nuts
from nnghmc.kernels.stochastic import (
    MetropolisSGHMCKernel,
    NaiveSGHMCKernel,
    SGHMCKernel,
    SGLDKernel,
    metropolis_sghmc,
    naive_sghmc,
    sghmc,
    sgld,
)
from nnghmc.kernels.surrogate_transition import SurrogateTransition
from nnghmc.kernels.trajectories import LearnedGradientHMC, TrueGradientHMC
from nnghmc.kernels.tuning import Tuning

__all__ = [
    "DefensiveTails",
    "Evaluations",
    "HMCInfo",
    "HMCState",
    "Kernel",
    "LearnedGradientHMC",
    "MetropolisSGHMCKernel",
    "Mixture",
    "NaiveSGHMCKernel",
    "NoUTurn",
    "SGHMCKernel",
    "SGLDKernel",
    "SurrogateNoUTurn",
    "SurrogateTransition",
    "TrueGradientHMC",
    "Tuning",
    "hmc",
    "metropolis_sghmc",
    "naive_sghmc",
    "nuts",
    "sghmc",
    "sgld",
    "simulate",
    "true_gradient_hmc",
]
