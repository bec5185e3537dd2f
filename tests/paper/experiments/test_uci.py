"""The three regressions of UCI's: how their race is run, at a small size."""

from dataclasses import replace

import numpy as np

from nnghmc import BlockMLP
from nnghmc.paper.experiments import uci
from nnghmc.paper.race import PAPER_TRAINING, PAPERS_WAY
from support import regression_of_data, remembered


def test_each_share_of_the_draws_is_learned_from(monkeypatch):
    quick = replace(PAPER_TRAINING, epochs=5)
    case = uci.Case(regression_of_data, 0.03, 4.27, BlockMLP(2, 10), quick, most_steps=5)
    monkeypatch.setattr(uci, "DRAWS", 400)
    monkeypatch.setattr(uci, "CASES", {"Small": case})
    races = remembered(monkeypatch, uci, "run_race")
    _, table, verdict, words, _ = uci.run(full=True, progress=False).parts
    legs = races[0].legs
    assert [leg.name for leg in legs[1:4]] == [
        f"{PAPERS_WAY}, {share}" for share in ("10%", "15%", "20%")
    ]
    collected = [len(list(leg.run.gradient_data.by_trajectory())) for leg in legs[1:4]]
    assert collected == [40, 56, 80]  # as many in each of the chains
    assert [leg.draws for leg in legs] == [400, 395, 393, 390, 400]
    assert legs[0].run.acceptance > 0.5
    assert {leg.run.title for leg in legs[1:4]} == {"NNgHMC, blocks"}
    np.testing.assert_allclose(abs(legs[0].axes.T @ legs[0].axes), np.eye(4), atol=1e-9)
    assert table.title.startswith("Small, 400 draws")
    assert table.rows[-1][9] == "4.27"
    assert verdict.startswith("The paper reports a speed-up of 4.27. Here the paper's way gives")
    assert " at best, and our way " in verdict
    assert "1,000 × 4" in words


def test_the_cases_are_the_paper_s():
    assert {name: case.speed_up for name, case in uci.CASES.items()} == {
        "Online News": 4.27,
        "Census Income": 2.19,
        "Dota2": 5.44,
    }
