"""Surrogates: gradient models, fitted to gradient data and then frozen."""

from nnghmc.surrogates.data import GradientData
from nnghmc.surrogates.fit import fit
from nnghmc.surrogates.learned import GradientModel, Learned, gradient_model
from nnghmc.surrogates.models.block_mlp import BlockMLP
from nnghmc.surrogates.models.gaussian_process import GaussianProcess
from nnghmc.surrogates.models.gradient_mlp import GradientMLP
from nnghmc.surrogates.models.potential_net import PotentialNet
from nnghmc.surrogates.models.quadratic import Quadratic
from nnghmc.surrogates.models.quadratic_plus import QuadraticPlus
from nnghmc.surrogates.models.quadratic_plus_process import QuadraticPlusProcess
from nnghmc.surrogates.models.random_bases import RandomBases
from nnghmc.surrogates.models.sparse_quadratic import SparseQuadratic
from nnghmc.surrogates.storage import FitReport
from nnghmc.surrogates.surrogate import Surrogate, load_surrogate
from nnghmc.surrogates.surrogate_posterior import SurrogatePosterior
from nnghmc.surrogates.training import Training

MODELS: dict[str, type] = {
    "default": QuadraticPlus,
    "process": QuadraticPlusProcess,
    "mlp": GradientMLP,
    "blocks": BlockMLP,
    "potential": PotentialNet,
    "bases": RandomBases,
    "gp": GaussianProcess,
    "quadratic": Quadratic,
    "sparse": SparseQuadratic,
}
"""Gradient models by their names on the command line. A new one needs a file and a line here."""

__all__ = [
    "MODELS",
    "BlockMLP",
    "FitReport",
    "GaussianProcess",
    "GradientData",
    "GradientMLP",
    "GradientModel",
    "Learned",
    "PotentialNet",
    "Quadratic",
    "QuadraticPlus",
    "QuadraticPlusProcess",
    "RandomBases",
    "SparseQuadratic",
    "Surrogate",
    "SurrogatePosterior",
    "Training",
    "fit",
    "gradient_model",
    "load_surrogate",
]
