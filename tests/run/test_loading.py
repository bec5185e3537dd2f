"""Stores are read without their models, by processes that know nothing of them."""

import json
import shutil
import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import nnghmc
from nnghmc.errors import SettingsError, StoreError
from nnghmc.platform.files import seal
from support import QUICK
from support_store import StopAfter, assert_same, conducted

OBSERVED = np.arange(5.0)


def posterior():
    return nnghmc.from_log_density(
        lambda p: -0.5 * jnp.sum(p["x"] ** 2),
        {"x": np.ones(2)},
        constrain=lambda p: {"odds": jnp.exp(p["x"])},
        dims={"odds": ["side"], "y": ["row"]},
        coords={"side": ["left", "right"]},
        observed={"y": OBSERVED},
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("loading") / "run"
    return nnghmc.sample(posterior(), 80, 2, seed=1, store=folder, **QUICK)


@pytest.fixture
def copied(run, tmp_path):
    return shutil.copytree(run.store, tmp_path / "copy")


def with_header(folder, **changes):
    """Change the header and seal it, as another version would have written it."""
    header = json.loads((folder / "store.json").read_text()) | changes
    del header["seal"]
    (folder / "store.json").write_text(json.dumps({**header, "seal": seal(header)}))


def test_a_loaded_run_is_the_run_that_was_made(run):
    loaded = nnghmc.load(run.store)
    assert_same(loaded, run)
    assert str(loaded) == str(run)
    assert list(map(repr, loaded.events)) == list(map(repr, run.events))
    assert loaded.notes == run.notes
    assert loaded.cost == run.cost
    assert loaded.complete
    assert loaded.handed_over
    pd.testing.assert_frame_equal(loaded.summary(), run.summary())
    np.testing.assert_array_equal(loaded.warmup_draws, run.warmup_draws)
    assert loaded.preparation.warmup.phases == run.preparation.warmup.phases
    assert len(loaded.gradient_data) == len(run.gradient_data)
    point = np.array([0.3, -0.2])
    np.testing.assert_array_equal(loaded.surrogate.gradient(point), run.surrogate.gradient(point))
    assert len(loaded.surrogate.held_out) == len(run.surrogate.held_out)


def test_its_tree_has_the_same_groups(run):
    loaded, made = nnghmc.load(run.store).to_tree(), run.to_tree()
    assert set(loaded.children) == set(made.children)
    for name in made.children:
        assert set(loaded[name].data_vars) == set(made[name].data_vars)
    np.testing.assert_allclose(loaded["posterior"]["odds"], made["posterior"]["odds"], rtol=1e-12)
    assert list(loaded["posterior"]["odds"].side.values) == ["left", "right"]
    np.testing.assert_array_equal(loaded["observed_data"]["y"], OBSERVED)
    assert loaded["posterior"].attrs["complete"] == 1


def test_it_cannot_do_what_needs_the_model(run):
    loaded = nnghmc.load(run.store)
    with pytest.raises(SettingsError, match=r"nnghmc\.resume\(.*, model\)\.extend\(10\)"):
        loaded.extend(10)
    with pytest.raises(SettingsError, match="loaded without one"):
        loaded.to_arviz(log_likelihood=True)


READER = """
import sys
import nnghmc
run = nnghmc.load(sys.argv[1])
run.report(sys.argv[2])
print(run.draws.shape, run.complete, len(run.summary()))
"""


def test_a_process_that_cannot_import_the_model(run, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", READER, run.store, tmp_path / "report.html"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.stdout == "(2, 80, 2) True 2\n", done.stderr
    assert "NNgHMC" in (tmp_path / "report.html").read_text()


def test_whatever_version_wrote_it(run, copied):
    with_header(copied, package_version="7.3.1")
    assert_same(nnghmc.load(copied), run)


def test_events_of_kinds_that_are_not_known_keep_their_sentences(run, copied):
    status = json.loads((copied / "status.json").read_text())
    del status["seal"]
    status["events"].append({"event": "Foreseen", "text": "it was foreseen", "values": {"n": 3}})
    (copied / "status.json").write_text(json.dumps({**status, "seal": seal(status)}))
    loaded = nnghmc.load(copied)
    assert loaded.story[-1] == "it was foreseen"
    assert loaded.events[-1].values == {"n": 3}
    assert loaded.events[-1].event == "Foreseen"


@pytest.mark.parametrize(
    ("version", "reason"),
    [(3, "reads formats up to 2; upgrade nnghmc"), (1, "has format 1, which")],
)
def test_other_formats_are_refused_in_one_sentence(copied, version, reason):
    with_header(copied, format_version=version)
    for read in (nnghmc.load, lambda folder: nnghmc.resume(folder, posterior())):
        with pytest.raises(StoreError, match=reason) as refusal:
            read(copied)
        assert str(refusal.value).count(". ") == 0
        assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("looks", [0, 5, 22, 26])
def test_a_run_that_was_stopped(tmp_path, looks):
    stop, method = StopAfter(looks), QUICK["method"]
    made = conducted(posterior(), 80, 2, 1, method, tmp_path / "run", 9, stop=stop, eager=True)
    loaded = nnghmc.load(tmp_path / "run")
    assert not made.complete
    assert not loaded.complete
    np.testing.assert_array_equal(loaded.draws, made.draws)
    assert loaded.kept.length < 80
    assert "incomplete" in str(loaded)
