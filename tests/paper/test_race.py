"""The race of every timed table: same draws in all, and whole runs computed from rates."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from nnghmc import GradientMLP
from nnghmc.cost import Cost, PhaseCost
from nnghmc.diagnostics import bulk_ess
from nnghmc.paper.experiment import markdown_table
from nnghmc.paper.race import (
    AS_THE_PAPER,
    AS_WE_WOULD,
    CHAINS,
    PAPER_TRAINING,
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
    learned = found[AS_THE_PAPER]
    assert learned.handed_over
    collected = list(learned.gradient_data.without_starts().by_trajectory())
    assert len(collected) == 80
    assert {len(rows) for rows in collected} == {1, 2, 3, 4, 5}
    assert found[STANDARD].method == "hmc"
    assert found[AS_WE_WOULD].story


def test_the_full_form_has_the_paper_s_draws():
    assert COURSE.made(full=True) == Draws(500, 160, 480)
    assert COURSE.made(full=False) == COURSE.quick


def test_a_whole_run_is_computed_from_rates():
    """Compiling counts once, warm-up as it is, the rest by the draws that were not made."""
    costs = {
        "warmup": PhaseCost(seconds=3.0, compile_seconds=1.0),
        "collect": PhaseCost(seconds=5.0, compile_seconds=1.0),
        "train": PhaseCost(seconds=4.0, compile_seconds=2.0),
        "sample": PhaseCost(seconds=11.0, compile_seconds=1.0),
    }
    draws = np.random.default_rng(0).normal(size=(CHAINS, 100, 2))
    leg = Leg("", SimpleNamespace(cost=Cost(**costs), draws=draws), 1000, collected=0.5)
    assert leg.computed
    assert leg.seconds() == pytest.approx(3 + (1 + 4 * 2) + (2 + 2 * 2) + (1 + 10 * 10))
    assert leg.seconds(("sample",)) == pytest.approx(101)
    np.testing.assert_allclose(leg.sizes, CHAINS + 10 * (bulk_ess(draws) - CHAINS))
    assert leg.rate() == pytest.approx(np.median(leg.sizes) / leg.seconds())


def test_chains_that_stand_still_do_not_gain_by_a_longer_run():
    draws = np.random.default_rng(0).normal(size=(CHAINS, 1, 2)) * np.ones((1, 100, 1))
    draws += 1e-6 * np.random.default_rng(1).normal(size=draws.shape)
    leg = Leg("", SimpleNamespace(draws=draws), 1000)
    assert np.all(leg.sizes < 3 * CHAINS)


def test_what_was_made_whole_is_not_computed():
    cost = Cost(sample=PhaseCost(seconds=2.0, compile_seconds=1.0))
    run = SimpleNamespace(cost=cost, draws=np.zeros((CHAINS, 100, 2)))
    leg = Leg("", run, 100)
    assert not leg.computed
    assert leg.seconds() == 2.0


def test_the_paper_s_way_is_trained_as_its_course_says(found):
    assert len(found[AS_THE_PAPER].surrogate.report.losses) == 5


def test_a_runner_starts_the_chains_where_it_is_told(monkeypatch):
    settings = {}
    monkeypatch.setattr("nnghmc.paper.race.whole_run", lambda *_, **given: settings.update(given))
    starts = np.zeros((CHAINS, 2))
    Runner(None, COURSE, starts=starts).by(1)
    assert settings["initial_positions"] is starts


def test_the_table_has_ours_and_the_paper_s(found):
    table = found.table("a title", [paper_row("NNgHMC", 0.6, 40, 6.75, 4.5)])
    assert [row[0] for row in table.rows] == [
        STANDARD,
        AS_THE_PAPER,
        AS_WE_WOULD,
        "the paper: NNgHMC",
    ]
    assert table.rows[0][9:] == ("1.00", "1.00")
    assert table.rows[3] == ("the paper: NNgHMC", "0.60", *[""] * 5, "40", "6.75", "4.50", "")
    assert all(row[7].endswith(" *") for row in table.rows[:3])
    assert [float(row[6]) for row in table.rows[:3]] == pytest.approx([1] * 3, abs=0.1)
    assert "computed for the whole run" in found.remarks
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


def test_a_goal_that_is_missed_is_explained():
    fast = fake_leg(f"{AS_THE_PAPER}, 20%", 100, 1.0), fake_leg(AS_WE_WOULD, 100, 0.1)
    found = Race((fake_leg(STANDARD, 100, 5.0), fake_leg(f"{AS_THE_PAPER}, 10%", 100, 4.0), *fast))
    reached = found.verdict(4.5, 13, "The reason.")
    assert reached.endswith("Reached: 5.00 and 50.00.")
    assert found.verdict(5.5, 13, "The reason.").endswith("50.00. The reason.")
    assert found.verdict(4.5, 51, "The reason.").endswith("50.00. The reason.")


def test_too_few_draws_of_the_measure_are_told():
    for apart in (0.0, 1.0):
        found = Race((fake_leg(STANDARD, 100, 1.0, apart), fake_leg(AS_WE_WOULD, 100, 1.0)))
        told = "R-hat of standard HMC is above 1.1 in 2 of 2 coordinates: so few draws"
        assert found.unsettled.startswith(told) == bool(apart)
        assert bool(found.unsettled) == bool(apart)


def test_directions_are_looked_at_instead_of_coordinates():
    """Chains that lie apart along the diagonal do so in both coordinates, and in one direction."""
    axes = np.array([[1.0, 1.0], [1.0, -1.0]]) / np.sqrt(2)
    leg = replace(fake_leg(STANDARD, 100, 1.0, apart=1.0), axes=axes)
    assert leg.rhat[0] > 1.5
    assert leg.rhat[1] < 1.1
    np.testing.assert_allclose(leg.sizes, bulk_ess(leg.run.draws @ axes))
    found = Race((leg,))
    assert "above 1.1 in 1 of 2 principal directions" in found.unsettled
    assert "over the principal directions of the normal approximation" in found.remarks
