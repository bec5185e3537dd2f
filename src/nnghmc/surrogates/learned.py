"""The contracts of surrogates: gradient models, which learn, and the gradients they learn."""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from nnghmc.errors import SettingsError, instance_of
from nnghmc.platform.compilation import compiled
from nnghmc.surrogates.parts.storable import Storable
from nnghmc.surrogates.parts.whitening import Whitening
from nnghmc.surrogates.training import Lesson, Training

ROWS_AT_ONCE = 256
"""Rows of positions that are evaluated together."""


class Learned(Storable):
    """A learned gradient. It is a pytree, so that compiled code takes its arrays as input.

    A `conservative` one is the exact gradient of a scalar function, which is its `potential`.
    """

    @property
    def conservative(self) -> bool:
        """Whether this is the gradient of a potential."""
        return False

    def gradient(self, position: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """Evaluate the learned gradient g(q)."""
        raise NotImplementedError

    def potential(self, position: Float[Array, " dim"]) -> Float[Array, ""]:
        """Evaluate the learned potential, which is known up to a constant."""
        raise NotImplementedError

    def potential_and_gradient(
        self, position: Float[Array, " dim"]
    ) -> tuple[Float[Array, ""], Float[Array, " dim"]]:
        """Evaluate the learned potential and its gradient."""
        return self.potential(position), self.gradient(position)

    def under(self, whitening: Whitening) -> "Learned":
        """Turn a gradient learned in whitened coordinates into one in natural coordinates.

        Networks absorb the linear map into their weights instead, at no cost per evaluation.
        """
        return Whitened(self, whitening)


class Whitened(Learned):
    """A gradient learned in whitened coordinates z = T (q - m), in natural coordinates."""

    inner: Learned
    whitening: Whitening

    @property
    def conservative(self) -> bool:
        """Whether the inner gradient is that of a potential."""
        return self.inner.conservative

    def gradient(self, position: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """Evaluate the learned gradient by the chain rule."""
        return self.whitening.pull(self.inner.gradient(self.whitening.apply(position)))

    def potential(self, position: Float[Array, " dim"]) -> Float[Array, ""]:
        """Evaluate the learned potential."""
        return self.inner.potential(self.whitening.apply(position))


def all_gradients(learned: Learned, positions: np.ndarray) -> np.ndarray:
    """Evaluate the learned gradient at every row of positions."""
    return np.asarray(_at_every_row(learned.gradient, jnp.asarray(positions), quick=True))


def all_potentials(learned: Learned, positions: np.ndarray) -> np.ndarray:
    """Evaluate the learned potential at every row of positions."""
    return np.asarray(_at_every_row(learned.potential, jnp.asarray(positions), quick=True))


@compiled
def _at_every_row(function: Callable[[Array], Any], positions: Array) -> Any:
    return jax.lax.map(function, positions, batch_size=ROWS_AT_ONCE)


class Learning(NamedTuple):
    """The result of learning.

    Attributes:
        learned: the learned gradient.
        losses: mean loss of each epoch; empty for a model without epochs.
        held_out_losses: mean held-out loss of each epoch; empty where none was computed.
        remarks: further facts for the report, one phrase each.
    """

    learned: Learned
    losses: np.ndarray = np.empty(0)
    held_out_losses: np.ndarray = np.empty(0)
    remarks: tuple[str, ...] = ()


def gradient_model(name: str, value: Any) -> "GradientModel":
    """Return `value` if it is a gradient model; otherwise raise an error that says what is."""
    if isinstance(value, type):
        raise SettingsError(
            f"{name} must be a gradient model, got the class {value.__name__}; call it, as in "
            f"{value.__name__}()."
        )
    return instance_of(name, value, GradientModel)


@runtime_checkable
class GradientModel(Protocol):
    """A frozen object that holds the settings of a model and learns from gradient data.

    `training` is how it is trained by default.
    """

    training: ClassVar[Training]

    def learn(self, lesson: Lesson) -> Learning:
        """Learn a gradient from the data of the lesson."""
