"""Networks that map a standardised position to a standardised gradient."""

from collections.abc import Callable
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from nnghmc.errors import one_of, positive_integer

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
