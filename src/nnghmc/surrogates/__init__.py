"""Gradient data in, a frozen gradient out."""

from nnghmc.surrogates.fit import FitReport, LearnedGradient, Surrogate, Training, fit
from nnghmc.surrogates.gradient_data import GradientData
from nnghmc.surrogates.networks import GradientMLP

__all__ = [
    "FitReport",
    "GradientData",
    "GradientMLP",
    "LearnedGradient",
    "Surrogate",
    "Training",
    "fit",
]
