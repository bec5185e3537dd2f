"""Gradient data in, a frozen gradient out."""

from nnghmc.surrogates.block_mlp import BlockMLP
from nnghmc.surrogates.fit import fit, fitted_before
from nnghmc.surrogates.gaussian_process import GaussianProcess
from nnghmc.surrogates.gradient_data import GradientData
from nnghmc.surrogates.gradient_mlp import GradientMLP
from nnghmc.surrogates.learned import GradientModel, Learned, gradient_model
from nnghmc.surrogates.potential_net import PotentialNet
from nnghmc.surrogates.quadratic import Quadratic
from nnghmc.surrogates.quadratic_plus import QuadraticPlus
from nnghmc.surrogates.random_bases import RandomBases
from nnghmc.surrogates.storage import FitReport
from nnghmc.surrogates.surrogate import Surrogate, load_surrogate
from nnghmc.surrogates.training import Training

MODELS: dict[str, type] = {
    "default": QuadraticPlus,
    "mlp": GradientMLP,
    "blocks": BlockMLP,
    "potential": PotentialNet,
    "bases": RandomBases,
    "gp": GaussianProcess,
    "quadratic": Quadratic,
}
"""Every gradient model, by its name on the command line. A new one is one file and a line here."""

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
    "RandomBases",
    "Surrogate",
    "Training",
    "fit",
    "fitted_before",
    "gradient_model",
    "load_surrogate",
]
