"""The fingerprint of a posterior: enough to tell whether another one is the same.

Names and shapes of the parameters, the bytes of the data, and the log density at fixed points.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from nnghmc.files import digest
from nnghmc.posterior import Posterior

SPREADS = (0.0, 0.1, 1.0)
"""Of the points around the initial one: some must be inside the support, some tell priors apart."""
TOLERANCE = 1e4
"""In units of rounding: another machine adds up in another order."""


def fingerprint(posterior: Posterior) -> dict[str, Any]:
    """What tells this posterior from others, as JSON can hold it."""
    arrays = [leaf for leaf in jax.tree.leaves(posterior.potential) if eqx.is_array(leaf)]
    return {
        "names": list(posterior.layout.names),
        "shapes": [list(shape) for shape in posterior.layout.shapes],
        "precision": str(posterior.initial.dtype),
        "data": digest(*(part for array in arrays for part in _bytes(np.asarray(array)))),
        "log_densities": _log_densities(posterior),
    }


def difference(stored: dict[str, Any], found: dict[str, Any]) -> str:
    """What differs between two fingerprints, in words; empty if nothing does."""
    if stored["precision"] != found["precision"]:
        return f"it was made in {stored['precision']}, and JAX now computes in {found['precision']}"
    if (stored["names"], stored["shapes"]) != (found["names"], found["shapes"]):
        return (
            f"its parameters are {_parameters(stored)}, and those of this posterior are "
            f"{_parameters(found)}"
        )
    if stored["data"] != found["data"]:
        return "its data are others"
    values = (np.array(part["log_densities"], float) for part in (stored, found))
    before, now = values
    tolerance = TOLERANCE * float(np.finfo(stored["precision"]).eps)
    if not np.allclose(before, now, rtol=tolerance, atol=tolerance, equal_nan=True):
        worst = int(np.argmax(np.nan_to_num(np.abs(before - now), nan=np.inf)))
        return (
            f"its log density at a fixed point was {before[worst]:.10g}, and is {now[worst]:.10g}"
        )
    return ""


def _bytes(array: np.ndarray) -> tuple[bytes, bytes]:
    return f"{array.dtype}{array.shape}".encode(), np.ascontiguousarray(array).tobytes()


def _parameters(of: dict[str, Any]) -> str:
    named = zip(of["names"], of["shapes"], strict=True)
    return ", ".join(f"{name}{shape if shape else ''}" for name, shape in named)


def _log_densities(posterior: Posterior) -> list[float]:
    """At the initial point and at some around it, which are the same in every call."""
    directions = np.random.default_rng(0).normal(size=(len(SPREADS), posterior.dim))
    away = directions * np.array(SPREADS)[:, np.newaxis]
    points = jnp.asarray(np.asarray(posterior.initial) + away, posterior.initial.dtype)
    evaluate = eqx.filter_jit(lambda potential, point: potential(point))
    return [-float(evaluate(posterior.potential, point)) for point in points]
