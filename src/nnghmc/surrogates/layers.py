"""Dense layers: what every network here is made of."""

from collections.abc import Callable, Sequence
from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from nnghmc.errors import SettingsError, one_of, positive_integer
from nnghmc.surrogates.storable import Storable

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "silu": jax.nn.silu,
    "relu": jax.nn.relu,
    "softplus": jax.nn.softplus,
    "tanh": jnp.tanh,
}

Hidden = int | Sequence[int]
"""The width of the hidden layer, or those of several."""


def checked_hidden(hidden: Hidden) -> tuple[int, ...]:
    """The widths of the hidden layers, at least one."""
    if not isinstance(hidden, Sequence) or isinstance(hidden, str):
        return (positive_integer("hidden", hidden),)
    if not hidden:
        raise SettingsError("hidden must name at least one layer, got none; give a width.")
    return tuple(positive_integer("hidden", width) for width in hidden)


def checked_activation(activation: str) -> str:
    """The name of an activation."""
    return one_of("activation", activation, tuple(ACTIVATIONS))


class Layers(Storable):
    """Dense layers with an activation between them, and none after the last."""

    weights: tuple[Array, ...]
    biases: tuple[Array, ...]
    activation: str = eqx.field(static=True)

    @classmethod
    def random(cls, sizes: Sequence[int], activation: str, key: PRNGKeyArray) -> "Layers":
        """Layers of these sizes with random weights in single precision: training needs no more."""
        keys = jax.random.split(key, len(sizes) - 1)
        linear = [
            eqx.nn.Linear(*ends, dtype=jnp.float32, key=layer_key)
            for ends, layer_key in zip(pairwise(sizes), keys, strict=True)
        ]
        weights, biases = zip(*((layer.weight, layer.bias) for layer in linear), strict=True)
        return cls(weights, biases, activation)

    def __call__(self, vector: Array) -> Array:
        """The output for one vector."""
        hidden = self.weights[0] @ vector + self.biases[0]
        activation = ACTIVATIONS[self.activation]
        for weight, bias in zip(self.weights[1:], self.biases[1:], strict=True):
            hidden = weight @ activation(hidden) + bias
        return hidden

    def before_first(self, pull: Callable[[Array], Array], centre: Array | None = None) -> "Layers":
        """The same layers after a linear map of their input, absorbed into the first.

        `pull` multiplies the rows of its weights by the map's matrix; `centre` is subtracted from
        the mapped input.
        """
        weight, bias = self.weights[0], self.biases[0]
        bias = bias if centre is None else bias - weight @ centre
        return Layers((pull(weight), *self.weights[1:]), (bias, *self.biases[1:]), self.activation)

    def after_last(self, linear: Callable[[Array], Array], shift: Array | float = 0.0) -> "Layers":
        """The same layers with a linear map of their output, absorbed into the last.

        `linear` takes outputs, or rows of them.
        """
        return self.with_last(linear(self.weights[-1].T).T, linear(self.biases[-1]) + shift)

    def with_last(self, weight: Array, bias: Array) -> "Layers":
        """The same with another last layer."""
        return Layers((*self.weights[:-1], weight), (*self.biases[:-1], bias), self.activation)
