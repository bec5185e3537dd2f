"""Checks of the values that a posterior is made of, before any time is spent on sampling."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from nnghmc.errors import PosteriorError
from nnghmc.model.layout import ParameterLayout, named_leaves

RESERVED_AXES = ("chain", "draw")


def checked_layout(initial: PyTree) -> ParameterLayout:
    """Return the layout of the parameters, which must be finite real numbers with usable names."""
    for name, leaf in _named("initial", initial).items():
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


def checked_data(data: PyTree) -> tuple[PyTree, int | None]:
    """Return the data as arrays of JAX, and the number of observations; None without data.

    Arrays of JAX are used as they are: they stay on their devices and are checked there.
    """
    lengths = {name: _checked_length(name, leaf) for name, leaf in _named("data", data).items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise PosteriorError(
            f"data must share the length of their leading axis; got {listed}. Give one row per "
            "observation in every array, or let log_likelihood close over what is no observation."
        )
    if 0 in lengths.values():
        raise PosteriorError("data must have at least one observation, got 0. Use data=None.")
    placed = jax.tree.map(
        lambda leaf: leaf if isinstance(leaf, jax.Array) else jnp.asarray(leaf), data
    )
    return placed, next(iter(lengths.values()), None)


def _checked_length(name: str, leaf: Any) -> int:
    """Return the number of rows of one array of data, if it holds numbers and none is missing."""
    if hasattr(leaf, "to_numpy"):
        raise PosteriorError(
            f"data must be arrays, and {name} is a {type(leaf).__name__}. Give its columns as "
            "arrays, {column: frame[column].to_numpy() for column in frame}."
        )
    values = leaf if isinstance(leaf, jax.Array) else _as_array(leaf)
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
    missing = _number_missing(values)
    if missing:
        raise PosteriorError(
            f"data must not contain NaN; {name} has {missing} of {values.size} values missing. "
            "Drop or impute these observations."
        )
    return int(values.shape[0])


def _number_missing(values: Array | np.ndarray) -> int:
    """Count the NaNs, on the devices where the values are."""
    if not jnp.issubdtype(values.dtype, jnp.floating):
        return 0
    if isinstance(values, jax.Array):
        return int(_count_nan(values))
    return int(np.isnan(values).sum())


@jax.jit
def _count_nan(values: Array) -> Array:
    return jnp.sum(jnp.isnan(values))


def check_names(names: list[str]) -> None:
    """Refuse names of variables that ArviZ, netCDF or a terminal cannot take, or that repeat."""
    for name in names:
        if names.count(name) > 1:
            raise PosteriorError(f"variables must have different names; {name!r} occurs twice.")
        if not name.isprintable():
            raise PosteriorError(
                f"a variable must have a name that can be printed, got {name!r}. Choose another."
            )
        if name in RESERVED_AXES or "/" in name:
            raise PosteriorError(
                f"a variable must not be called {name!r}: ArviZ uses chain and draw for its axes, "
                "and netCDF keeps / for itself. Choose another name."
            )


def checked_mapping(name: str, value: Any) -> dict[str, list]:
    """Return `dims` or `coords` as a plain dictionary of lists."""
    if value is None:
        return {}
    if not isinstance(value, Mapping) or any(isinstance(part, str) for part in value.values()):
        raise PosteriorError(
            f'{name} must be a dictionary of lists, as in {{"beta": ["feature"]}}; got {value!r}.'
        )
    return {key: list(part) for key, part in value.items()}


def checked_arrays(name: str, value: Mapping[str, Any] | None) -> dict[str, np.ndarray]:
    """Return `observed` or `constants` as a dictionary of arrays, after a check of the names."""
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
    reported: Mapping[str, Any],
    carried: Mapping[str, Any],
    dims: Mapping[str, list[str]],
    coords: Mapping[str, list],
) -> None:
    """Refuse names and labels of axes that do not fit the shapes of what the results hold."""
    if not reported:
        raise PosteriorError("constrain must return at least one variable, got none.")
    check_names(list(reported))
    known = {**carried, **reported}
    lengths: dict[str, int] = {}
    for name, axes in dims.items():
        if name not in known:
            raise PosteriorError(
                f"dims must name reported or observed variables ({', '.join(known)}); got {name!r}."
            )
        shape = tuple(known[name].shape)
        if len(axes) != len(shape) or set(axes) & {*RESERVED_AXES, name}:
            raise PosteriorError(
                f"dims must give one name per axis, other than chain and draw and the variable's "
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
    function: str,
    values: Mapping[str, Any],
    observed: Mapping[str, np.ndarray],
    whole: bool = False,
) -> None:
    """Refuse results about observations without their shape, or its first axes unless `whole`."""
    check_names(list(values))
    for name, value in values.items():
        shape = tuple(getattr(value, "shape", ()))
        if name not in observed:
            continue
        expected = observed[name].shape
        if shape != (expected if whole else expected[: len(shape)]):
            rule = "an array like what was observed" if whole else "one number per observation"
            raise PosteriorError(
                f"{function} must return {rule}; {name} was observed with shape {expected}, and "
                f"got {shape}."
            )


def _named(argument: str, tree: PyTree) -> dict[str, Any]:
    try:
        return named_leaves(tree)
    except ValueError:
        raise PosteriorError(
            f"{argument} must have dictionary keys of one type; use names (strings) throughout."
        ) from None


def _as_array(leaf: Any) -> np.ndarray | None:
    try:
        return np.asarray(leaf)
    except (TypeError, ValueError):
        return None


def _is_real(dtype: np.dtype) -> bool:
    return bool(jnp.issubdtype(dtype, jnp.integer) or jnp.issubdtype(dtype, jnp.floating))
