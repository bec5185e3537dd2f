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


def use_double_precision_unless_told_otherwise() -> None:
    """Switch JAX to double precision, unless the environment decides it."""
    if "JAX_ENABLE_X64" not in os.environ:
        jax.config.update("jax_enable_x64", True)


def position_dtype() -> jnp.dtype:
    """The type of positions and energies: float64, or float32 where JAX is in single precision."""
    return jnp.dtype(jnp.result_type(float))


def energy_noise_message(potentials: Array, relative_rounding: float) -> str | None:
    """Say so if rounding alone moves potentials of this size by more than the test can bear."""
    size = float(np.max(np.abs(np.asarray(potentials))))
    noise = size * relative_rounding
    if noise <= LARGEST_HARMLESS_NOISE:
        return None
    return (
        f"the potential is about {size:.3g} and is rounded to {noise:.2g}, where the Metropolis "
        f"test needs {LARGEST_HARMLESS_NOISE}. Compute the log density in double precision: unset "
        "JAX_ENABLE_X64, and cast nothing to float32."
    )
