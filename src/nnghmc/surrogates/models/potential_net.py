"""A scalar network for the potential; its gradient is conservative by construction."""

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from nnghmc.errors import one_of
from nnghmc.surrogates.data import GradientData
from nnghmc.surrogates.learned import Learned, Learning
from nnghmc.surrogates.parts.layers import Hidden, Layers, checked_activation, checked_hidden
from nnghmc.surrogates.parts.scaling import Standardisation
from nnghmc.surrogates.parts.whitening import Whitening
from nnghmc.surrogates.training import Lesson, Training, train

LEARNS = ("gradients", "potentials", "both")
"""Valid values of `PotentialNet.learns`."""


class NetworkPotential(Learned):
    """Layers from q - m to a scalar, with all scalings absorbed into their weights.

    With one hidden layer the gradient is W₁ᵀ (w₂ φ'(W₁ q + b₁)). It costs as much as a forward
    pass through a network of the same width from vectors to vectors.
    """

    centre: Float[Array, " dim"]
    layers: Layers

    @classmethod
    def of_standardised(
        cls, positions: Standardisation, layers: Layers, scale: float
    ) -> "NetworkPotential":
        """Absorb the scalings into layers from standardised positions to potentials / `scale`."""
        layers = layers.before_first(lambda weight: weight / positions.scale)
        return cls(positions.mean, layers.after_last(lambda output: scale * output))

    @property
    def conservative(self) -> bool:
        """Always True: this is the gradient of a scalar function."""
        return True

    def potential(self, position: Float[Array, " dim"]) -> Float[Array, ""]:
        """Evaluate the learned potential, which is known up to a constant."""
        return self.layers(position - self.centre)[0]

    def gradient(self, position: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """Evaluate the learned gradient g(q)."""
        return jax.grad(self.potential)(position)

    def under(self, whitening: Whitening) -> "NetworkPotential":
        """Return the network with a linear map absorbed into its first layer."""
        layers = self.layers.before_first(whitening.pull, self.centre)
        return NetworkPotential(jnp.asarray(whitening.centre), layers)


@dataclass(frozen=True)
class PotentialNet:
    """A scalar network U(q) = w₂·φ(W₁ q + b₁) + b₂, or a deeper one, whose gradient is used.

    Args:
        hidden: number of hidden units, or a tuple with the number for each hidden layer.
        activation: φ, one of "softplus", "silu", "tanh", "relu".
        learns: what to learn from: "gradients", "potentials" as in the paper's comparison, or
            "both".
    """

    hidden: Hidden = 100
    activation: str = "softplus"
    learns: str = "gradients"
    training: ClassVar[Training] = Training()

    def __post_init__(self) -> None:
        object.__setattr__(self, "hidden", checked_hidden(self.hidden))
        checked_activation(self.activation)
        one_of("learns", self.learns, LEARNS)

    def learn(self, lesson: Lesson) -> Learning:
        """Train on gradients, potentials, or both."""
        if self.learns != "gradients":
            lesson = lesson.mapped(lambda data: data.with_potentials("PotentialNet"))
        units = _Units.of(lesson.data, self.learns)
        trained = train(self, lesson, units.rows)
        learned = NetworkPotential.of_standardised(units.positions, trained.network, units.scale)
        return Learning(learned, trained.losses, trained.held_out_losses)

    def build(self, dim: int, key: PRNGKeyArray) -> Layers:
        """Build an untrained network with random weights and a last layer of zeros.

        Its output is zero, so that training for the remainder of a quadratic part starts at the
        quadratic.
        """
        layers = Layers.random((dim, *self.hidden, 1), self.activation, key)  # type: ignore[misc]
        return layers.with_last(0 * layers.weights[-1], 0 * layers.biases[-1])

    def loss(self, network: Layers, row: PyTree) -> Array:
        """Compute the squared error of the gradient, the potential or both, each standardised."""

        def potential(position: Array) -> Array:
            return network(position)[0]

        if self.learns == "gradients":
            return jnp.mean((jax.grad(potential)(row["inputs"]) - row["gradients"]) ** 2)
        if self.learns == "potentials":
            return (potential(row["inputs"]) - row["potentials"]) ** 2
        value, slope = jax.value_and_grad(potential)(row["inputs"])
        error = (value - row["potentials"]) ** 2 / row["spread"] ** 2
        return jnp.mean((slope - row["gradients"]) ** 2) + error


@dataclass(frozen=True)
class _Units:
    """Standardisation of positions, and one unit for potentials.

    Gradients are expressed in these units too, so they remain the gradients of the potential.
    """

    positions: Standardisation
    level: float
    scale: float
    spread: float

    @classmethod
    def of(cls, data: GradientData, learns: str) -> "_Units":
        positions = Standardisation.of(data.positions)
        spread = float(data.potentials.std()) if learns != "gradients" else 1.0
        sizes = data.gradients * np.asarray(positions.scale)
        scale = spread if learns == "potentials" else float(np.sqrt(np.mean(sizes**2)))
        level = float(data.potentials.mean()) if learns != "gradients" else 0.0
        scale = scale if scale > 0 else 1.0
        return cls(positions, level, scale, spread / scale if spread > 0 else 1.0)

    def rows(self, data: GradientData) -> dict[str, np.ndarray]:
        return {
            "inputs": self.positions.apply(data.positions),
            "gradients": data.gradients * np.asarray(self.positions.scale) / self.scale,
            "potentials": (data.potentials - self.level) / self.scale,
            "spread": np.full(len(data), self.spread),
        }
