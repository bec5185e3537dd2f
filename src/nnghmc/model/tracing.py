"""Checks of the user's functions by tracing: what they return, and what it depends on.

A trace runs no arithmetic, so these checks cost no evaluation. Each function is traced once.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from nnghmc.errors import PosteriorError
from nnghmc.model.density import Density, InMemory, Position, WithoutData
from nnghmc.model.program import CALLS
from nnghmc.platform.explanation import explain
from nnghmc.platform.precision import position_dtype


class Traced(NamedTuple):
    """What a function returns, as a pytree of shapes, and which array arguments it depends on."""

    result: Any
    uses: tuple[bool, ...]


def checked_in_memory(density: InMemory, position: Position) -> float:
    """Return the relative rounding of the log density, after checks of both functions."""
    parameters = density.layout.unflatten(position)
    single = isinstance(density.log_likelihood, WithoutData)
    name = "log_density" if single else "log_likelihood"
    terms = {name: trace(name, density.log_likelihood, parameters, density.data)}
    if density.log_prior is not None:
        terms["log_prior"] = trace("log_prior", density.log_prior, parameters)
    types = [scalar_type(name, term.result) for name, term in terms.items()]
    check_every_parameter_enters(density.layout.names, *terms.values())
    return max(float(jnp.finfo(kind).eps) for kind in types)


def checked_density(density: Density, position: Position) -> float:
    """Return the relative rounding of the potential, after checks of both methods."""
    if not isinstance(density, Density):
        raise PosteriorError(
            "a density must have the methods potential and potential_and_gradient, got "
            f"{density!r}. Write both as functions of a flat position, in an equinox.Module."
        )
    potential = trace("potential", density.potential, position)
    kind = scalar_type("potential", potential.result)
    check_every_parameter_enters(["the position"], potential)
    both = trace("potential_and_gradient", density.potential_and_gradient, position).result
    shapes = jax.tree.map(lambda part: part.shape, both)
    if shapes != ((), position.shape):
        raise PosteriorError(
            "potential_and_gradient must return the potential, one number, and its gradient, an "
            f"array of shape {position.shape}; got the shapes {shapes}."
        )
    return float(jnp.finfo(kind).eps)


def trace(name: str, function: Callable, *arguments: Any) -> Traced:
    """Trace a function of the user, or say what is wrong with it; `name` is for the message."""
    _check_hashable(name, function)
    try:
        # A new function each time: JAX remembers traces, and what is closed over may have changed.
        program, result = jax.make_jaxpr(lambda *parts: function(*parts), return_shape=True)(
            *arguments
        )
    except PosteriorError:
        raise
    except Exception as error:
        raise PosteriorError(
            f"{name} failed at the initial parameters: {explain(error)}."
        ) from error
    outputs = [True] * len(program.jaxpr.outvars)
    return Traced(result, tuple(_inputs_used(program.jaxpr, outputs)))


def scalar_type(name: str, result: Any) -> np.dtype:
    """Return the type of the result of a log density; raise an error if it is not one number."""
    shape = getattr(result, "shape", None)
    if shape == () and jnp.issubdtype(result.dtype, jnp.floating):
        return result.dtype
    if shape == () and result.weak_type:  # a plain number of Python, such as a constant prior
        return position_dtype()
    if shape is None:
        received = f"a {type(result).__name__}"
    elif shape:
        received = f"an array of shape {shape}"
    else:
        received = f"a number of type {result.dtype}"
    raise PosteriorError(
        f"{name} must return one real number, got {received}. "
        "Sum over the observations (and over the parameters) before returning."
    )


def check_every_parameter_enters(names: Sequence[str], *terms: Traced) -> None:
    """Refuse a log density that does not depend on some parameter, which then has no posterior.

    The terms add up to the log density, and their first arguments are the parameters.
    """
    unused = [
        name for place, name in enumerate(names) if not any(term.uses[place] for term in terms)
    ]
    if unused:
        raise PosteriorError(
            "every parameter must enter the log density, or it has no posterior; got a log density "
            f"that does not depend on {', '.join(unused)}. Leave it out, or give it a prior."
        )


def _check_hashable(name: str, function: Callable) -> None:
    """Refuse what compiled code cannot be reused for: arrays are its inputs, all else must hash."""
    if not callable(function):
        raise PosteriorError(f"{name} must be a function, got {function!r}.")
    try:
        leaves, structure = jax.tree.flatten(eqx.filter(function, eqx.is_array, inverse=True))
        hash((structure, *leaves))
    except TypeError:
        raise PosteriorError(
            f"{name} must be hashable, for compiled code to be reused; {function!r} is not. "
            "Use a function, or a frozen dataclass."
        ) from None


def _inputs_used(program: Any, outputs: Sequence[bool]) -> list[bool]:
    """Follow the operations of a program back from some of its outputs to its inputs.

    An operation counts as using all of its inputs, except that the program of a compiled function
    is followed too. So an input may seem to be used that is not, but never the other way round.
    """
    needed = {id(value) for value, used in zip(program.outvars, outputs, strict=True) if used}
    for operation in reversed(program.eqns):
        results = [id(value) in needed for value in operation.outvars]
        if not any(results) and not operation.effects:
            continue
        uses = [True] * len(operation.invars)
        if operation.primitive.name in CALLS and not operation.effects:
            uses = _inputs_used(operation.params["jaxpr"].jaxpr, results)
        needed |= {id(value) for value, used in zip(operation.invars, uses, strict=True) if used}
    return [id(value) in needed for value in program.invars]
