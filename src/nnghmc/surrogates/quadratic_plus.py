"""A quadratic part, and a network that learns only what it leaves over, in whitened coordinates."""

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Array, Float

from nnghmc.errors import SettingsError, instance_of
from nnghmc.mass_matrix import checked_inverse_mass_matrix
from nnghmc.surrogates.gradient_data import GradientData
from nnghmc.surrogates.learned import (
    GradientModel,
    Learned,
    Learning,
    all_gradients,
    all_potentials,
    gradient_model,
)
from nnghmc.surrogates.potential_net import PotentialNet
from nnghmc.surrogates.quadratic import Quadratic, QuadraticPotential
from nnghmc.surrogates.training import Lesson, Training
from nnghmc.surrogates.whitening import Whitening

NOTHING_LEFT = 1e-5
"""The share of the gradient below which a remainder is rounding, and not worth a network."""

LEAST_GAIN = 0.05
"""The share of the held-out squared error that a network must take away to be kept."""


class Sum(Learned):
    """The sum of a quadratic part and what was learned about its remainder."""

    quadratic: QuadraticPotential
    rest: Learned

    @property
    def conservative(self) -> bool:
        """Where the second part is: the first always is."""
        return self.rest.conservative

    def gradient(self, position: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """The learned gradient."""
        return self.quadratic.gradient(position) + self.rest.gradient(position)

    def potential(self, position: Float[Array, " dim"]) -> Float[Array, ""]:
        """The learned potential, up to a constant."""
        return self.quadratic.potential(position) + self.rest.potential(position)


@dataclass(frozen=True)
class QuadraticPlus:
    """The default: a fitted quadratic, and a network for the remainder in whitened coordinates.

    Any gradient model can be the network. On held-out trajectories it must take away a twentieth
    of the quadratic part's squared error, or it is dropped and the report says so.

    Args:
        network: what learns the remainder.
        coordinates: where it does so: "gradients" whitens by the fitted curvature, "draws" by the
            covariance of the positions; an array is an inverse mass matrix, or its diagonal.
        quadratic: how the quadratic part is fitted.
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
        """Fit the quadratic, then train on what it leaves over."""
        data = lesson.data
        quadratic = self.quadratic.fit(data)
        whitening = self._whitening(data, quadratic)
        rest_of_lesson = lesson.mapped(lambda part: _remainder(part, quadratic, whitening))
        left_over, unseen = rest_of_lesson.data, rest_of_lesson.held_out
        share = _size(left_over.gradients) / _size(whitening.push(data.gradients))
        if share < NOTHING_LEFT:
            return Learning(quadratic, remarks=("the quadratic part leaves nothing to learn",))
        learning = self.network.learn(rest_of_lesson)
        if unseen is not None:
            left = _size(all_gradients(learning.learned, unseen.positions) - unseen.gradients)
            gain = 1 - (left / _size(unseen.gradients)) ** 2
            if not gain >= LEAST_GAIN:
                remark = (
                    "the quadratic part alone: the network took away "
                    f"{max(gain, 0.0):.0%} of its held-out error, and was dropped"
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
    """What a quadratic part leaves over, in whitened coordinates."""
    return replace(
        data,
        positions=whitening.apply(data.positions),
        potentials=data.potentials - all_potentials(quadratic, data.positions),
        gradients=whitening.push(data.gradients - all_gradients(quadratic, data.positions)),
    )


def _size(vectors: np.ndarray) -> float:
    return float(np.sqrt(np.mean(vectors**2)))
