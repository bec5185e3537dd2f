"""Cover Type's experiment on a small regression: what is exact agrees, SGHMC is too wide."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from nnghmc.paper import covertype
from nnghmc.paper.covertype import CORRECTED
from nnghmc.paper.race import AS_THE_PAPER, AS_WE_WOULD, PAPER_TRAINING, STANDARD
from nnghmc.plots import save
from support import regression_of_data, remembered


@pytest.fixture(scope="module")
def told_and_made():
    """What the experiment tells, its race, and the legs of SGHMC."""
    course = replace(
        covertype.COURSE,
        step_size=0.03,
        draws=500,
        collected=200,
        quick=None,
        warmup=20,
        training=replace(PAPER_TRAINING, epochs=10),
    )
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(covertype, "COURSE", course)
        monkeypatch.setattr(covertype, "BATCH", 100)
        monkeypatch.setattr(covertype, "LEARNING_RATES", (4e-3, 4e-5))
        monkeypatch.setattr(covertype, "cover_type", regression_of_data)
        races = remembered(monkeypatch, covertype, "whole_race")
        legs = remembered(monkeypatch, covertype, "stochastic_legs")
        runners = remembered(monkeypatch, covertype, "Runner")
        result = covertype.run(progress=False)
        assert runners[0].starts.shape == (8, 4)
        return result, races[0], legs[0]


@pytest.fixture(scope="module")
def found(told_and_made):
    return told_and_made[1]


@pytest.fixture(scope="module")
def biased(told_and_made):
    return told_and_made[2]


def test_the_experiment_tells_how_far_it_came_and_whether_stochastic_gradients_moved(
    told_and_made, found
):
    words, table, verdict, *others = told_and_made[0].told
    assert "1,000 × 4" in words
    assert [row[9] for row in table.rows[-2:]] == ["5.77", "3.64"]
    assert verdict.startswith("Goal: a speed-up of 5.77 the paper's way")
    assert (covertype.NOISE in others) == (found[CORRECTED].acceptance < covertype.MOVES)
    assert set(told_and_made[0].figures) == {"covertype-marginals.png", "covertype-traces.png"}


def test_stochastic_gradients_that_move_need_no_excuse():
    assert covertype.stuck(SimpleNamespace(acceptance=0.01)) == [covertype.NOISE]
    assert covertype.stuck(SimpleNamespace(acceptance=0.5)) == []


def test_the_race_has_the_corrected_stochastic_gradients_in_it(found):
    assert [leg.name for leg in found.legs] == [STANDARD, CORRECTED, AS_THE_PAPER, AS_WE_WOULD]
    assert all(leg.run.exact for leg in found.legs)
    assert found[CORRECTED].acceptance < found[STANDARD].acceptance


def test_the_larger_the_learning_rate_the_wider_sghmc(found, biased):
    rows = {row[0]: row for row in covertype.spreads_table(found, biased).rows}
    assert float(rows["SGHMC, η = 0.004"][2]) > 1.3
    assert rows["SGHMC, η = 0.004"][-1] == "no"
    for name in (STANDARD, AS_WE_WOULD):
        assert float(rows[name][2]) == pytest.approx(1, abs=0.15)
        assert rows[name][-1] == "yes"


def test_the_figures_can_be_drawn(found, biased, tmp_path):
    for figure in (covertype.marginals_figure(found, biased), covertype.traces_figure(found)):
        save(figure, tmp_path / "figure.png")
        assert (tmp_path / "figure.png").stat().st_size > 10_000
