"""A black box: any Python function that returns a log density and its gradient, in NumPy.

Examples are a simulator with adjoints, a Stan model through BridgeStan, and a PyTorch model.
Compiled code calls the function back, for all chains at once: one call per chain gives the
potential and its gradient, or the potential alone. A call that fails is counted as a rejection.
"""

import weakref
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from nnghmc.errors import PosteriorError, positive_integer
from nnghmc.model.blackbox.callbacks import Traceable
from nnghmc.model.blackbox.density import BlackBox, BlackBoxWithPrior, HostFunction
from nnghmc.model.blackbox.evaluation import Evaluation, as_flat
from nnghmc.model.blackbox.first_calls import check_first_calls
from nnghmc.model.blackbox.workers import Processes, Threads, Workers
from nnghmc.model.checks import checked_layout
from nnghmc.model.density import Density
from nnghmc.model.posterior import Posterior
from nnghmc.model.tracing import scalar_type, trace
from nnghmc.platform.precision import position_dtype


def from_callable(
    value_and_grad: Callable[[PyTree], tuple[Any, PyTree]],
    initial_or_dim: PyTree,
    *,
    value: Callable[[PyTree], Any] | None = None,
    log_prior: Callable[[PyTree], Any] | None = None,
    workers: int = 1,
    processes: bool = False,
    constrain: Callable[[PyTree], PyTree] | None = None,
    dims: Mapping[str, Sequence[str]] | None = None,
    coords: Mapping[str, Sequence[Any]] | None = None,
) -> Posterior:
    """Make a posterior from a function outside JAX: NumPy in and out, in double precision.

    Args:
        value_and_grad: `parameters -> (log density, gradient)`. The log density, not the
            potential: no minus sign. The gradient has the form of the parameters. A call that
            raises, or returns something that is not finite, is a rejection; `posterior.calls`
            counts them.
        initial_or_dim: the number of parameters, all of which start at zero; or the parameters
            where chains start, an array, or a dictionary or other pytree of arrays. The function
            gets parameters of that form.
        value: `parameters -> log density`, where that is cheaper without the gradient. A draw
            along a learned gradient calls it once. It must return the same number as
            `value_and_grad`, constants included.
        log_prior: `parameters -> scalar` in JAX, where the prior is known apart. The functions then
            return the log likelihood alone. The prior stays exact, only the log likelihood is
            learned, and what was learned serves under another prior.
        workers: how many chains are evaluated at the same time. More than 1 needs a function that
            several threads may call at once.
        processes: use processes instead of threads as workers: for functions that keep Python
            busy, or that several threads must not call. The functions must be importable.
        constrain: `parameters -> pytree` of what is reported, in NumPy too.
        dims: names of the axes of reported variables, `{"beta": ["feature"]}`.
        coords: labels along those axes, `{"feature": ["age", "income"]}`.

    Making the posterior takes 3 calls at and around the initial point. They check what is returned,
    and warn where the gradient does not belong to the log density.
    """
    _check_functions(value_and_grad, value)
    initial = _initial(initial_or_dim)
    layout = checked_layout(initial)
    evaluation = Evaluation(value_and_grad, value, layout)
    host = HostFunction(_workers(evaluation, workers, processes))
    start = as_flat(initial, layout)
    check_first_calls(host, start)
    likelihood = _density(host)
    density: Density = likelihood
    if log_prior is not None:
        parameters = layout.unflatten(jnp.asarray(start, position_dtype()))
        scalar_type("log_prior", trace("log_prior", log_prior, parameters).result)
        density = BlackBoxWithPrior(likelihood, log_prior, layout)
    return Posterior.over(
        density,
        initial,
        monitor=host.monitor,
        constrain=None if constrain is None else Traceable.of(constrain, layout, start),
        dims=dims,
        coords=coords,
    )


def _check_functions(value_and_grad: Any, value: Any) -> None:
    """Raise an error if one of the functions cannot be called; `value` may be None."""
    for name, function in (("value_and_grad", value_and_grad), ("value", value)):
        if not callable(function) and (name, function) != ("value", None):
            raise PosteriorError(f"{name} must be a function, got {function!r}.")


def _density(host: HostFunction) -> BlackBox:
    """Return a density whose workers end with it.

    Compiled code keeps the host alive, so the workers cannot end with the host.
    """
    density = BlackBox(host)
    weakref.finalize(density, host.workers.close)
    return density


def _initial(initial_or_dim: PyTree) -> PyTree:
    """Return where chains start: as given, or zeros for a number of dimensions."""
    if isinstance(initial_or_dim, Integral) and not isinstance(initial_or_dim, bool):
        return np.zeros(positive_integer("the number of dimensions", initial_or_dim))
    return initial_or_dim


def _workers(evaluation: Evaluation, workers: int, processes: bool) -> Workers:
    number = positive_integer("workers", workers)
    if processes:
        return Processes(evaluation, number)
    return Threads(evaluation, number) if number > 1 else Workers(evaluation)
