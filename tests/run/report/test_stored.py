"""A report of a run that was loaded tells what one of the run itself tells; damage is noticed."""

import shutil
from dataclasses import fields

import numpy as np
import pytest

from nnghmc import SGLD, Auto, Posterior, load, sample
from nnghmc.errors import StoreError
from nnghmc.run.report import Contents, page_of
from support import QUICK, logistic_data, logistic_log_likelihood, logistic_log_prior
from support_report import LEARNING_PAYS

ARRAYS = ("scalars", "stats", "warmup_stats")
METHODS = {
    "schedule": QUICK["method"],
    "automatic": Auto(way="learn", estimate=LEARNING_PAYS),
    "nuts": "nuts",
    "not exact": SGLD(step_size=1e-4, warmup=0, batch_size=50),
}


@pytest.fixture(scope="module")
def posterior():
    return Posterior(
        logistic_log_likelihood, logistic_log_prior, logistic_data(), {"beta": np.zeros(3)}
    )


@pytest.fixture(scope="module", params=METHODS)
def run(request, posterior, tmp_path_factory):
    folder = tmp_path_factory.mktemp("stores") / "run"
    return sample(posterior, 40, 2, method=METHODS[request.param], store=folder, progress=False)


@pytest.fixture(scope="module")
def store(posterior, tmp_path_factory):
    folder = tmp_path_factory.mktemp("stores") / "run"
    return sample(posterior, 40, 2, store=folder, **QUICK).store


@pytest.fixture
def copied(store, tmp_path):
    return shutil.copytree(store, tmp_path / "copied")


def assert_same_fit(found, expected):
    assert found.lines == expected.lines
    np.testing.assert_array_equal(found.losses, expected.losses)
    np.testing.assert_array_equal(found.held_out_losses, expected.held_out_losses)
    assert found.gradients.coordinates == expected.gradients.coordinates
    np.testing.assert_allclose(found.gradients.true, expected.gradients.true)
    np.testing.assert_allclose(found.gradients.learned, expected.gradients.learned)


def test_a_loaded_run_has_the_contents_of_the_run(run):
    found, expected = Contents.of_run(load(run.store)), Contents.of_run(run)
    for part in (part.name for part in fields(Contents)):
        if part not in (*ARRAYS, "fit"):
            assert getattr(found, part) == getattr(expected, part), part
    assert (found.fit is None) == (expected.fit is None)
    if expected.fit is not None:
        assert_same_fit(found.fit, expected.fit)
    for part in ARRAYS:
        mine, theirs = getattr(found, part), getattr(expected, part)
        assert mine.keys() == theirs.keys(), part
        for name, values in theirs.items():
            np.testing.assert_array_equal(mine[name], values)


def test_both_pages_are_the_same(run, tmp_path):
    run.report(tmp_path / "run.html")
    load(run.store).report(tmp_path / "loaded.html")
    assert (tmp_path / "loaded.html").read_text() == (tmp_path / "run.html").read_text()


def test_the_richest_contents_are_compared(run):
    """What is the same because it is missing on both sides would show nothing."""
    contents = Contents.of_run(run)
    learned = run.handed_over
    assert (contents.fit is not None) == bool(contents.probes) == learned
    assert bool(contents.story) == (run.method.adaptive or learned)
    assert contents.phases[-1].draws == 40
    assert (not contents.exact) == ("not exact" in [note.kind for note in contents.notes])


def test_a_run_that_has_just_begun_has_a_report_too(store, tmp_path):
    for name in ("store.json", "arguments.npz"):
        (tmp_path / name).write_bytes((store / name).read_bytes())
    begun = load(tmp_path)
    assert not begun.complete
    page = page_of(Contents.of_run(begun))
    assert "this run is not complete" in page
    assert f"nnghmc resume {tmp_path}" in page


def test_an_edited_header_is_refused(copied):
    header = copied / "store.json"
    header.write_text(header.read_text().replace("beta", "gamma"))
    with pytest.raises(StoreError, match="has changed since it was written"):
        load(copied)


def chunks_of(folder):
    """The files of arrays; those that hold nothing but zeros are not written."""
    return sorted(path for path in folder.rglob("*") if path.name[0].isdigit())


@pytest.mark.parametrize("group", ["posterior", "sample_stats", "unconstrained_posterior"])
@pytest.mark.parametrize("how", ["deleted", "cut short", "edited"])
def test_a_chunk_of_the_draws_that_is_not_as_it_was_is_noticed(copied, group, how):
    arrays = [path for path in (copied / "draws.zarr" / group).iterdir() if path.is_dir()]
    measured = [path for path in arrays if path.name in ("beta", "lp", "position")]
    assert len(measured) == 1
    (chunk,) = chunks_of(measured[0])
    if how == "deleted":
        chunk.unlink()
    else:
        contents = chunk.read_bytes()
        chunk.write_bytes(contents[:-9] + (b"" if how == "cut short" else contents[-9:][::-1]))
    with pytest.raises(StoreError) as refusal:
        load(copied)
    assert f"the store {copied} is damaged: " in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("status", ["[]", "3", "{", "null", '{"complete": true}', '{"cost": 3}'])
def test_an_edited_status_is_refused(copied, status):
    (copied / "status.json").write_text(status)
    with pytest.raises(StoreError, match=r"is damaged: status\.json") as refusal:
        load(copied)
    assert "\n" not in str(refusal.value)


def test_without_a_status_the_draws_have_a_report(copied, store):
    (copied / "status.json").unlink()
    found = load(copied)
    np.testing.assert_array_equal(found.draws, load(store).draws)
    page = page_of(Contents.of_run(found))
    assert "this run is not complete" in page
    assert f"nnghmc resume {copied}" in page
    assert found.cost == found.preparation.cost  # what came later is not known
    assert found.cost.warmup.true_gradients == load(store).cost.warmup.true_gradients
    assert "<dt>made</dt><dd>–</dd>" in page
