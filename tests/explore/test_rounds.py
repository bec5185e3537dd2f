"""What the rounds of standard HMC know of the posterior."""

import numpy as np
import pytest

from nnghmc import GradientData
from nnghmc.explore.adaptation import Adaptation
from nnghmc.explore.rounds import Bulk


def bulk_of(gradient, dim=3, rounds=6, scales=1.0):
    """One whose rounds have met independent normal points."""
    generator = np.random.default_rng(0)
    points = [scales * generator.normal(size=(2000, dim)) for _ in range(rounds)]
    data = [GradientData.of_points(p, gradient(p)) for p in points]
    adaptation = Adaptation(0.1, np.ones(dim) * scales**2)
    return Bulk(None, adaptation, data[0], 0, 0, data)


@pytest.mark.parametrize("scales", [1.0, np.array([1e-3, 1.0, 1e3])])
def test_the_gradient_of_a_normal_posterior_is_linear_on_any_scale(scales):
    assert bulk_of(lambda q: 2 + q / scales**2, scales=scales).linearity == pytest.approx(1)


def test_a_curved_one_is_not():
    assert bulk_of(lambda q: q**2).linearity < 0.1
    assert bulk_of(lambda q: q + q**2).linearity == pytest.approx(1 / 3, abs=0.05)


@pytest.mark.parametrize("scales", [1.0, np.array([1e-3, 1.0, 1e3])])
def test_every_direction_counts_the_same_on_any_scale(scales):
    """Two of three coordinates are linear; the third, the widest, has no linear part."""

    def gradient(q):
        z = q / scales
        return np.column_stack([z[:, :2], z[:, 2] ** 2 / np.sqrt(2)]) / scales

    assert bulk_of(gradient, scales=scales).linearity == pytest.approx(2 / 3, abs=0.05)
