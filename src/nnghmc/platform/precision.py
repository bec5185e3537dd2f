"""Floating-point precision: double by default, and a warning where single is too coarse.

The Metropolis test compares two potentials that grow with the data, and needs their difference to
about 0.01. Importing the package therefore switches JAX to double precision, as Stan and PyMC
users know it. Set the environment variable JAX_ENABLE_X64=0 to stay in single precision.
"""

import os

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

LARGEST_HARMLESS_NOISE = 0.01
"""Largest rounding error of the potential that does not affect the Metropolis test."""


def use_double_precision_unless_told_otherwise() -> None:
    """Switch JAX to double precision, unless the environment variable JAX_ENABLE_X64 is set."""
    if "JAX_ENABLE_X64" not in os.environ:
        jax.config.update("jax_enable_x64", True)


def position_dtype() -> jnp.dtype:
    """Return the type of positions and energies: float64, or float32 in single precision."""
    return jnp.dtype(jnp.result_type(float))


def energy_noise(potentials: Array, relative_rounding: float) -> tuple[str, str] | None:
    """Return what rounding does to potentials of this size and the remedy; None if harmless."""
    size = float(np.max(np.abs(np.asarray(potentials))))
    noise = size * relative_rounding
    if noise <= LARGEST_HARMLESS_NOISE:
        return None
    return (
        f"the potential is about {size:.3g} and is rounded to {noise:.2g}, but the Metropolis test "
        f"needs it to {LARGEST_HARMLESS_NOISE}",
        "compute the log density in double precision: unset JAX_ENABLE_X64, and cast nothing to "
        "float32",
    )
