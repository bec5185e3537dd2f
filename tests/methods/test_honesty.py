"""A run without a note is right: a part of benchmarks/honesty.py, with exact answers."""

import numpy as np
import pytest
from scipy import stats

from honest_targets import known
from honesty import EXPENSIVE, z_scores
from nnghmc import sample

TARGETS = (
    "log gamma, 3",
    "banana",
    "two modes, 0.5 at 4",
    "two modes, 0.05 at 6",
    "quartic, 4",
    "Student, 8 degrees, 5",
    "regression on raw columns",
)
SEEDS = range(7)
FALSE_ALARMS = 1e-3
"""Probability that one of all comparisons of a target is called wrong by chance."""


@pytest.mark.parametrize("name", TARGETS)
def test_no_mean_and_no_standard_deviation_is_wrong_without_a_note(name):
    judged, learned = [], 0
    for seed in SEEDS:
        run = sample(known(name).posterior, 1000, 4, seed, EXPENSIVE, progress=False)
        learned += run.handed_over
        if not run.notes:
            judged.append(z_scores(name, run.draws))
    z = np.concatenate(judged)
    bound = stats.norm.isf(FALSE_ALARMS / 2 / len(z))
    assert np.abs(z).max() < bound, f"z = {np.round(z, 1)}, bound {bound:.1f}"
    assert learned >= 5
    assert len(judged) >= 5
