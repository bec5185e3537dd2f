"""One small network for each block of coordinates of the gradient."""

from dataclasses import dataclass
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from nnghmc.errors import check_fields, positive_integer
from nnghmc.surrogates.learned import Learned, Learning
from nnghmc.surrogates.models.gradient_mlp import FreeField
from nnghmc.surrogates.parts.layers import ACTIVATIONS, checked_activation
from nnghmc.surrogates.parts.scaling import Standardisation
from nnghmc.surrogates.parts.storable import Storable
from nnghmc.surrogates.training import Lesson, Training


class BlockLayers(Storable):
    """One network per block. Each takes the whole position and computes its block of the output.

    The last block may be shorter than the others; its superfluous outputs are cut off.
    """

    inward: Float[Array, "blocks hidden dim"]
    inward_bias: Float[Array, "blocks hidden"]
    outward: Float[Array, "blocks size hidden"]
    outward_bias: Float[Array, "blocks size"]
    activation: str = eqx.field(static=True)

    def __call__(self, vector: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """Compute the output for one vector."""
        hidden = ACTIVATIONS[self.activation](self.inward @ vector + self.inward_bias)
        blocks = jnp.einsum("bsh,bh->bs", self.outward, hidden) + self.outward_bias
        return blocks.ravel()[: len(vector)]


class BlockGradient(Learned):
    """Block networks between standardised positions and standardised gradients."""

    positions: Standardisation
    network: BlockLayers
    gradients: Standardisation

    def gradient(self, position: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """Evaluate the learned gradient g(q)."""
        return self.gradients.undo(self.network(self.positions.apply(position)))


@dataclass(frozen=True)
class BlockMLP(FreeField):
    """The paper's model for many dimensions: a small network for each block of the gradient.

    Args:
        blocks: number of blocks of consecutive coordinates, at most one per dimension. The paper
            uses 8 blocks of 25 coordinates.
        hidden: hidden units per block.
        activation: one of "silu", "relu", "softplus", "tanh".
    """

    blocks: int = 8
    hidden: int = 50
    activation: str = "silu"
    training: ClassVar[Training] = Training()

    def __post_init__(self) -> None:
        check_fields(self, blocks=positive_integer, hidden=positive_integer)
        checked_activation(self.activation)

    def learn(self, lesson: Lesson) -> Learning:
        """Train all blocks together on the gradients."""
        return self.trained_on(lesson, BlockGradient)

    def build(self, dim: int, key: PRNGKeyArray) -> BlockLayers:
        """Build untrained networks with random weights, in single precision."""
        blocks = min(self.blocks, dim)
        size = -(-dim // blocks)

        def block(key: PRNGKeyArray) -> tuple[eqx.nn.Linear, eqx.nn.Linear]:
            inward, outward = jax.random.split(key)
            return (
                eqx.nn.Linear(dim, self.hidden, dtype=jnp.float32, key=inward),
                eqx.nn.Linear(self.hidden, size, dtype=jnp.float32, key=outward),
            )

        inward, outward = eqx.filter_vmap(block)(jax.random.split(key, blocks))
        return BlockLayers(
            inward.weight, inward.bias, outward.weight, outward.bias, self.activation
        )
