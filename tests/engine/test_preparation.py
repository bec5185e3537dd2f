"""What came before the first kept draw: the warm-up of several phases in one piece."""

import numpy as np

from nnghmc.engine.history import Draws, HistoryInMemory
from nnghmc.engine.preparation import Warmup


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
