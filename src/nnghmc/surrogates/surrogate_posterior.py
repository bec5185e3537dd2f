"""The surrogate posterior: the exact part of a posterior, and a learned function of its inputs."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from nnghmc.model.split import Split
from nnghmc.surrogates.learned import Learned


class SurrogatePosterior(eqx.Module):
    """The density exp(-Ũ(q) / temperature), whose Ũ takes no true evaluation.

    Above a temperature of 1 its draws also go where the surrogate says that there is little.
    """

    split: Split
    learned: Learned
    temperature: Float[Array, ""] | float = eqx.field(
        converter=lambda value: jnp.asarray(value, float), default=1.0
    )

    @property
    def conservative(self) -> bool:
        """Whether there is a potential, and not a gradient alone."""
        return self.learned.conservative

    def potential_and_gradient(
        self, position: Float[Array, " dim"]
    ) -> tuple[Float[Array, ""], Float[Array, " dim"]]:
        """Return Ũ(q) / temperature and its gradient."""
        found = self.split.with_function(position, self.learned.potential_and_gradient)
        return found[0] / self.temperature, found[1] / self.temperature

    def potential(self, position: Float[Array, " dim"]) -> Float[Array, ""]:
        """Return Ũ(q) / temperature."""
        learned = self.learned.potential(self.split.inputs(position))
        return (self.split.exact(position) + learned) / self.temperature

    def gradient(self, position: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """Return ∇Ũ(q) / temperature, also where the learned gradient has no potential."""

        def learned(inputs: Array) -> tuple[Array, Array]:
            return jnp.zeros((), inputs.dtype), self.learned.gradient(inputs)

        return self.split.with_function(position, learned)[1] / self.temperature

    def at_temperature(self, temperature: float) -> "SurrogatePosterior":
        """Return the same surrogate posterior at another temperature."""
        return SurrogatePosterior(self.split, self.learned, temperature)


def inputs_and_exact(split: Split, position: Array) -> tuple[Array, Array]:
    """Return s(q) and the exact part of the potential, which are cheap."""
    return split.inputs(position), split.exact(position)


def pulled_back(split: Split, position: Array, gradient: Array) -> Array:
    """Return the gradient of the potential, from that of the expensive function in its inputs."""
    return split.with_function(position, lambda _: (jnp.zeros(()), gradient))[1]
