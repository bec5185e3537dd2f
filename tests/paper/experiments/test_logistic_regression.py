"""The race on the logistic regression, at a small size."""

from dataclasses import replace
from functools import partial

from nnghmc.paper.experiments import logistic_regression
from nnghmc.paper.race import PAPER_TRAINING
from nnghmc.paper.targets import logistic


def test_the_experiment_at_a_small_size(monkeypatch):
    small = {
        "step_size": 0.08,
        "draws": 100,
        "collected": 80,
        "quick": None,
        "training": replace(PAPER_TRAINING, epochs=5),
    }
    course = replace(logistic_regression.COURSE, **small)
    monkeypatch.setattr(logistic_regression, "COURSE", course)
    monkeypatch.setattr(logistic_regression, "logistic", partial(logistic, 600, 8))
    result = logistic_regression.run(progress=False)
    table = result.parts[1]
    acceptances = [float(row[1]) for row in table.rows]
    assert acceptances[0] > 0.7
    assert acceptances[2] > 0.7
    assert acceptances[3:] == [0.8, 0.6]
    assert [row[9] for row in table.rows[3:]] == ["1.00", "4.50"]
    assert list(result.figures) == ["logistic-marginals.png"]
