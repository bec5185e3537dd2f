"""The three regressions of UCI's: how their race is run, at a small size."""

from nnghmc.paper import uci
from nnghmc.paper.race import AS_THE_PAPER
from support import regression_of_data, remembered


def test_each_share_of_the_draws_is_learned_from(monkeypatch):
    case = uci.Case(regression_of_data, 0.03, 4.27, num_steps=5)
    monkeypatch.setattr(uci, "DRAWS", 400)
    monkeypatch.setattr(uci, "CASES", {"Small": case})
    races = remembered(monkeypatch, uci, "one_race")
    _, table, words, _ = uci.run(full=True, progress=False).told
    legs = races[0].legs
    assert [leg.name for leg in legs[1:4]] == [
        f"{AS_THE_PAPER}, {share}" for share in ("10%", "15%", "20%")
    ]
    collected = [len(leg.run.gradient_data.without_starts()) for leg in legs[1:4]]
    assert collected == [number * case.num_steps for number in (40, 60, 80)]
    assert [leg.draws for leg in legs] == [400, 360, 340, 320, 400]
    assert legs[0].run.acceptance > 0.5
    assert table.title.startswith("Small, 400 draws")
    assert table.rows[-1][8] == "4.27"
    assert "2,000 × 4" in words


def test_the_cases_are_the_paper_s():
    assert {name: case.speed_up for name, case in uci.CASES.items()} == {
        "Online News": 4.27,
        "Census Income": 2.19,
        "Dota2": 5.44,
    }
