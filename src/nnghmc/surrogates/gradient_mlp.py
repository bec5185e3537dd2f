"""The paper's network: a free vector field between standardised positions and gradients."""

from collections.abc import Callable
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from nnghmc.errors import one_of, positive_integer
from nnghmc.surrogates.gradient_data import GradientData
from nnghmc.surrogates.scaling import Standardisation
from nnghmc.surrogates.training import Training, train

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "silu": jax.nn.silu,
    "relu": jax.nn.relu,
    "softplus": jax.nn.softplus,
    "tanh": jnp.tanh,
}


@dataclass(frozen=True)
class GradientMLP:
    """The paper's network: one hidden layer, a free vector field g(q) = W₂ φ(W₁ q + b₁) + b₂.

    Args:
        hidden: the number h of hidden units.
        activation: φ, one of "silu", "relu", "softplus", "tanh".
    """

    hidden: int = 100
    activation: str = "silu"

    def __post_init__(self) -> None:
        positive_integer("hidden", self.hidden)
        one_of("activation", self.activation, tuple(ACTIVATIONS))

    def learn(
        self, data: GradientData, key: PRNGKeyArray, training: Training
    ) -> tuple["StandardisedNetwork", np.ndarray]:
        """Train on the gradients."""
        positions = Standardisation.of(data.positions)
        gradients = Standardisation.of(data.gradients)
        network, losses = train(
            self,
            positions.apply(data.positions),
            gradients.apply(data.gradients),
            key,
            training,
        )
        return StandardisedNetwork(network, positions, gradients), losses

    def build(self, dim: int, key: PRNGKeyArray) -> eqx.nn.MLP:
        """An untrained network with random weights, in single precision: training needs no more."""
        return eqx.nn.MLP(
            dim,
            dim,
            width_size=self.hidden,
            depth=1,
            activation=ACTIVATIONS[self.activation],
            dtype=jnp.float32,
            key=key,
        )


class StandardisedNetwork(eqx.Module):
    """A trained network between two standardisations. A pytree: compiled code takes it as input."""

    network: Callable[[Array], Array]
    positions: Standardisation
    gradients: Standardisation

    def gradient(self, position: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """The learned gradient g(q)."""
        return self.gradients.undo(self.network(self.positions.apply(position)))
