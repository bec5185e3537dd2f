"""The three regressions of UCI's: how their race is run, at a small size."""

from functools import partial

from nnghmc.paper import uci
from nnghmc.paper.race import AS_THE_PAPER
from support import regression_of_data


def test_each_share_of_the_draws_is_learned_from(monkeypatch):
    monkeypatch.setattr(uci, "DRAWS", 400)
    case = uci.Case(regression_of_data, 0.03, 4.27, num_steps=5)
    found = uci.one_race(case, regression_of_data(500), full=True, progress=False)
    names = [leg.name for leg in found.legs]
    assert names[1:4] == [f"{AS_THE_PAPER}, {share}" for share in ("10%", "15%", "20%")]
    collected = [
        len(leg.run.gradient_data.without_starts()) // case.num_steps for leg in found.legs[1:4]
    ]
    assert collected == [40, 60, 80]
    assert [leg.draws for leg in found.legs] == [400, 360, 340, 320, 400]
    assert found.legs[0].run.acceptance > 0.5
    table = found.table("News", [uci.paper_row("NNgHMC", speed_up=case.speed_up)])
    assert table.rows[-1][8] == "4.27"


def test_every_data_set_has_its_table(monkeypatch):
    small = {"Small": uci.Case(partial(regression_of_data, 300), 0.05, 4.27, num_steps=5)}
    monkeypatch.setattr(uci, "DRAWS", 200)
    monkeypatch.setattr(uci, "CASES", small)
    _, table, words, remarks = uci.run(full=True, progress=False).told
    assert table.title.startswith("Small, 200 draws")
    assert len(table.rows) == 6
    assert "300 × 4" in words
    assert "4 chains" in remarks


def test_the_cases_are_the_paper_s():
    assert {name: case.speed_up for name, case in uci.CASES.items()} == {
        "Online News": 4.27,
        "Census Income": 2.19,
        "Dota2": 5.44,
    }
