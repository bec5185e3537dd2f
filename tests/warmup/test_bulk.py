"""What the rounds of standard HMC know of the posterior."""

import numpy as np
import pytest

from nnghmc import GradientData
from nnghmc.warmup.adaptation import Adaptation
from nnghmc.warmup.bulk import Bulk


def bulk_of(gradient, dim=3, rounds=6, scales=1.0):
    """One whose rounds have met independent normal points."""
    generator = np.random.default_rng(0)
    points = [scales * generator.normal(size=(2000, dim)) for _ in range(rounds)]
    data = [GradientData.of_points(p, gradient(p)) for p in points]
    adaptation = Adaptation(0.1, np.ones(dim) * scales**2)
    return Bulk(None, adaptation, data[0], 0, 0, data)


@pytest.mark.parametrize("scales", [1.0, np.array([1e-3, 1.0, 1e3])])
def test_a_normal_posterior_is_straight_on_any_scale(scales):
    assert bulk_of(lambda q: 2 + q / scales**2, scales=scales).straightness == pytest.approx(1)


def test_a_bent_one_is_not():
    assert bulk_of(lambda q: q**2).straightness < 0.1
    assert bulk_of(lambda q: q + q**2).straightness == pytest.approx(1 / 3, abs=0.05)


@pytest.mark.parametrize("scales", [1.0, np.array([1e-3, 1.0, 1e3])])
def test_every_direction_counts_the_same_on_any_scale(scales):
    """Two of three coordinates are straight; the third, the widest, has nothing straight in it."""

    def gradient(q):
        z = q / scales
        return np.column_stack([z[:, :2], z[:, 2] ** 2 / np.sqrt(2)]) / scales

    assert bulk_of(gradient, scales=scales).straightness == pytest.approx(2 / 3, abs=0.05)
