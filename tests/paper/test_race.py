"""The race of every timed table: same draws in all, and whole runs computed from rates."""

from types import SimpleNamespace

import numpy as np
import pytest

from nnghmc import GradientMLP
from nnghmc.cost import Cost, PhaseCost
from nnghmc.diagnostics import bulk_ess
from nnghmc.paper.race import (
    AS_THE_PAPER,
    AS_WE_WOULD,
    CHAINS,
    STANDARD,
    Course,
    Draws,
    Leg,
    paper_row,
    race,
)
from nnghmc.paper.targets import logistic

COURSE = Course(
    step_size=0.1,
    num_steps=5,
    draws=2000,
    collected=200,
    network=GradientMLP(20),
    epochs=5,
    quick=Draws(true=400, collected=100, learned=800),
    warmup=10,
)


@pytest.fixture(scope="module")
def found():
    return race(logistic(200, 3, seed=2), COURSE, full=False, progress=False)


def test_the_draws_are_those_of_the_quick_form(found):
    assert [run.draws.shape[:2] for run in found.runs] == [(4, 100), (4, 200), (4, 225)]
    learned = found[AS_THE_PAPER]
    assert learned.handed_over
    assert len(learned.gradient_data.without_starts()) == 100 * COURSE.num_steps
    assert found[STANDARD].method == "hmc"
    assert found[AS_WE_WOULD].story


def test_the_full_form_has_the_paper_s_draws():
    assert COURSE.made(full=True) == Draws(2000, 200, 1800)
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
    leg = Leg("", SimpleNamespace(cost=Cost(**costs), draws=draws), 4000, collected=0.5)
    assert leg.computed
    assert leg.seconds() == pytest.approx(3 + (1 + 4 * 2) + (2 + 2 * 2) + (1 + 10 * 10))
    assert leg.seconds(("sample",)) == pytest.approx(101)
    np.testing.assert_allclose(leg.sizes, 10 * bulk_ess(draws))
    assert leg.rate() == pytest.approx(np.median(leg.sizes) / leg.seconds())


def test_what_was_made_whole_is_not_computed():
    cost = Cost(sample=PhaseCost(seconds=2.0, compile_seconds=1.0))
    run = SimpleNamespace(cost=cost, draws=np.zeros((CHAINS, 100, 2)))
    leg = Leg("", run, 400)
    assert not leg.computed
    assert leg.seconds() == 2.0


def test_the_table_has_ours_and_the_paper_s(found):
    table = found.table("a title", [paper_row("NNgHMC", 0.6, 40, 6.75, 4.5)])
    assert [row[0] for row in table.rows] == [
        STANDARD,
        AS_THE_PAPER,
        AS_WE_WOULD,
        "the paper: NNgHMC",
    ]
    assert table.rows[0][8:] == ("1.00", "1.00")
    assert table.rows[3] == ("the paper: NNgHMC", "0.60", "", "", "", "", "40", "6.75", "4.50", "")
    assert all(row[6].endswith(" *") for row in table.rows[:3])
    assert "computed for the whole run" in found.remarks
    first, _, header, *lines = str(table).splitlines()
    assert first == "a title"
    assert len({len(line) for line in (header, *lines[:3])}) == 1
    assert table.markdown.count("|\n|") == 5
