"""A random hidden layer with a ridge regression of the potential: an extreme learning machine.

This is the surrogate of Zhang, Shahbaba and Zhao, as the paper describes it.
"""

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from nnghmc.errors import check_fields, positive_integer, positive_number
from nnghmc.platform.memory import require_memory
from nnghmc.surrogates.learned import Learning
from nnghmc.surrogates.models.potential_net import NetworkPotential
from nnghmc.surrogates.parts.layers import ACTIVATIONS, Layers, checked_activation
from nnghmc.surrogates.parts.scaling import Standardisation
from nnghmc.surrogates.training import Lesson, Training, in_precision_of_positions

RIDGES = np.logspace(-12, 2, 57)
"""Ridges among which generalised cross-validation chooses."""


@dataclass(frozen=True)
class RandomBases:
    """The potential U(q) = v·φ(W q + b) with random W and b; v is learned from potentials.

    Args:
        hidden: number of random bases.
        activation: φ, one of "softplus", "silu", "tanh", "relu".
        ridge: ridge of the regression, relative to the largest eigenvalue of the Gram matrix of the
            bases; None chooses it by generalised cross-validation.
    """

    hidden: int = 1000
    activation: str = "softplus"
    ridge: float | None = None
    training: ClassVar[Training] = Training()

    def __post_init__(self) -> None:
        check_fields(self, hidden=positive_integer, ridge=positive_number)
        checked_activation(self.activation)

    def learn(self, lesson: Lesson) -> Learning:
        """Solve for the output weights by ridge regression, without epochs."""
        data = lesson.data.with_potentials("RandomBases")
        require_memory(
            4 * 8 * len(data) * self.hidden,
            f"a regression of {len(data):,} potentials on {self.hidden:,} random bases",
            "Use fewer hidden units.",
        )
        positions = Standardisation.of(data.positions)
        layers = in_precision_of_positions(self._random_layers(data.dim, lesson.key))
        inputs = jnp.asarray(positions.apply(data.positions))
        hidden = inputs @ layers.weights[0].T + layers.biases[0]
        bases = np.asarray(ACTIVATIONS[self.activation](hidden))
        centre, level = bases.mean(axis=0), data.potentials.mean()
        weights = _ridge_regression(bases - centre, data.potentials - level, self.ridge)
        last = jnp.asarray(weights[np.newaxis])
        bias = jnp.asarray([level - centre @ weights])
        learned = NetworkPotential.of_standardised(positions, layers.with_last(last, bias), 1.0)
        return Learning(learned)

    def _random_layers(self, dim: int, key: PRNGKeyArray) -> Layers:
        """Draw directions whose product with a standardised position is about standard normal."""
        direction_key, bias_key = jax.random.split(key)
        directions = jax.random.normal(direction_key, (self.hidden, dim)) / np.sqrt(dim)
        biases = jax.random.normal(bias_key, (self.hidden,))
        empty = jnp.zeros((1, self.hidden)), jnp.zeros(1)
        return Layers((directions, empty[0]), (biases, empty[1]), self.activation)


def _ridge_regression(x: np.ndarray, y: np.ndarray, ridge: float | None) -> np.ndarray:
    """Find the weights w that minimise |y - x w|² + ridge s |w|².

    s is the largest squared singular value of x. Both x and y have mean zero. Where `ridge` is
    None, generalised cross-validation chooses it.
    """
    left, values, right = np.linalg.svd(x, full_matrices=False)
    squares, projected = values**2, left.T @ y
    outside = np.sum(y**2) - np.sum(projected**2)

    def shrinkage(ridge: float) -> np.ndarray:
        return squares / (squares + ridge * squares[0])

    def validation_error(ridge: float) -> float:
        left_over = 1 - shrinkage(ridge)
        freedom = len(y) - 1 - np.sum(1 - left_over)  # estimating the mean used up one
        return float((outside + np.sum((left_over * projected) ** 2)) / max(freedom, 1e-9) ** 2)

    best = ridge if ridge is not None else min(RIDGES, key=validation_error)
    return right.T @ (shrinkage(best) * projected / np.where(values > 0, values, 1.0))
