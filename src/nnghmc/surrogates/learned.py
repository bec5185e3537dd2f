"""What a gradient model learns, and what a gradient model is."""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from nnghmc.compilation import compiled
from nnghmc.errors import SettingsError, instance_of
from nnghmc.surrogates.storable import Storable
from nnghmc.surrogates.training import Lesson, Training
from nnghmc.surrogates.whitening import Whitening

ROWS_AT_ONCE = 256


class Learned(Storable):
    """A learned gradient: a pytree, so that compiled code takes its arrays as input.

    A `conservative` one is the exact gradient of a scalar function, which is its `potential`.
    """

    @property
    def conservative(self) -> bool:
        """Whether there is a potential of which this is the gradient."""
        return False

    def gradient(self, position: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """The learned gradient g(q)."""
        raise NotImplementedError

    def potential(self, position: Float[Array, " dim"]) -> Float[Array, ""]:
        """The learned potential, up to a constant."""
        raise NotImplementedError

    def under(self, whitening: Whitening) -> "Learned":
        """The same model, learned in whitened coordinates, as a gradient in the natural ones.

        Networks absorb the linear map into their weights instead, which costs nothing.
        """
        return Whitened(self, whitening)


class Whitened(Learned):
    """A model of whitened coordinates z = T (q - m), seen from the natural ones."""

    inner: Learned
    whitening: Whitening

    @property
    def conservative(self) -> bool:
        """As the model inside."""
        return self.inner.conservative

    def gradient(self, position: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """The learned gradient, by the chain rule."""
        return self.whitening.pull(self.inner.gradient(self.whitening.apply(position)))

    def potential(self, position: Float[Array, " dim"]) -> Float[Array, ""]:
        """The learned potential."""
        return self.inner.potential(self.whitening.apply(position))


def all_gradients(learned: Learned, positions: np.ndarray) -> np.ndarray:
    """The learned gradient at every row of positions."""
    return np.asarray(_at_every_row(learned.gradient, jnp.asarray(positions), quick=True))


def all_potentials(learned: Learned, positions: np.ndarray) -> np.ndarray:
    """The learned potential at every row of positions."""
    return np.asarray(_at_every_row(learned.potential, jnp.asarray(positions), quick=True))


@compiled
def _at_every_row(function: Callable[[Array], Array], positions: Array) -> Array:
    return jax.lax.map(function, positions, batch_size=ROWS_AT_ONCE)


class Learning(NamedTuple):
    """What came of learning: losses have a value an epoch, where there are epochs."""

    learned: Learned
    losses: np.ndarray = np.empty(0)
    held_out_losses: np.ndarray = np.empty(0)
    remarks: tuple[str, ...] = ()


def gradient_model(name: str, value: Any) -> "GradientModel":
    """Return `value` if it is a gradient model, or say what it should be."""
    if isinstance(value, type):
        raise SettingsError(
            f"{name} must be a gradient model, got the class {value.__name__}; call it, as "
            f"{value.__name__}()."
        )
    return instance_of(name, value, GradientModel)


@runtime_checkable
class GradientModel(Protocol):
    """A small frozen object that says what is to be learned, and how it is trained by default."""

    training: ClassVar[Training]

    def learn(self, lesson: Lesson) -> Learning:
        """Learn what the lesson has to teach."""
