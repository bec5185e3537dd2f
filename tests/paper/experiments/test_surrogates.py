"""Table 4 of the paper, the corners of it; `nnghmc reproduce surrogates` makes the whole."""

from dataclasses import replace

import pytest

from nnghmc import GaussianProcess, QuadraticPlus
from nnghmc.paper.experiments.surrogates import MODELS, PAPER, measure_cells, table


@pytest.fixture(scope="module")
def found():
    """What takes longest is cut: the process learns from half of the points, which is an eighth of
    the work, and the default, for which a quadratic is all there is, trains for a few epochs."""
    quicker = {
        "Gaussian process": (GaussianProcess(points=250), MODELS["Gaussian process"][1]),
        "default": (QuadraticPlus(), replace(QuadraticPlus.training, epochs=20)),
    }
    with pytest.MonkeyPatch.context() as monkeypatch:
        for name, model in quicker.items():
            monkeypatch.setitem(MODELS, name, model)
        return measure_cells(0, progress=False, dimensions=(10, 40), points=(500,))


def test_corners_of_the_table(found):
    values = {(cell.dim, cell.model): cell.acceptance for cell in found}
    for dim in (10, 40):
        assert values[dim, "network"] > PAPER[dim][0] - 0.05
        assert values[dim, "default"] >= 0.97
        assert values[dim, "true gradient"] >= values[dim, "default"] - 0.01
    assert values[10, "Gaussian process"] > 0.95
    assert values[40, "Gaussian process"] < 0.2  # the collapse


def test_the_table_shows_ours_beside_the_paper(found):
    text = str(table(found))
    assert "network, the paper" in text
    assert "0.61" in text
    assert max(map(len, text.splitlines())) <= 100
