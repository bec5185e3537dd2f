"""A report from a store tells what one from the run itself tells."""

import numpy as np
import pytest

from nnghmc import MiniBatches, Posterior, sample
from nnghmc.errors import StoreError
from nnghmc.report import Contents, contents_of_store
from nnghmc.report.page import page_of
from support import QUICK, logistic_data, logistic_log_likelihood, logistic_log_prior


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    posterior = Posterior(
        logistic_log_likelihood, logistic_log_prior, logistic_data(), {"beta": np.zeros(3)}
    )
    return sample(posterior, 40, 2, store=tmp_path_factory.mktemp("stores") / "run", **QUICK)


def test_a_store_tells_what_the_run_tells(run):
    found, expected = contents_of_store(run.store), Contents.of_run(run)
    for part in ("model", "dim", "chains", "method", "exact", "complete", "seed", "made", "notes"):
        assert getattr(found, part) == getattr(expected, part), part
    assert found.story == expected.story
    assert found.cost == expected.cost
    assert found.scalars.keys() == expected.scalars.keys()
    for name, values in expected.scalars.items():
        np.testing.assert_array_equal(found.scalars[name], values)
    rates = "acceptance_rate"
    np.testing.assert_array_equal(found.whole_statistic(rates), expected.whole_statistic(rates))
    assert found.fit.lines == expected.fit.lines
    np.testing.assert_allclose(found.fit.gradients.true, expected.fit.gradients.true)
    np.testing.assert_allclose(found.fit.gradients.learned, expected.fit.gradients.learned)


def test_a_method_that_is_not_exact_is_told(tmp_path, run):
    batches = MiniBatches(size=50)
    settings = {"step_size": 1e-4, "warmup": 0, "mini_batches": batches, "progress": False}
    inexact = sample(run.posterior, 10, 2, method="sgld", store=tmp_path / "run", **settings)
    assert contents_of_store(tmp_path / "run").notes == inexact.notes
    assert any("is not exact" in note for note in inexact.notes)


def test_a_run_that_has_just_begun_has_a_report_too(run, tmp_path):
    for name in ("store.json", "arguments.npz"):
        (tmp_path / name).write_bytes((run.store / name).read_bytes())
    page = page_of(contents_of_store(tmp_path))
    assert "not complete" in page


def test_an_edited_store_has_no_report(run, tmp_path):
    header = (run.store / "store.json").read_text()
    (tmp_path / "store.json").write_text(header.replace("beta", "gamma"))
    with pytest.raises(StoreError, match="has changed since it was written"):
        contents_of_store(tmp_path)
