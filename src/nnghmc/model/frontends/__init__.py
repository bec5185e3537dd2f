"""Models written elsewhere, as posteriors: one file per front end, listed in `registry`.

The packages that the models are written in are optional. None is loaded before it is needed, and
a message names one that is missing and says how to install it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nnghmc.errors import PosteriorError
from nnghmc.model.blackbox.function import from_callable
from nnghmc.model.frontends.registry import (
    FRONT_ENDS,
    MODEL_FUNCTIONS,
    MODELS,
    front_end_of,
    is_model,
)
from nnghmc.model.posterior import Posterior

__all__ = [
    "MODELS",
    "MODEL_FUNCTIONS",
    "as_posterior",
    "from_bambi",
    "from_callable",
    "from_numpyro",
    "from_pymc",
    "is_model",
]

REMEDY = (
    "Make a Posterior of anything else with nnghmc.Posterior, nnghmc.from_log_density or "
    "nnghmc.from_callable."
)


def from_numpyro(model: Callable[..., Any], *model_args: Any, **model_kwargs: Any) -> Posterior:
    """Make a posterior from a NumPyro model and its arguments.

    Sites with a bounded support are sampled on the unconstrained scale, with their Jacobians, and
    reported on their own. Deterministic sites are reported; plates become named axes. Arrays among
    the arguments are inputs of compiled code, not constants in it.

    Args:
        model: a function with `numpyro.sample` statements, also under handlers of NumPyro.
        *model_args: its arguments, as for `numpyro.infer.MCMC.run`.
        **model_kwargs: its arguments by name.

    Returns:
        A `Posterior` that also knows the log likelihood of every observation and simulates data.
    """
    return FRONT_ENDS["numpyro"].posterior(model, *model_args, **model_kwargs)


def from_pymc(model: Any) -> Posterior:
    """Make a posterior from a PyMC model, through PyTensor's translation to JAX.

    Transforms and their Jacobians, deterministics, `pm.Potential` terms, dims and coords are those
    of the model. Arrays of at least 64 elements, from `pm.Data` or observed, are inputs of
    compiled code where the model allows it. All data have the values of the time of this call.

    Args:
        model: a `pymc.Model` whose free variables are all continuous.

    Returns:
        A `Posterior` that also knows the log likelihood of every observation and simulates data.
    """
    return FRONT_ENDS["pymc"].posterior(model)


def from_bambi(model: Any) -> Posterior:
    """Make a posterior from a Bambi model, through the PyMC model that Bambi builds from it.

    Results have the names and dims that `model.fit` gives them. The intercept is that of the
    predictors as they are, not centred. The offsets of group effects and the parameters of every
    single response are left out. `model.predict` takes the results.

    Args:
        model: a `bambi.Model`; it is built if it is not yet.

    Returns:
        A `Posterior` that also knows the log likelihood of every observation and simulates data.
    """
    return FRONT_ENDS["bambi"].posterior(model)


def as_posterior(
    model: Any, model_args: Sequence[Any] = (), model_kwargs: Mapping[str, Any] | None = None
) -> Posterior:
    """Return the posterior that a user's object stands for: itself, or a model of a front end."""
    front_end = None if isinstance(model, Posterior) else front_end_of(model)
    if front_end is None and not isinstance(model, Posterior):
        kind = f"the class {model.__name__}" if isinstance(model, type) else type(model).__name__
        raise PosteriorError(
            f"what to sample must be {MODELS}, or {MODEL_FUNCTIONS} (a function, with its "
            f"arguments as model_args and model_kwargs); got {kind}. {REMEDY}"
        )
    if (model_args or model_kwargs) and not (front_end and front_end.takes_arguments):
        raise PosteriorError(
            f"model_args and model_kwargs are the arguments of {MODEL_FUNCTIONS}, and a "
            f"{type(model).__name__} takes none; leave them out."
        )
    if front_end is None:
        return model
    return front_end.posterior(model, *model_args, **(model_kwargs or {}))
