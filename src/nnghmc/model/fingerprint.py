"""The fingerprint of a posterior: enough to recognise it, and to tell it from others.

It holds the names and shapes of the parameters, a digest of the data, and at fixed points the log
density and the reported variables.
"""

import hashlib
import json
import warnings
from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from nnghmc.model.posterior import Posterior
from nnghmc.platform.files import digest

SPREADS = (0.0, 0.1, 1.0)
"""Distances of the fixed points from the initial one: near ones are inside the support, and far
ones tell priors apart."""
TOLERANCE = 1e4
"""Largest relative difference of equal numbers, in units of rounding: other machines add up in
another order."""
BLOCK_BYTES = 2**26
"""Upper bound on how much of the data is copied from a device at a time, in bytes."""


def fingerprint(posterior: Posterior, block_bytes: int = BLOCK_BYTES) -> dict[str, Any]:
    """Return what tells this posterior from others, in a form that JSON can hold.

    `block_bytes` bounds how much of the data is copied from a device at a time.
    """
    return {
        "names": list(posterior.layout.names),
        "shapes": [list(shape) for shape in posterior.layout.shapes],
        "precision": str(posterior.initial.dtype),
        "data": _data(posterior, block_bytes),
        "log_densities": _log_densities(posterior),
        "reported": _reported(posterior),
        "labels": digest(json.dumps([posterior.dims, posterior.coords], default=str).encode()),
    }


def difference(stored: dict[str, Any], found: dict[str, Any]) -> str:
    """Say in words how two fingerprints differ; the string is empty where they do not."""
    if stored["precision"] != found["precision"]:
        return f"it was made in {stored['precision']}, and JAX now computes in {found['precision']}"
    if (stored["names"], stored["shapes"]) != (found["names"], found["shapes"]):
        return (
            f"its parameters are {_parameters(stored)}, and those of this posterior are "
            f"{_parameters(found)}"
        )
    if stored["data"] != found["data"]:
        return "its data are different"
    before, now = (np.array(part["log_densities"], float) for part in (stored, found))
    tolerance = TOLERANCE * float(np.finfo(stored["precision"]).eps)
    if not np.allclose(before, now, rtol=tolerance, atol=tolerance, equal_nan=True):
        worst = int(np.argmax(np.nan_to_num(np.abs(before - now), nan=np.inf)))
        return (
            f"its log density at a fixed point was {before[worst]:.10g}, and is {now[worst]:.10g}"
        )
    return _difference_reported(stored, found, tolerance)


def _difference_reported(stored: dict[str, Any], found: dict[str, Any], tolerance: float) -> str:
    """Say how the variables differ that the two report at the same points."""
    before, now = stored["reported"], found["reported"]
    if before.keys() != now.keys():
        return f"it reports {', '.join(before)}, and this posterior {', '.join(now)}"
    for name, values in before.items():
        if not np.allclose(values, now[name], rtol=tolerance, atol=tolerance, equal_nan=True):
            return f"it reports {name} on another scale"
    return "" if stored["labels"] == found["labels"] else "its dims or coords are different"


def _data(posterior: Posterior, block_bytes: int) -> str:
    """Return a digest of all arrays that the potential takes along, read block by block."""
    found = hashlib.sha256()
    for leaf in jax.tree.leaves(posterior.potential):
        if eqx.is_array(leaf):
            for block in _bytes(leaf, block_bytes):
                found.update(block)
    return found.hexdigest()


def _bytes(array: Array | np.ndarray, block_bytes: int) -> Iterator[bytes]:
    """Yield the bytes of an array, copied from its devices block by block."""
    yield f"{array.dtype}{array.shape}".encode()
    if array.nbytes <= block_bytes or not array.ndim:
        yield np.asarray(array).tobytes()
        return
    rows = max(1, block_bytes * len(array) // array.nbytes)
    for start in range(0, len(array), rows):
        yield np.asarray(array[start : start + rows]).tobytes()


def _parameters(part: dict[str, Any]) -> str:
    named = zip(part["names"], part["shapes"], strict=True)
    return ", ".join(f"{name}{shape if shape else ''}" for name, shape in named)


def _log_densities(posterior: Posterior) -> list[float]:
    evaluate = eqx.filter_jit(lambda potential, point: potential(point))
    return [-float(evaluate(posterior.potential, point)) for point in _points(posterior)]


def _reported(posterior: Posterior) -> dict[str, list[float]]:
    """Return the mean over the elements of each reported variable at each point, by name."""
    with warnings.catch_warnings():  # a function outside JAX may fail at such a point: NaN will do
        warnings.simplefilter("ignore")
        values = posterior.variables(np.asarray(_points(posterior)))
    return {name: [float(np.mean(row)) for row in part] for name, part in sorted(values.items())}


def _points(posterior: Posterior) -> Array:
    """Return the initial point and some around it, which are the same in every call."""
    directions = np.random.default_rng(0).normal(size=(len(SPREADS), posterior.dim))
    away = directions * np.array(SPREADS)[:, np.newaxis]
    return jnp.asarray(np.asarray(posterior.initial) + away, posterior.initial.dtype)
