"""Standardises coordinates to mean zero and unit standard deviation."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from nnghmc.surrogates.parts.storable import Storable


class Standardisation(Storable):
    """The map that subtracts a mean and divides by a scale; the scale of a constant is one."""

    mean: Float[Array, " dim"]
    scale: Float[Array, " dim"]

    @classmethod
    def of(cls, values: np.ndarray) -> "Standardisation":
        """Compute the standardisation of the columns of `values`."""
        spread = values.std(axis=0)
        return cls(jnp.asarray(values.mean(axis=0)), jnp.asarray(np.where(spread > 0, spread, 1.0)))

    def apply(self, values: Any) -> Any:
        """Standardise values; NumPy arrays stay NumPy arrays."""
        if isinstance(values, np.ndarray):
            return (values - np.asarray(self.mean)) / np.asarray(self.scale)
        return (values - self.mean) / self.scale

    def undo(self, values: Array) -> Array:
        """Map standardised values back to the natural scale."""
        return values * self.scale + self.mean
