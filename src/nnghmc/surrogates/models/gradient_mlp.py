"""The paper's network: a free vector field from standardised positions to gradients."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from nnghmc.surrogates.data import GradientData
from nnghmc.surrogates.learned import Learned, Learning
from nnghmc.surrogates.parts.layers import Hidden, Layers, checked_activation, checked_hidden
from nnghmc.surrogates.parts.scaling import Standardisation
from nnghmc.surrogates.parts.whitening import Whitening
from nnghmc.surrogates.training import Lesson, Trainable, Training, train


class NetworkGradient(Learned):
    """Layers from q - m to the gradient, with all scalings absorbed into their weights."""

    centre: Float[Array, " dim"]
    layers: Layers

    @classmethod
    def between(
        cls, positions: Standardisation, layers: Layers, gradients: Standardisation
    ) -> "NetworkGradient":
        """Absorb both standardisations into layers that were trained between them."""
        layers = layers.before_first(lambda weight: weight / positions.scale)
        layers = layers.after_last(lambda output: gradients.scale * output, gradients.mean)
        return cls(positions.mean, layers)

    def gradient(self, position: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """Evaluate the learned gradient g(q)."""
        return self.layers(position - self.centre)

    def under(self, whitening: Whitening) -> "NetworkGradient":
        """Absorb the linear map into the first and the last layer."""
        layers = self.layers.before_first(whitening.pull, self.centre)
        layers = layers.after_last(whitening.pull)
        return NetworkGradient(jnp.asarray(whitening.centre), layers)


LearnedOf = Callable[[Standardisation, Any, Standardisation], Learned]
"""Maps (scaling of positions, trained network, scaling of gradients) to the learned gradient."""


class FreeField(Trainable):
    """The common part of models that learn a vector field: standardised data and a loss."""

    def loss(self, network: Any, row: PyTree) -> Array:
        """Compute the mean squared error of a standardised gradient."""
        return jnp.mean((network(row["inputs"]) - row["outputs"]) ** 2)

    def trained_on(self, lesson: Lesson, learned_of: LearnedOf) -> Learning:
        """Train a network from standardised positions to standardised gradients."""
        positions = Standardisation.of(lesson.data.positions)
        gradients = Standardisation.of(lesson.data.gradients)

        def rows(part: GradientData) -> dict[str, np.ndarray]:
            return {
                "inputs": positions.apply(part.positions),
                "outputs": gradients.apply(part.gradients),
            }

        trained = train(self, lesson, rows)
        learned = learned_of(positions, trained.network, gradients)
        return Learning(learned, trained.losses, trained.held_out_losses)


@dataclass(frozen=True)
class GradientMLP(FreeField):
    """The paper's network, a free vector field: g(q) = W₂ φ(W₁ q + b₁) + b₂, or deeper.

    Args:
        hidden: number h of hidden units, or a tuple with the number for each hidden layer.
        activation: φ, one of "silu", "relu", "softplus", "tanh".
    """

    hidden: Hidden = 100
    activation: str = "silu"
    training: ClassVar[Training] = Training()

    def __post_init__(self) -> None:
        object.__setattr__(self, "hidden", checked_hidden(self.hidden))
        checked_activation(self.activation)

    def learn(self, lesson: Lesson) -> Learning:
        """Train on the gradients."""
        return self.trained_on(lesson, NetworkGradient.between)

    def build(self, dim: int, key: PRNGKeyArray) -> Layers:
        """Build an untrained network with random weights."""
        return Layers.random((dim, *self.hidden, dim), self.activation, key)  # type: ignore[misc]
