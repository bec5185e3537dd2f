"""Section 3: energy and path depend on the gradient's error, volume and reversal do not."""

import numpy as np
import pytest

from nnghmc import plots
from nnghmc.paper.experiments import theory


@pytest.fixture(scope="module")
def found():
    return [theory.measure(points) for points in (0, 50, 1000)]


def test_volume_is_preserved_and_time_reversed_whatever_the_network(found):
    assert max(one.determinant for one in found) < 1e-12
    assert max(one.reversal for one in found) < 1e-12


def test_energy_drifts_less_the_better_the_gradient(found):
    errors, drifts, distances = (
        [np.median(part) for part in parts]
        for parts in zip(*((o.errors, o.drifts, o.distances[:, -1]) for o in found), strict=True)
    )
    for values in (errors, drifts, distances):
        assert values[0] > 3 * values[1] > 9 * values[2]


def test_paths_stay_within_the_bound(found):
    for one in found:
        assert (one.distances[:, 1:] <= one.bounds[:, 1:] * (1 + 1e-9)).all()


def test_a_gradient_without_error_stays_on_the_true_path(monkeypatch):
    monkeypatch.setattr(theory, "learned_gradient", lambda posterior, *_: posterior.gradient)
    exact = theory.measure(0)
    assert exact.errors.max() == 0
    assert exact.distances.max() == 0
    assert exact.drifts.max() < 0.002  # that of the integrator


def test_table_and_figure(found, tmp_path):
    assert [row[0] for row in theory.table(found).rows] == [
        "untrained",
        "50 points",
        "1,000 points",
    ]
    plots.save(theory.figure(found), tmp_path / "theory.png")
    assert (tmp_path / "theory.png").stat().st_size > 10_000
