"""Exact Bayesian sampling when the gradient is expensive.

Hamiltonian Monte Carlo that learns the gradient of the log posterior, simulates every further
trajectory with the learned one, and keeps the Metropolis test on the true posterior.
"""

from nnghmc.precision import use_double_precision_unless_told_otherwise

use_double_precision_unless_told_otherwise()

from nnghmc.assessment import Assessment, assess  # noqa: E402
from nnghmc.automatic import Automatic  # noqa: E402
from nnghmc.comparison import Comparison, compare  # noqa: E402
from nnghmc.errors import NnghmcError  # noqa: E402
from nnghmc.frontends import from_bambi, from_callable, from_numpyro, from_pymc  # noqa: E402
from nnghmc.kernels import hmc, simulate, true_gradient_hmc  # noqa: E402
from nnghmc.methods import MiniBatches  # noqa: E402
from nnghmc.payoff import Estimate  # noqa: E402
from nnghmc.posterior import Posterior, from_log_density  # noqa: E402
from nnghmc.resuming import resume  # noqa: E402
from nnghmc.run import Run  # noqa: E402
from nnghmc.sampler import estimate, sample  # noqa: E402
from nnghmc.schedule import TrainingSchedule  # noqa: E402
from nnghmc.surrogates import (  # noqa: E402
    BlockMLP,
    GaussianProcess,
    GradientData,
    GradientMLP,
    PotentialNet,
    Quadratic,
    QuadraticPlus,
    RandomBases,
    Surrogate,
    Training,
    fit,
    load_surrogate,
)

__all__ = [
    "Assessment",
    "Automatic",
    "BlockMLP",
    "Comparison",
    "Estimate",
    "GaussianProcess",
    "GradientData",
    "GradientMLP",
    "MiniBatches",
    "NnghmcError",
    "Posterior",
    "PotentialNet",
    "Quadratic",
    "QuadraticPlus",
    "RandomBases",
    "Run",
    "Surrogate",
    "Training",
    "TrainingSchedule",
    "assess",
    "compare",
    "estimate",
    "fit",
    "from_bambi",
    "from_callable",
    "from_log_density",
    "from_numpyro",
    "from_pymc",
    "hmc",
    "load_surrogate",
    "resume",
    "sample",
    "simulate",
    "true_gradient_hmc",
]
