"""Fits that a store remembers."""

from jaxtyping import PRNGKeyArray

from nnghmc.engine.session import Session
from nnghmc.model.layout import ParameterLayout
from nnghmc.surrogates import GradientData, GradientModel, Learned, Surrogate, Training, fit


def fit_remembered(
    session: Session,
    network: GradientModel,
    data: GradientData,
    key: PRNGKeyArray,
    layout: ParameterLayout | None,
    training: Training | None = None,
    before: Learned | None = None,
) -> Surrogate:
    """Fit a model to gradient data, or recall the fit if it was made before a stop."""
    session.reporter.note("train")
    with session.timed("train"):
        found: Surrogate = session.once(
            "fit",
            lambda: fit(network, data, key, training, layout, before),
            lambda surrogate: surrogate.as_arrays(held_out=True),
            lambda arrays: Surrogate.from_arrays(arrays, "the store", layout=layout),
        )
    return found
