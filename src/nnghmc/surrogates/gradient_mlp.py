"""The paper's network: a free vector field between standardised positions and gradients."""

from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from nnghmc.surrogates.gradient_data import GradientData
from nnghmc.surrogates.layers import Hidden, Layers, checked_activation, checked_hidden
from nnghmc.surrogates.learned import Learned, Learning
from nnghmc.surrogates.scaling import Standardisation
from nnghmc.surrogates.training import Trainable, Trained, Training, train
from nnghmc.surrogates.whitening import Whitening


class NetworkGradient(Learned):
    """Layers from q - m to the gradient, every scaling absorbed into their weights."""

    centre: Float[Array, " dim"]
    layers: Layers

    @classmethod
    def between(
        cls, positions: Standardisation, layers: Layers, gradients: Standardisation
    ) -> "NetworkGradient":
        """Layers that were trained from standardised positions to standardised gradients."""
        first = layers.weights[0] / positions.scale
        layers = layers.with_first(first, layers.biases[0])
        weight, bias = layers.weights[-1], layers.biases[-1]
        scale = gradients.scale
        return cls(
            positions.mean,
            layers.with_last(scale[:, jnp.newaxis] * weight, scale * bias + gradients.mean),
        )

    def gradient(self, position: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """The learned gradient g(q)."""
        return self.layers(position - self.centre)

    def under(self, whitening: Whitening) -> "NetworkGradient":
        """The linear map absorbed into the first and the last layer."""
        first, bias = self.layers.weights[0], self.layers.biases[0]
        layers = self.layers.with_first(whitening.pull(first), bias - first @ self.centre)
        last, bias = layers.weights[-1], layers.biases[-1]
        layers = layers.with_last(whitening.pull(last.T).T, whitening.pull(bias))
        return NetworkGradient(jnp.asarray(whitening.centre), layers)


@dataclass(frozen=True)
class GradientMLP:
    """The paper's network, a free vector field: g(q) = W₂ φ(W₁ q + b₁) + b₂, or deeper.

    Args:
        hidden: the number h of hidden units, or that of each of several hidden layers.
        activation: φ, one of "silu", "relu", "softplus", "tanh".
    """

    hidden: Hidden = 100
    activation: str = "silu"
    training: ClassVar[Training] = Training()

    def __post_init__(self) -> None:
        object.__setattr__(self, "hidden", checked_hidden(self.hidden))
        checked_activation(self.activation)

    def learn(
        self,
        data: GradientData,
        held_out: GradientData | None,
        key: PRNGKeyArray,
        training: Training,
    ) -> Learning:
        """Train on the gradients."""
        positions, trained, gradients = train_standardised(self, data, held_out, key, training)
        learned = NetworkGradient.between(positions, trained.network, gradients)
        return Learning(learned, trained.losses, trained.held_out_losses)

    def build(self, dim: int, key: PRNGKeyArray) -> Layers:
        """An untrained network with random weights."""
        return Layers.random((dim, *self.hidden, dim), self.activation, key)  # type: ignore[misc]

    def loss(self, network: Layers, row: PyTree) -> Array:
        """The mean squared error of a standardised gradient."""
        return jnp.mean((network(row["inputs"]) - row["outputs"]) ** 2)


def train_standardised(
    model: Trainable,
    data: GradientData,
    held_out: GradientData | None,
    key: PRNGKeyArray,
    training: Training,
) -> tuple[Standardisation, Trained, Standardisation]:
    """Train a free vector field from standardised positions to standardised gradients."""
    positions = Standardisation.of(data.positions)
    gradients = Standardisation.of(data.gradients)

    def rows(part: GradientData) -> dict[str, np.ndarray]:
        return {
            "inputs": positions.apply(part.positions),
            "outputs": gradients.apply(part.gradients),
        }

    unseen = None if held_out is None else rows(held_out)
    return positions, train(model, rows(data), unseen, key, training), gradients
