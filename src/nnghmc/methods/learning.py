"""Shared by methods that learn: models by name, fits that a store remembers, and titles."""

from jaxtyping import PRNGKeyArray

from nnghmc.engine.session import Session
from nnghmc.errors import instance_of, one_of
from nnghmc.model.layout import ParameterLayout
from nnghmc.model.posterior import Posterior
from nnghmc.surrogates import (
    MODELS,
    GradientData,
    GradientModel,
    Surrogate,
    Training,
    fit,
    gradient_model,
)

SHORT_NAMES = {kind.__name__: name for name, kind in MODELS.items()}
"""The short name of each gradient model, by the name of its class."""


def as_model(network: GradientModel | str) -> GradientModel:
    """Return the gradient model of a name, with its defaults, or the given model."""
    if isinstance(network, str):
        return MODELS[one_of("network", network, tuple(MODELS))]()
    return gradient_model("network", network)


def checked_surrogate(surrogate: Surrogate | None, posterior: Posterior) -> None:
    """Raise an error if a surrogate has other parameters than the posterior."""
    if surrogate is not None:
        instance_of("surrogate", surrogate, Surrogate).check_fits(posterior)


def fit_remembered(
    session: Session,
    network: GradientModel,
    data: GradientData,
    key: PRNGKeyArray,
    layout: ParameterLayout,
    training: Training | None = None,
) -> Surrogate:
    """Fit a model to gradient data, or recall the fit if it was made before a stop."""
    session.reporter.note("train")
    with session.timed("train"):
        found: Surrogate = session.once(
            "fit",
            lambda: fit(network, data, key, training, layout),
            lambda surrogate: surrogate.as_arrays(held_out=True),
            lambda arrays: Surrogate.from_arrays(arrays, "the store", layout=layout),
        )
    return found


def titled(title: str, surrogate: Surrogate) -> str:
    """Return a title with the short name of the gradient model, unless it is the default."""
    model = surrogate.report.model
    name = SHORT_NAMES.get(model, model)
    return title if name == "default" else f"{title}, {name}"
