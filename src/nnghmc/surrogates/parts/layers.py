"""Dense layers, of which the networks consist."""

from collections.abc import Callable, Sequence
from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from nnghmc.errors import SettingsError, one_of, positive_integer
from nnghmc.surrogates.parts.storable import Storable

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "silu": jax.nn.silu,
    "relu": jax.nn.relu,
    "softplus": jax.nn.softplus,
    "tanh": jnp.tanh,
}
"""Activation functions by name."""

Hidden = int | Sequence[int]
"""The width of the hidden layer, or the widths of several hidden layers."""


def checked_hidden(hidden: Hidden) -> tuple[int, ...]:
    """Return the widths of the hidden layers as a tuple, or raise an error if one is invalid."""
    if not isinstance(hidden, Sequence) or isinstance(hidden, str):
        return (positive_integer("hidden", hidden),)
    if not hidden:
        raise SettingsError("hidden must name at least one layer, got none; pass a width.")
    return tuple(positive_integer("hidden", width) for width in hidden)


def checked_activation(activation: str) -> str:
    """Return the name of an activation, or raise an error that lists the valid names."""
    return one_of("activation", activation, tuple(ACTIVATIONS))


class Layers(Storable):
    """Dense layers with an activation after each but the last."""

    weights: tuple[Array, ...]
    biases: tuple[Array, ...]
    activation: str = eqx.field(static=True)

    @classmethod
    def random(cls, sizes: Sequence[int], activation: str, key: PRNGKeyArray) -> "Layers":
        """Make layers with random weights; single precision is enough for training."""
        keys = jax.random.split(key, len(sizes) - 1)
        linear = [
            eqx.nn.Linear(*ends, dtype=jnp.float32, key=layer_key)
            for ends, layer_key in zip(pairwise(sizes), keys, strict=True)
        ]
        weights, biases = zip(*((layer.weight, layer.bias) for layer in linear), strict=True)
        return cls(weights, biases, activation)

    def __call__(self, vector: Array) -> Array:
        """Compute the output for one vector."""
        hidden = self.weights[0] @ vector + self.biases[0]
        activation = ACTIVATIONS[self.activation]
        for weight, bias in zip(self.weights[1:], self.biases[1:], strict=True):
            hidden = weight @ activation(hidden) + bias
        return hidden

    def before_first(self, pull: Callable[[Array], Array], centre: Array | None = None) -> "Layers":
        """Absorb a linear map of the input into the first layer.

        `pull` multiplies the rows of the weights by the matrix of the map. `centre` is subtracted
        from the mapped input.
        """
        weight, bias = self.weights[0], self.biases[0]
        bias = bias if centre is None else bias - weight @ centre
        return Layers((pull(weight), *self.weights[1:]), (bias, *self.biases[1:]), self.activation)

    def after_last(self, linear: Callable[[Array], Array], shift: Array | float = 0.0) -> "Layers":
        """Absorb a linear map of the output, followed by a shift, into the last layer.

        `linear` takes one output or rows of outputs.
        """
        return self.with_last(linear(self.weights[-1].T).T, linear(self.biases[-1]) + shift)

    def with_last(self, weight: Array, bias: Array) -> "Layers":
        """Replace the last layer."""
        return Layers((*self.weights[:-1], weight), (*self.biases[:-1], bias), self.activation)
