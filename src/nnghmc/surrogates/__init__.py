"""Gradient data in, a frozen gradient out."""

from nnghmc.surrogates.fit import FitReport, GradientModel, LearnedGradient, Surrogate, fit
from nnghmc.surrogates.gradient_data import GradientData
from nnghmc.surrogates.gradient_mlp import GradientMLP
from nnghmc.surrogates.quadratic import Quadratic
from nnghmc.surrogates.training import Training

__all__ = [
    "FitReport",
    "GradientData",
    "GradientMLP",
    "GradientModel",
    "LearnedGradient",
    "Quadratic",
    "Surrogate",
    "Training",
    "fit",
]
