"""What came before the first kept draw: the warm-up of several phases in one piece."""

import json

import numpy as np
import pytest

from nnghmc.engine.cost import Cost, PhaseCost
from nnghmc.engine.events import Note
from nnghmc.engine.history import Draws, HistoryInMemory
from nnghmc.engine.method import Prepared
from nnghmc.engine.preparation import Preparation, Warmup
from nnghmc.model.monitor import Tally


def history(draws, **statistics):
    made = HistoryInMemory(2, draws, 3)
    positions = np.arange(draws * 6.0).reshape(draws, 2, 3)
    values = {name: np.full((draws, 2), value) for name, value in statistics.items()}
    made.add(Draws(positions, values), None)
    return made


def test_phases_of_one_name_are_joined_and_others_follow_in_order():
    made = [
        ("warmup", history(2, lp=1.0)),
        ("warmup", history(3, lp=2.0)),
        ("collect", history(4, lp=3.0)),
        ("collect", HistoryInMemory(2, 0, 3)),
    ]
    warmup = Warmup.of(made, 2, 3)
    assert warmup.phases == (("warmup", 5), ("collect", 4))
    assert warmup.draws.shape == (2, 9, 3)
    np.testing.assert_array_equal(warmup.stats["lp"][0], [1] * 2 + [2] * 3 + [3] * 4)


def test_a_statistic_that_a_phase_does_not_have_is_nan_there():
    made = [("warmup", history(2, lp=1.0)), ("warmup", history(1, lp=1.0, depth=5.0))]
    for order in (1, -1):
        stats = Warmup.of(made[::order], 2, 3).stats
        assert np.isnan(stats["depth"]).sum() == 2 * 2
        assert np.nansum(stats["depth"]) == 2 * 5.0


def test_nothing_was_made():
    warmup = Warmup.of([], 2, 3)
    assert warmup.draws.shape == (2, 0, 3)
    assert warmup.phases == ()
    assert warmup.stats == {}


@pytest.mark.parametrize("quick", [False, True])
def test_what_was_written_comes_back(quick):
    """How the kept draws are compiled too: their last digits depend on it."""
    made = Preparation(
        Prepared(None, {"handed_over": True}, quick),
        Warmup.of([("warmup", history(2, lp=1.0))], 2, 3),
        (Note("slow", "it was slow", "wait"),),
        Cost(warmup=PhaseCost(true_gradients=7, seconds=0.5)),
        Tally(potentials=3),
    )
    values = json.loads(json.dumps(made.values()))
    again = Preparation.restored(values, made.content(()), None)
    assert again.prepared == made.prepared
    assert again.warmup.phases == made.warmup.phases
    np.testing.assert_array_equal(again.warmup.draws, made.warmup.draws)
    assert (again.events, again.cost, again.calls) == (made.events, made.cost, made.calls)
