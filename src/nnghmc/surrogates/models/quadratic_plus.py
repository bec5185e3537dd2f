"""A quadratic part plus a network that learns its remainder in whitened coordinates."""

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Array, Float

from nnghmc.errors import SettingsError, instance_of
from nnghmc.platform.matrices import checked_inverse_mass_matrix
from nnghmc.surrogates.data import GradientData
from nnghmc.surrogates.learned import (
    GradientModel,
    Learned,
    Learning,
    all_gradients,
    all_potentials,
    gradient_model,
)
from nnghmc.surrogates.models.potential_net import PotentialNet
from nnghmc.surrogates.models.quadratic import Quadratic, QuadraticPotential
from nnghmc.surrogates.parts.whitening import Whitening
from nnghmc.surrogates.training import Lesson, Training

NEGLIGIBLE_REMAINDER = 1e-5
"""Size of the remainder, relative to the gradient, below which it is rounding error."""

LEAST_GAIN = 0.05
"""Fraction of the held-out squared error that the network must remove; otherwise it is dropped."""


class Sum(Learned):
    """The sum of a quadratic part and a learned remainder."""

    quadratic: QuadraticPotential
    rest: Learned

    @property
    def conservative(self) -> bool:
        """Whether the remainder is the gradient of a potential; the quadratic part always is."""
        return self.rest.conservative

    def gradient(self, position: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """Evaluate the learned gradient."""
        return self.quadratic.gradient(position) + self.rest.gradient(position)

    def potential(self, position: Float[Array, " dim"]) -> Float[Array, ""]:
        """Evaluate the learned potential, which is known up to a constant."""
        return self.quadratic.potential(position) + self.rest.potential(position)


@dataclass(frozen=True)
class QuadraticPlus:
    """The default model: a fitted quadratic plus a network for the remainder.

    The network learns in whitened coordinates. Any gradient model can take its place. If it does
    not remove at least 5% of the squared error of the quadratic part on held-out trajectories, it
    is dropped, and the report says so.

    Args:
        network: the gradient model for the remainder.
        coordinates: how to whiten: "gradients" uses the fitted curvature, "draws" the covariance
            of the positions; an array is an inverse mass matrix or its diagonal.
        quadratic: settings of the quadratic part.
    """

    network: GradientModel = field(default_factory=lambda: PotentialNet(256, "silu"))
    coordinates: Any = "gradients"
    quadratic: Quadratic = field(default_factory=Quadratic)
    training: ClassVar[Training] = Training(
        epochs=300, batch_size=64, patience=30, most_steps=20_000
    )

    def __post_init__(self) -> None:
        gradient_model("network", self.network)
        instance_of("quadratic", self.quadratic, Quadratic)
        if isinstance(self.coordinates, str) and self.coordinates not in ("gradients", "draws"):
            raise SettingsError(
                'coordinates must be "gradients", "draws" or an inverse mass matrix, got '
                f"{self.coordinates!r}."
            )

    def learn(self, lesson: Lesson) -> Learning:
        """Fit the quadratic part, then train the network on the remainder."""
        data = lesson.data
        quadratic = self.quadratic.fit(data)
        whitening = self._whitening(data, quadratic)
        remainder = lesson.mapped(lambda part: _remainder(part, quadratic, whitening))
        relative_size = _size(remainder.data.gradients) / _size(whitening.push(data.gradients))
        if relative_size < NEGLIGIBLE_REMAINDER:
            return Learning(quadratic, remarks=("the quadratic part leaves nothing to learn",))
        learning = self.network.learn(remainder)
        if remainder.held_out is not None:
            gain = _gain(learning.learned, remainder.held_out)
            if not gain >= LEAST_GAIN:
                remark = (
                    f"network dropped: it removed {max(gain, 0.0):.0%} of the held-out squared "
                    "error of the quadratic part"
                )
                return learning._replace(learned=quadratic, remarks=(remark,))
        rest = learning.learned.under(whitening.on_device())
        return learning._replace(learned=Sum(quadratic, rest))

    def _whitening(self, data: GradientData, quadratic: QuadraticPotential) -> Whitening:
        if isinstance(self.coordinates, str):
            if self.coordinates == "draws":
                return Whitening.of_draws(data.positions)
            return quadratic.whitening.on_host()
        matrix = checked_inverse_mass_matrix("coordinates", self.coordinates, data.dim)
        return Whitening.of_metric(data.positions.mean(axis=0), matrix)


def _remainder(
    data: GradientData, quadratic: QuadraticPotential, whitening: Whitening
) -> GradientData:
    """Subtract a quadratic part from the data, and express the rest in whitened coordinates."""
    return replace(
        data,
        positions=whitening.apply(data.positions),
        potentials=data.potentials - all_potentials(quadratic, data.positions),
        gradients=whitening.push(data.gradients - all_gradients(quadratic, data.positions)),
    )


def _gain(learned: Learned, held_out: GradientData) -> float:
    """Compute the fraction of the squared size of the held-out gradients that a model explains."""
    errors = all_gradients(learned, held_out.positions) - held_out.gradients
    return float(1 - (_size(errors) / _size(held_out.gradients)) ** 2)


def _size(vectors: np.ndarray) -> float:
    """Compute the root mean square of all entries."""
    return float(np.sqrt(np.mean(vectors**2)))
