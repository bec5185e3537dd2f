"""Exact Bayesian sampling when the gradient is expensive.

It learns the expensive part of a log posterior, moves on what it has learned, and keeps the
Metropolis test on the true posterior.
"""

from importlib import import_module
from typing import Any

from nnghmc.platform.precision import use_double_precision_unless_told_otherwise

use_double_precision_unless_told_otherwise()

from nnghmc.api import estimate, load, resume, sample  # noqa: E402
from nnghmc.engine import statistics as diagnostics  # noqa: E402
from nnghmc.engine.events import Event, Note  # noqa: E402
from nnghmc.engine.method import Prepared  # noqa: E402
from nnghmc.engine.session import Session  # noqa: E402
from nnghmc.errors import NnghmcError  # noqa: E402
from nnghmc.explore.assessment import Assessment, assess  # noqa: E402
from nnghmc.kernels import Evaluations, Kernel, hmc, simulate, true_gradient_hmc  # noqa: E402
from nnghmc.methods import (  # noqa: E402
    HMC,
    NUTS,
    SGHMC,
    SGLD,
    Auto,
    Method,
    MetropolisSGHMC,
    NaiveSGHMC,
    NNgHMC,
)
from nnghmc.methods.payoff import Estimate  # noqa: E402
from nnghmc.methods.policy import Policy  # noqa: E402
from nnghmc.methods.schedule import TrainingSchedule  # noqa: E402
from nnghmc.model.frontends import (  # noqa: E402
    from_bambi,
    from_callable,
    from_numpyro,
    from_pymc,
)
from nnghmc.model.posterior import Posterior, from_log_density  # noqa: E402
from nnghmc.platform.provenance import provenance  # noqa: E402
from nnghmc.run.comparison import Comparison, compare  # noqa: E402
from nnghmc.run.run import Run  # noqa: E402
from nnghmc.surrogates import (  # noqa: E402
    BlockMLP,
    GaussianProcess,
    GradientData,
    GradientMLP,
    GradientModel,
    PotentialNet,
    Quadratic,
    QuadraticPlus,
    QuadraticPlusProcess,
    RandomBases,
    SparseQuadratic,
    Surrogate,
    SurrogatePosterior,
    Training,
    fit,
    load_surrogate,
)


def __getattr__(name: str) -> Any:
    """Load the figures when they are first asked for: Matplotlib takes a second."""
    if name == "plots":
        return import_module("nnghmc.run.plots")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "HMC",
    "NUTS",
    "SGHMC",
    "SGLD",
    "Assessment",
    "Auto",
    "BlockMLP",
    "Comparison",
    "Estimate",
    "Evaluations",
    "Event",
    "GaussianProcess",
    "GradientData",
    "GradientMLP",
    "GradientModel",
    "Kernel",
    "Method",
    "MetropolisSGHMC",
    "NNgHMC",
    "NaiveSGHMC",
    "NnghmcError",
    "Note",
    "Policy",
    "Posterior",
    "PotentialNet",
    "Prepared",
    "Quadratic",
    "QuadraticPlus",
    "QuadraticPlusProcess",
    "RandomBases",
    "Run",
    "Session",
    "SparseQuadratic",
    "Surrogate",
    "SurrogatePosterior",
    "Training",
    "TrainingSchedule",
    "assess",
    "compare",
    "diagnostics",
    "estimate",
    "fit",
    "from_bambi",
    "from_callable",
    "from_log_density",
    "from_numpyro",
    "from_pymc",
    "hmc",
    "load",
    "load_surrogate",
    "plots",
    "provenance",
    "resume",
    "sample",
    "simulate",
    "true_gradient_hmc",
]
