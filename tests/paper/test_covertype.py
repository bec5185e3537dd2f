"""Cover Type's experiment on a small regression: what is exact agrees, SGHMC is too wide."""

from dataclasses import replace

import pytest

from nnghmc.paper import covertype
from nnghmc.paper.covertype import CORRECTED
from nnghmc.paper.race import AS_THE_PAPER, AS_WE_WOULD, PAPER_TRAINING, STANDARD, Runner
from nnghmc.paper.regressions import laplace_log_prior
from nnghmc.plots import save
from support import regression_of_data


@pytest.fixture(scope="module")
def posterior():
    regression = regression_of_data()
    return regression.posterior(regression.approximation().mean, laplace_log_prior)


@pytest.fixture(scope="module")
def runner(posterior):
    course = replace(
        covertype.COURSE,
        step_size=0.03,
        draws=500,
        collected=200,
        warmup=20,
        training=replace(PAPER_TRAINING, epochs=10),
    )
    return Runner(posterior, course, full=True, progress=False)


@pytest.fixture(scope="module")
def found(runner):
    return covertype.whole_race(runner, batch=500)


@pytest.fixture(scope="module")
def biased(runner):
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setattr(covertype, "LEARNING_RATES", (4e-3, 4e-5))
    legs = covertype.stochastic_legs(runner, 250, batch=100)
    monkeypatch.undo()
    return legs


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
