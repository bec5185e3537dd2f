"""What a model is checked for when a posterior is made of it, before any time is spent on it."""

from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from nnghmc.errors import PosteriorError, line_in_file
from nnghmc.parameters import ParameterLayout, named_leaves
from nnghmc.precision import position_dtype

RESERVED_AXES = ("chain", "draw")


def checked_layout(initial: PyTree) -> ParameterLayout:
    """The layout of the parameters, if they are finite real numbers under usable names."""
    leaves = _named("initial", initial)
    for name, leaf in leaves.items():
        values = _as_array(leaf)
        if values is None or not _is_real(values.dtype):
            raise PosteriorError(
                f"initial must hold real numbers or arrays of them; {name} is {leaf!r}."
            )
        if not np.all(np.isfinite(values)):
            raise PosteriorError(
                f"initial must be finite; {name} is {values}. Choose a point inside the support."
            )
    layout = ParameterLayout.of(initial)
    if layout.dim == 0:
        raise PosteriorError("initial must hold at least one parameter, got none.")
    check_names(list(layout.names))
    return layout


def checked_num_observations(data: PyTree) -> int | None:
    """The common length of the leading axes, if the data are numbers and none is missing."""
    lengths = {}
    for name, leaf in _named("data", data).items():
        values = _as_array(leaf)
        if values is None or not (_is_real(values.dtype) or values.dtype == bool):
            kind = type(leaf).__name__ if values is None else values.dtype
            raise PosteriorError(
                f"data must be real numbers; {name} is of type {kind}. "
                "Code categories as integers and leave text out."
            )
        if not values.shape:
            raise PosteriorError(
                f"data must be arrays whose leading axis is the observations; {name} is the scalar "
                f"{leaf!r}. Make lists into NumPy arrays; let functions close over fixed numbers."
            )
        _check_no_nan(name, values)
        lengths[name] = values.shape[0]
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise PosteriorError(
            f"data must share the length of their leading axis; got {listed}. Give one row an "
            "observation in every array, or let log_likelihood close over what is no observation."
        )
    if 0 in lengths.values():
        raise PosteriorError("data must have at least one observation, got 0. Use data=None.")
    return next(iter(lengths.values()), None)


def check_names(names: list[str]) -> None:
    """Variables must have different names, which ArviZ and netCDF can bear."""
    for name in names:
        if names.count(name) > 1:
            raise PosteriorError(f"variables must have different names; {name!r} occurs twice.")
        if name in RESERVED_AXES or "/" in name:
            raise PosteriorError(
                f"a variable must not be called {name!r}: ArviZ uses chain and draw for its axes, "
                "and netCDF keeps / for itself. Choose another name."
            )


def checked_mapping(name: str, value: Any) -> dict[str, list]:
    """`dims` or `coords` as plain dictionaries of lists."""
    if value is None:
        return {}
    if not isinstance(value, Mapping) or any(isinstance(part, str) for part in value.values()):
        raise PosteriorError(
            f'{name} must be a dictionary of lists, as in {{"beta": ["feature"]}}; got {value!r}.'
        )
    return {key: list(part) for key, part in value.items()}


def checked_arrays(name: str, value: Mapping[str, Any] | None) -> dict[str, np.ndarray]:
    """`observed` or `constants` as a dictionary of arrays under usable names."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        kind = type(value).__name__
        raise PosteriorError(f'{name} must be a dictionary of arrays, as {{"y": y}}; got a {kind}.')
    arrays = {key: np.asarray(part) for key, part in value.items()}
    check_names(list(arrays))
    for key, part in arrays.items():
        if part.dtype == object:
            raise PosteriorError(f"{name} must hold arrays; {key} is {value[key]!r}.")
    return arrays


def check_labels(
    reported: dict[str, Any],
    observed: dict[str, Any],
    constants: dict[str, Any],
    dims: dict[str, list[str]],
    coords: dict[str, list],
) -> None:
    """Axis names and labels must fit the shapes of what the results hold."""
    if not reported:
        raise PosteriorError("constrain must return at least one variable, got none.")
    check_names(list(reported))
    known = {**constants, **observed, **reported}
    lengths: dict[str, int] = {}
    for name, axes in dims.items():
        if name not in known:
            raise PosteriorError(
                f"dims must name reported or observed variables ({', '.join(known)}); got {name!r}."
            )
        shape = tuple(known[name].shape)
        if len(axes) != len(shape) or set(axes) & {*RESERVED_AXES, name}:
            raise PosteriorError(
                f"dims must give one name an axis, other than chain and draw and the variable's "
                f"own; {name} has shape {shape} and got {axes}."
            )
        lengths.update(zip(axes, shape, strict=True))
    for axis, labels in coords.items():
        if lengths.get(axis) != len(labels):
            raise PosteriorError(
                f"coords must label the axes of dims ({lengths}); got {len(labels)} labels "
                f"for {axis!r}."
            )


def check_results(
    function: str, values: dict[str, Any], observed: dict[str, np.ndarray], whole: bool = False
) -> None:
    """What is told of observations must have their shape, or its first axes unless `whole`."""
    check_names(list(values))
    for name, value in values.items():
        shape = tuple(getattr(value, "shape", ()))
        if name not in observed:
            continue
        wanted = observed[name].shape
        if shape != (wanted if whole else wanted[: len(shape)]):
            rule = "an array like what was observed" if whole else "one number an observation"
            raise PosteriorError(
                f"{function} must return {rule}; {name} was observed with shape {wanted}, and got "
                f"{shape}."
            )


def checked_scalar_type(name: str, function: Callable, *arguments: Any) -> np.dtype:
    """The type of the one real number that a log density must return."""
    result = shapes_of(name, function, *arguments)
    shape = getattr(result, "shape", None)
    if shape == () and jnp.issubdtype(result.dtype, jnp.floating):
        return result.dtype
    if shape == () and result.weak_type:  # a plain number of Python, such as a constant prior
        return position_dtype()
    if shape is None:
        given = f"a {type(result).__name__}"
    elif shape:
        given = f"an array of shape {shape}"
    else:
        given = f"a number of type {result.dtype}"
    raise PosteriorError(
        f"{name} must return one real number, got {given}. "
        "Sum over the observations (and over the parameters) before returning."
    )


def shapes_of(name: str, function: Callable, *arguments: Any) -> Any:
    """The shapes that a function of the user returns, found without running it."""
    if not callable(function):
        raise PosteriorError(f"{name} must be a function, got {function!r}.")
    try:
        leaves, structure = jax.tree.flatten(eqx.filter(function, eqx.is_array, inverse=True))
        hash(
            (structure, *leaves)
        )  # arrays are inputs of compiled code, all else has to be the same
    except TypeError:
        raise PosteriorError(
            f"{name} must be hashable, for compiled code to be reused; {function!r} is not. "
            "Use a function, or a frozen dataclass."
        ) from None
    try:
        return jax.eval_shape(function, *arguments)
    except PosteriorError:
        raise
    except Exception as error:
        raise PosteriorError(
            f"{name} failed at the initial parameters: {explanation(error)}"
        ) from error


def explanation(error: Exception) -> str:
    """What went wrong inside a function of the user, where, and what to do if JAX minds it."""
    trace, file_name = error.__traceback__, ""
    while trace is not None:
        if "site-packages" not in trace.tb_frame.f_code.co_filename:
            file_name = trace.tb_frame.f_code.co_filename
        trace = trace.tb_next
    message = (str(error).strip().splitlines() or ["no message"])[0]
    reason = f"{type(error).__name__}: {message}{line_in_file(error, file_name)}"
    if isinstance(error, jax.errors.JAXTypeError):
        return (
            f"{type(error).__name__}{line_in_file(error, file_name)}. JAX has to trace it: use "
            "jax.numpy and jax.scipy instead of numpy and scipy, and jnp.where instead of if."
        )
    return reason


def _named(what: str, tree: PyTree) -> dict[str, Any]:
    try:
        return named_leaves(tree)
    except ValueError:
        raise PosteriorError(
            f"{what} must have dictionary keys of one type; use names (strings) throughout."
        ) from None


def _as_array(leaf: Any) -> np.ndarray | None:
    try:
        return np.asarray(leaf)
    except (TypeError, ValueError):
        return None


def _is_real(dtype: np.dtype) -> bool:
    return bool(jnp.issubdtype(dtype, jnp.integer) or jnp.issubdtype(dtype, jnp.floating))


def _check_no_nan(name: str, values: np.ndarray) -> None:
    if not jnp.issubdtype(values.dtype, jnp.floating):
        return
    missing = int(np.isnan(values).sum())
    if missing:
        raise PosteriorError(
            f"data must not contain NaN; {name} has {missing} of {values.size} values missing. "
            "Drop or impute these observations."
        )
