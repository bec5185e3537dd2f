"""Starts in the typical set, so that the other samplers need not find it."""

from functools import cache
from typing import NamedTuple

import numpy as np

from references import reference
from targets import WITHOUT_REFERENCE, as_a_vector, truth_of

NOISE = 0.01
"""Standard deviation of starts around the parameters behind simulated data."""


class Starts(NamedTuple):
    """Normal starts; those of the funnel are mapped back from the coordinates of its reference."""

    centre: np.ndarray
    spread: np.ndarray | float
    mapped: bool = False

    def points(self, number, seed):
        """Return starts of shape (number, dim)."""
        away = np.random.default_rng(seed).normal(size=(number, len(self.centre)))
        points = self.centre + self.spread * away
        return np.sinh(points) if self.mapped else points


@cache
def starts_of(target):
    """Return starts like draws of the reference, or near the truth where there is none."""
    if target in WITHOUT_REFERENCE:
        return Starts(as_a_vector(target, truth_of(target)), NOISE)
    known = reference(target)
    return Starts(known["mean"], known["sd"], target == "funnel")
