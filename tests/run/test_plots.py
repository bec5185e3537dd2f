import dataclasses

import jax
import matplotlib.pyplot as plt
import numpy as np
import pytest

from nnghmc import HMC, from_log_density, plots, sample
from nnghmc.engine.history import HistoryInMemory
from nnghmc.errors import SettingsError
from nnghmc.paper.targets import banana


@pytest.fixture(scope="module")
def wide_run():
    posterior = from_log_density(
        lambda p: -0.5 * jax.numpy.sum(p["w"] ** 2) - p["a"] ** 2, {"w": np.zeros(15), "a": 0.0}
    )
    method = HMC(step_size=0.5, num_steps=3, warmup=5)
    return sample(posterior, 30, 2, method=method, progress=False)


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def test_of_many_scalars_the_first_are_shown(wide_run):
    figure = plots.trace(wide_run)
    assert len(figure.axes) == 2 * plots.MOST_SCALARS
    assert "first 12 of 16" in figure.get_suptitle()


def test_few_scalars_have_a_row_each():
    run = sample(banana(), 30, 2, method=HMC(num_steps=3, warmup=5), progress=False)
    figure = plots.trace(run)
    assert len(figure.axes) == 2 * 2
    assert all(len(axis.lines) == 2 for axis in figure.axes)  # a chain each
    assert {axis.get_title() for axis in figure.axes} == {"x[0]", "x[1]"}


def test_marginals_of_several_runs(wide_run):
    figure = plots.marginals(wide_run, wide_run)
    assert len(figure.axes) == plots.MOST_SCALARS
    assert all(len(axis.lines) == 2 for axis in figure.axes)
    assert len(figure.legends[0].get_texts()) == 2


@pytest.mark.parametrize("figure", [plots.trace, plots.marginals])
def test_a_run_without_draws_has_no_figures(wide_run, figure):
    stopped = dataclasses.replace(wide_run, kept=HistoryInMemory(2, 0, 16))
    with pytest.raises(SettingsError, match="a figure of draws needs draws"):
        figure(stopped)


def test_trajectory_starts_where_it_is_told():
    _, axis = plt.subplots()
    plots.draw_trajectory(axis, lambda q: q, ([1.0, 0.0], [0.0, 1.0]), 0.1, 20, "red")
    line = axis.lines[0].get_xydata()
    assert line.shape == (21, 2)
    np.testing.assert_array_equal(line[0], [1.0, 0.0])
    np.testing.assert_allclose(np.linalg.norm(line, axis=1), 1.0, atol=0.01)


def test_arrows_point_downhill():
    _, axis = plt.subplots()
    plots.draw_gradient_field(axis, lambda q: q, ((-1.0, 1.0), (-1.0, 1.0)), resolution=5)
    arrows = axis.collections[0]
    downhill = arrows.U * arrows.X + arrows.V * arrows.Y
    assert downhill[12] == 0  # the stationary point in the middle has no direction
    assert (np.delete(downhill, 12) < 0).all()


def test_save_writes_and_closes(tmp_path, wide_run):
    figure = plots.marginals(wide_run)
    plots.save(figure, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 5_000
    assert not plt.get_fignums()
