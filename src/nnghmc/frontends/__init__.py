"""Models written elsewhere, as posteriors: one file a front end.

The packages that the models are written in are optional. None is loaded before it is needed, and
one that is missing is named together with how to install it.
"""

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import FunctionType, MethodType, ModuleType
from typing import Any

from nnghmc.errors import PosteriorError
from nnghmc.frontends.callable import from_callable
from nnghmc.posterior import Posterior

__all__ = [
    "as_posterior",
    "from_bambi",
    "from_callable",
    "from_numpyro",
    "from_pymc",
    "run_as_numpyro_model",
]

TITLES = {"bambi": "Bambi", "numpyro": "NumPyro", "pymc": "PyMC"}
MODELS = "a Posterior, a PyMC model, a Bambi model"
ACCEPTED = (
    f"{MODELS}, or a NumPyro model (a function, with its arguments as model_args and model_kwargs)"
)
REMEDY = (
    "Make a Posterior of anything else with nnghmc.Posterior, nnghmc.from_log_density or "
    "nnghmc.from_callable."
)


def from_numpyro(model: Callable[..., Any], *model_args: Any, **model_kwargs: Any) -> Posterior:
    """A posterior from a NumPyro model and its arguments.

    Sites with a bounded support are sampled on the unconstrained scale, with their Jacobians, and
    reported on their own. Deterministic sites are reported; plates become named axes. Arrays among
    the arguments are inputs of compiled code, not constants in it.

    Args:
        model: a function with `numpyro.sample` statements, also under handlers of NumPyro.
        *model_args: its arguments, as for `numpyro.infer.MCMC.run`.
        **model_kwargs: its arguments by name.

    Returns:
        A `Posterior` that also knows the log likelihood of every observation and simulated data.
    """
    return _front_end("numpyro").from_numpyro(model, *model_args, **model_kwargs)


def from_pymc(model: Any) -> Posterior:
    """A posterior from a PyMC model, through PyTensor's translation to JAX.

    Transforms and their Jacobians, deterministics, potentials, named dims and coords are the
    model's own. `pm.Data` and large observed arrays are inputs of compiled code, with the values
    that they have now.

    Args:
        model: a `pymc.Model` whose free variables are all continuous.

    Returns:
        A `Posterior` that also knows the log likelihood of every observation and simulated data.
    """
    return _front_end("pymc").from_pymc(model)


def from_bambi(model: Any) -> Posterior:
    """A posterior from a Bambi model, through the PyMC model that Bambi builds of it.

    Results have the names and dims that `model.fit` gives them: the intercept is that of predictors
    as they are, not centred, and neither the offsets of group effects nor the parameters of every
    single response are among them. `model.predict` takes them.

    Args:
        model: a `bambi.Model`; it is built if it is not yet.

    Returns:
        A `Posterior` that also knows the log likelihood of every observation and simulated data.
    """
    return _front_end("bambi").from_bambi(model)


def as_posterior(
    model: Any, model_args: Sequence[Any] = (), model_kwargs: Mapping[str, Any] | None = None
) -> Posterior:
    """The posterior that a user's object stands for: itself, or a model of a front end."""
    if is_numpyro_model(model):
        return from_numpyro(model, *model_args, **(model_kwargs or {}))
    if not is_model(model):
        kind = f"the class {model.__name__}" if isinstance(model, type) else type(model).__name__
        raise PosteriorError(f"what to sample must be {ACCEPTED}; got {kind}. {REMEDY}")
    if model_args or model_kwargs:
        raise PosteriorError(
            "model_args and model_kwargs are the arguments of a NumPyro model, and a "
            f"{type(model).__name__} takes none; leave them out."
        )
    if isinstance(model, Posterior):
        return model
    return from_bambi(model) if _is_model_of("bambi", model) else from_pymc(model)


def is_model(found: Any) -> bool:
    """Whether it is a posterior, or an object that a front end makes one of."""
    return isinstance(found, Posterior) or any(
        _is_model_of(package, found) for package in ("bambi", "pymc")
    )


def _is_model_of(package: str, found: Any) -> bool:
    """Whether it is the `Model` of a package; there is none before the package is loaded."""
    module = sys.modules.get(package)
    return module is not None and isinstance(found, module.Model)


def is_numpyro_model(model: Any) -> bool:
    """Whether it can be a NumPyro model: a function, a partial of one, or one under handlers."""
    if isinstance(model, FunctionType | MethodType | partial):
        return True
    numpyro = sys.modules.get("numpyro")
    return numpyro is not None and isinstance(model, numpyro.primitives.Messenger)


def run_as_numpyro_model(function: Callable[[], Any]) -> tuple[bool, Any]:
    """Call a function without arguments: whether it has sites of NumPyro, and what it returned."""
    if "numpyro" not in sys.modules:
        return False, function()
    return _front_end("numpyro").traced(function)


def _front_end(package: str) -> ModuleType:
    """The module of a front end, or what to install for it."""
    try:
        importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        title = TITLES[package]
        raise PosteriorError(
            f"a {title} model needs {title}, which is not installed; install it with "
            f'pip install "nnghmc[{package}]".'
        ) from None
    return importlib.import_module(f"{__name__}.{package}")
