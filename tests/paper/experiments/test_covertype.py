"""Cover Type's experiment on a small regression: what is exact agrees, SGHMC is too wide."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from nnghmc import plots
from nnghmc.paper.experiments import covertype
from nnghmc.paper.experiments.covertype import CORRECTED
from nnghmc.paper.race import OUR_WAY, PAPER_TRAINING, PAPERS_WAY, STANDARD
from support import regression_of_data, remembered


@pytest.fixture(scope="module")
def experiment():
    """The result of the experiment, its race, and the legs of SGHMC."""
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
        monkeypatch.setattr(covertype, "BATCH_SIZE", 100)
        monkeypatch.setattr(covertype, "LEARNING_RATES", (4e-3, 4e-5))
        monkeypatch.setattr(covertype, "cover_type", regression_of_data)
        races = remembered(monkeypatch, covertype, "run_race")
        legs = remembered(monkeypatch, covertype, "run_stochastic")
        runners = remembered(monkeypatch, covertype, "Runner")
        result = covertype.run(progress=False)
        assert runners[0].starts.shape == (8, 4)
        return result, races[0], legs[0]


@pytest.fixture(scope="module")
def found(experiment):
    return experiment[1]


@pytest.fixture(scope="module")
def biased(experiment):
    return experiment[2]


def test_the_result_compares_with_the_paper_and_explains_low_acceptance(experiment, found):
    words, table, verdict, *others = experiment[0].parts
    assert "1,000 × 4" in words
    assert [row[9] for row in table.rows[-2:]] == ["5.77", "3.64"]
    assert verdict.startswith("The paper reports a speed-up of 5.77. Here the paper's way gives")
    assert (covertype.NOISE in others) == (found[CORRECTED].acceptance < covertype.MOVES)
    assert set(experiment[0].figures) == {"covertype-marginals.png", "covertype-traces.png"}


def test_only_low_acceptance_is_explained():
    assert covertype.explain_low_acceptance(SimpleNamespace(acceptance=0.01)) == [covertype.NOISE]
    assert covertype.explain_low_acceptance(SimpleNamespace(acceptance=0.5)) == []


def test_the_race_has_the_corrected_stochastic_gradients_in_it(found):
    assert [leg.name for leg in found.legs] == [STANDARD, CORRECTED, PAPERS_WAY, OUR_WAY]
    assert all(leg.run.exact for leg in found.legs)
    assert found[CORRECTED].acceptance < found[STANDARD].acceptance


def test_the_larger_the_learning_rate_the_wider_sghmc(found, biased):
    rows = {row[0]: row for row in covertype.spreads_table(found, biased).rows}
    assert float(rows["SGHMC, η = 0.004"][2]) > 1.3
    assert rows["SGHMC, η = 0.004"][-1] == "no"
    for name in (STANDARD, OUR_WAY):
        assert float(rows[name][2]) == pytest.approx(1, abs=0.15)
        assert rows[name][-1] == "yes"


def test_the_figures_can_be_drawn(found, biased, tmp_path):
    for figure in (covertype.marginals_figure(found, biased), covertype.traces_figure(found)):
        plots.save(figure, tmp_path / "figure.png")
        assert (tmp_path / "figure.png").stat().st_size > 10_000
