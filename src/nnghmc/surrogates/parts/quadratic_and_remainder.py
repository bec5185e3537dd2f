"""A learned potential: a quadratic, and a remainder that stays bounded far from the data."""

from typing import Any, Protocol

from jaxtyping import Array, Float

from nnghmc.surrogates.learned import Learned


class Remainder(Protocol):
    """What the quadratic does not explain."""

    def value_and_gradient(
        self, inputs: Float[Array, " inputs"]
    ) -> tuple[Float[Array, ""], Float[Array, " inputs"]]:
        """Return the remainder and its gradient."""


class QuadraticAndRemainder(Learned):
    """The potential c·x + ½ xᵀ H x + f(s) with x = s - m.

    The curvature H is an array, or anything that multiplies a vector.
    """

    centre: Float[Array, " inputs"]
    slope: Float[Array, " inputs"]
    hessian: Any
    remainder: Remainder

    @property
    def conservative(self) -> bool:
        """Always True: this is the gradient of a scalar function."""
        return True

    def potential(self, position: Float[Array, " inputs"]) -> Float[Array, ""]:
        """Evaluate the learned potential, which is known up to a constant."""
        return self.potential_and_gradient(position)[0]

    def gradient(self, position: Float[Array, " inputs"]) -> Float[Array, " inputs"]:
        """Evaluate the learned gradient."""
        return self.potential_and_gradient(position)[1]

    def potential_and_gradient(
        self, position: Float[Array, " inputs"]
    ) -> tuple[Float[Array, ""], Float[Array, " inputs"]]:
        """Evaluate the learned potential and its gradient."""
        away = position - self.centre
        bent = self.hessian @ away
        value, gradient = self.remainder.value_and_gradient(position)
        return self.slope @ away + 0.5 * away @ bent + value, self.slope + bent + gradient
