"""Shared by methods that learn: models by name, checks of surrogates, kernels and titles."""

from nnghmc.errors import instance_of, one_of
from nnghmc.kernels import (
    DefensiveTails,
    Kernel,
    LearnedGradientHMC,
    Mixture,
    SurrogateTransition,
    TrueGradientHMC,
)
from nnghmc.methods.tuned import Parts
from nnghmc.model.posterior import Posterior
from nnghmc.surrogates import MODELS, GradientModel, Surrogate, gradient_model

SHORT_NAMES = {kind.__name__: name for name, kind in MODELS.items()}
"""The short name of each gradient model, by the name of its class."""


USUAL = ("default", "process")
"""Models that a title does not name: the defaults of `NNgHMC` and of the automatic run."""


def as_model(network: GradientModel | str) -> GradientModel:
    """Return the gradient model of a name, with its defaults, or the given model."""
    if isinstance(network, str):
        return MODELS[one_of("network", network, tuple(MODELS))]()
    return gradient_model("network", network)


def checked_surrogate(surrogate: Surrogate | None, posterior: Posterior) -> None:
    """Raise an error if a surrogate has other parameters than the posterior."""
    if surrogate is not None:
        instance_of("surrogate", surrogate, Surrogate).check_fits(posterior)


def automatic_kernel(posterior: Posterior, parts: Parts, true_share: float) -> Kernel:
    """Return a mixture of the surrogate transition and of HMC along the true gradient.

    A surrogate without a potential has no surrogate transition: HMC follows its gradient.
    """
    surrogate = parts["surrogate"].on(posterior)
    usual: Kernel
    if surrogate.conservative:
        field = surrogate.potential_and_gradient
        usual = SurrogateTransition(
            posterior.potential,
            field,
            parts["tuning"],
            parts["transitions"],
            DefensiveTails(*parts["tails"]),
        )
    else:
        usual = LearnedGradientHMC(posterior.potential, surrogate.gradient, parts["tuning"])
    rare = TrueGradientHMC(posterior.potential_and_gradient, parts["true_tuning"])
    return Mixture(usual, rare, true_share)


def titled(title: str, surrogate: Surrogate) -> str:
    """Return a title with the short name of the gradient model, unless it is the default."""
    model = surrogate.report.model
    name = SHORT_NAMES.get(model, model)
    return title if name in USUAL else f"{title}, {name}"
