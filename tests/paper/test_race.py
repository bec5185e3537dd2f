"""The race of every timed table: same draws in all, and whole runs computed from rates."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from nnghmc import HMC, Auto, GradientMLP, diagnostics
from nnghmc.engine.cost import Cost, PhaseCost
from nnghmc.paper.experiment import markdown_table
from nnghmc.paper.race import (
    CHAINS,
    OUR_WAY,
    PAPER_TRAINING,
    PAPERS_WAY,
    STANDARD,
    Course,
    Draws,
    Leg,
    Race,
    Runner,
    paper_row,
    race,
)
from nnghmc.paper.targets import logistic

COURSE = Course(
    step_size=0.1,
    most_steps=5,
    draws=500,
    collected=160,
    network=GradientMLP(20),
    training=replace(PAPER_TRAINING, epochs=5),
    quick=Draws(true=100, collected=80, learned=200),
    warmup=10,
)


@pytest.fixture(scope="module")
def found():
    return race(logistic(200, 3, seed=2), COURSE, full=False, progress=False)


def test_the_draws_are_those_of_the_quick_form(found):
    assert [run.draws.shape[:2] for run in found.runs] == [(8, 100), (8, 200), (8, 210)]
    learned = found[PAPERS_WAY]
    assert learned.handed_over
    collected = list(learned.gradient_data.without_starts().by_trajectory())
    assert len(collected) == 80
    assert {len(rows) for rows in collected} == {1, 2, 3, 4, 5}
    assert isinstance(found[STANDARD].method, HMC)
    assert found[OUR_WAY].method == Auto()
    assert found[OUR_WAY].story


def test_the_full_form_has_the_paper_s_draws():
    assert COURSE.numbers(full=True) == Draws(500, 160, 480)
    assert COURSE.numbers(full=False) == COURSE.quick


def test_a_whole_run_is_extrapolated_from_rates():
    """Compiling and warm-up count once, all else in proportion to the draws of a whole run."""
    costs = {
        "warmup": PhaseCost(seconds=3.0, compile_seconds=1.0),
        "collect": PhaseCost(seconds=5.0, compile_seconds=1.0),
        "train": PhaseCost(seconds=4.0, compile_seconds=2.0),
        "sample": PhaseCost(seconds=11.0, compile_seconds=1.0),
    }
    draws = np.random.default_rng(0).normal(size=(CHAINS, 100, 2))
    leg = Leg("", SimpleNamespace(cost=Cost(**costs), draws=draws), 1000, collected_share=0.5)
    assert leg.extrapolated
    assert leg.seconds() == pytest.approx(3 + (1 + 4 * 2) + (2 + 2 * 2) + (1 + 10 * 10))
    assert leg.seconds("sample") == pytest.approx(101)
    np.testing.assert_allclose(leg.ess, CHAINS + 10 * (diagnostics.bulk_ess(draws) - CHAINS))
    assert leg.rate() == pytest.approx(np.median(leg.ess) / leg.seconds())


def test_chains_that_stand_still_do_not_gain_by_a_longer_run():
    draws = np.random.default_rng(0).normal(size=(CHAINS, 1, 2)) * np.ones((1, 100, 1))
    draws += 1e-6 * np.random.default_rng(1).normal(size=draws.shape)
    leg = Leg("", SimpleNamespace(draws=draws), 1000)
    assert np.all(leg.ess < 3 * CHAINS)


def test_a_whole_run_is_not_extrapolated():
    cost = Cost(sample=PhaseCost(seconds=2.0, compile_seconds=1.0))
    run = SimpleNamespace(cost=cost, draws=np.zeros((CHAINS, 100, 2)))
    leg = Leg("", run, 100)
    assert not leg.extrapolated
    assert leg.seconds() == 2.0


def test_the_paper_s_way_is_trained_as_its_course_says(found):
    assert len(found[PAPERS_WAY].surrogate.report.losses) == 5


def test_a_runner_passes_its_starts_on(monkeypatch):
    arguments = {}
    monkeypatch.setattr("nnghmc.paper.race.whole_run", lambda *_, **named: arguments.update(named))
    starts = np.zeros((CHAINS, 2))
    Runner(None, COURSE, starts=starts).sample(1, HMC())
    assert arguments["initial_positions"] is starts


def test_the_table_has_ours_and_the_paper_s(found):
    table = found.table("a title", [paper_row("NNgHMC", 0.6, 40, 6.75, 4.5)])
    assert [row[0] for row in table.rows] == [
        STANDARD,
        PAPERS_WAY,
        OUR_WAY,
        "the paper: NNgHMC",
    ]
    assert table.rows[0][9:] == ("1.00", "1.00")
    assert table.rows[3] == ("the paper: NNgHMC", "0.60", *[""] * 5, "40", "6.75", "4.50", "")
    assert all(row[7].endswith(" *") for row in table.rows[:3])
    assert [float(row[6]) for row in table.rows[:3]] == pytest.approx([1] * 3, abs=0.1)
    assert "extrapolated to the whole run" in found.remarks
    first, _, header, *lines = str(table).splitlines()
    assert first == "a title"
    assert len({len(line) for line in (header, *lines[:3])}) == 1
    assert table.markdown.count("|\n|") == 5
    assert markdown_table(("", "|z|"), [("a", "1")])[0] == r"|  | \|z\| |"


def fake_leg(name, size, seconds, apart=0.0):
    """A leg of normal draws, `size` in each chain; the chains may lie apart."""
    draws = np.random.default_rng(0).normal(size=(CHAINS, size, 2))
    draws += apart * np.arange(CHAINS)[:, np.newaxis, np.newaxis]
    cost = Cost(sample=PhaseCost(seconds=seconds))
    return Leg(name, SimpleNamespace(cost=cost, draws=draws), size)


def test_a_speed_up_below_the_paper_s_is_explained():
    fast = fake_leg(f"{PAPERS_WAY}, 20%", 100, 1.0), fake_leg(OUR_WAY, 100, 0.1)
    found = Race((fake_leg(STANDARD, 100, 5.0), fake_leg(f"{PAPERS_WAY}, 10%", 100, 4.0), *fast))
    assert found.verdict(4.5, "The reason.") == (
        "The paper reports a speed-up of 4.50. "
        "Here the paper's way gives 5.00 at best, and our way 50.00."
    )
    assert found.verdict(5.5, "The reason.").endswith("50.00. The reason.")


def test_too_few_draws_of_the_measure_are_mentioned():
    for apart in (0.0, 1.0):
        found = Race((fake_leg(STANDARD, 100, 1.0, apart), fake_leg(OUR_WAY, 100, 1.0)))
        words = "R-hat of standard HMC is above 1.1 in 2 of 2 coordinates: so few draws"
        assert found.doubt.startswith(words) == bool(apart)
        assert bool(found.doubt) == bool(apart)


def test_directions_are_looked_at_instead_of_coordinates():
    """Chains that lie apart along the diagonal do so in both coordinates, and in one direction."""
    axes = np.array([[1.0, 1.0], [1.0, -1.0]]) / np.sqrt(2)
    leg = replace(fake_leg(STANDARD, 100, 1.0, apart=1.0), axes=axes)
    assert leg.rhat[0] > 1.5
    assert leg.rhat[1] < 1.1
    np.testing.assert_allclose(leg.ess, diagnostics.bulk_ess(leg.run.draws @ axes))
    found = Race((leg,))
    assert "above 1.1 in 1 of 2 principal directions" in found.doubt
    assert "over the principal directions of the normal approximation" in found.remarks
