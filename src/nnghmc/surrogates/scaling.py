"""Standardisation: coordinates with mean zero and unit standard deviation."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from nnghmc.surrogates.storable import Storable


class Standardisation(Storable):
    """Subtract a mean, divide by a scale; a constant coordinate keeps the scale one."""

    mean: Float[Array, " dim"]
    scale: Float[Array, " dim"]

    @classmethod
    def of(cls, values: np.ndarray) -> "Standardisation":
        """The standardisation of the columns of `values`."""
        spread = values.std(axis=0)
        return cls(jnp.asarray(values.mean(axis=0)), jnp.asarray(np.where(spread > 0, spread, 1.0)))

    def apply(self, values: Any) -> Any:
        """To the standard scale; NumPy arrays stay on the host."""
        if isinstance(values, np.ndarray):
            return (values - np.asarray(self.mean)) / np.asarray(self.scale)
        return (values - self.mean) / self.scale

    def undo(self, values: Array) -> Array:
        """Back to the natural scale."""
        return values * self.scale + self.mean
