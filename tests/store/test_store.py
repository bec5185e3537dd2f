"""Stored runs: draws on disk as they are made, the same after any stop, and clear refusals."""

import errno
import json
import shutil
import subprocess
from dataclasses import dataclass, replace

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
import xarray
import zarr

import nnghmc
from nnghmc import Auto, GradientMLP, Posterior, from_log_density, resume, sample
from nnghmc.engine.progress import Silent
from nnghmc.errors import SettingsError, StoreError
from nnghmc.platform.files import seal
from nnghmc.run import arviz
from nnghmc.run.corridor import Surroundings, extend
from nnghmc.store.journal import Journal
from support import (
    QUICK,
    logistic_data,
    logistic_log_likelihood,
    logistic_log_prior,
)
from support_store import StopAfter, assert_same, conducted, group, without_clock

LEARN = {"method": Auto(way="learn"), "progress": False}
NUTS = {"method": "nuts", "progress": False}
WAYS = {"learned": LEARN, "nuts": NUTS, "schedule": QUICK}


def regression(scale=10.0, **options):
    return Posterior(
        logistic_log_likelihood,
        lambda parameters: 10.0 / scale * logistic_log_prior(parameters),
        options.pop("data", logistic_data()),
        {"beta": np.zeros(3)},
        constrain=lambda parameters: {"odds": jnp.exp(parameters["beta"])},
        dims={"odds": ["feature"]},
        coords={"feature": ["age", "height", "weight"]},
    )


@pytest.fixture(scope="module")
def posterior():
    return regression()


@pytest.fixture(scope="module")
def stored(posterior, tmp_path_factory):
    """A stored run of each kind, which no test may change."""
    folders = {name: tmp_path_factory.mktemp("stores") / name for name in WAYS}
    return {
        name: sample(posterior, 60, 3, seed=1, store=folders[name], **settings)
        for name, settings in WAYS.items()
    }


@pytest.fixture
def copied(stored, tmp_path):
    """A store that may be changed."""
    shutil.copytree(stored["schedule"].store, tmp_path / "copy")
    return tmp_path / "copy"


@pytest.mark.parametrize("way", WAYS)
def test_a_store_changes_no_draw(way, posterior, stored):
    plain = sample(posterior, 60, 3, seed=1, **WAYS[way])
    assert_same(stored[way], plain)
    assert without_clock(stored[way].events) == without_clock(plain.events)
    counts = ("true_potentials", "true_gradients", "learned_gradients")
    for phase in ("warmup", "collect", "train", "sample"):
        ours, theirs = (getattr(run.cost, phase) for run in (stored[way], plain))
        assert [getattr(ours, c) for c in counts] == [getattr(theirs, c) for c in counts]


def test_the_draws_are_there_for_xarray_and_arviz(stored, posterior):
    run = stored["learned"]
    odds = group(run.store, "posterior")["odds"]
    assert odds.dims == ("chain", "draw", "feature")
    assert list(odds.feature.values) == ["age", "height", "weight"]
    np.testing.assert_allclose(odds, np.exp(run.draws), rtol=1e-12)
    positions = group(run.store, "unconstrained_posterior")["position"]
    np.testing.assert_array_equal(positions, run.draws)
    assert list(positions.coordinate.values) == posterior.layout.coordinate_names
    stats = group(run.store, "sample_stats")
    assert stats["diverging"].dtype == bool
    for name, values in run.stats.items():
        np.testing.assert_array_equal(stats[name], values)
    tree = xarray.open_datatree(run.store / "draws.zarr", engine="zarr")
    pd.testing.assert_frame_equal(arviz.summary(tree), run.summary())


def test_draws_can_be_read_while_the_run_goes_on(tmp_path, posterior):
    seen = []

    class Look(Silent):
        def advance(self, draws, acceptance):
            folder = tmp_path / "run" / "draws.zarr"
            if (folder / ".zmetadata").exists():
                groups = ("posterior", "sample_stats", "unconstrained_posterior")
                sizes = {group(tmp_path / "run", name).sizes["draw"] for name in groups}
                assert len(sizes) == 1
                seen.append((sizes.pop(), group(tmp_path / "run", "posterior")["odds"].values))

    store, method = tmp_path / "run", QUICK["method"]
    run = conducted(posterior, 60, 3, 1, method, store, 7, reporter=Look(), eager=True)
    lengths = [length for length, _ in seen]
    assert lengths == sorted(lengths)
    assert len(set(lengths)) > 5
    for length, odds in seen:
        np.testing.assert_array_equal(odds, group(run.store, "posterior")["odds"][:, :length])


def test_warm_up_and_what_was_learned_are_there_too(stored):
    run = stored["schedule"]
    warmup = group(run.store, "warmup_posterior")["odds"]
    np.testing.assert_allclose(warmup, np.exp(run.warmup_draws), rtol=1e-12)
    np.testing.assert_array_equal(group(run.store, "warmup_sample_stats")["lp"],
                                  run.warmup_stats["lp"])  # fmt: skip
    learned = nnghmc.load_surrogate(run.store / "surrogate.npz")
    point = np.array([0.1, 0.2, 0.3])
    np.testing.assert_array_equal(learned.gradient(point), run.surrogate.gradient(point))


@pytest.mark.parametrize("way", WAYS)
def test_a_complete_run_comes_back(way, posterior, stored):
    files = [path for path in stored[way].store.rglob("*") if path.is_file()]
    before = {path: path.stat().st_mtime_ns for path in files if path.name != "lock"}
    run = resume(stored[way].store, posterior, progress=False)
    assert_same(run, stored[way])
    assert run.complete
    assert list(map(repr, run.events)) == list(map(repr, stored[way].events))  # NaN is not NaN
    assert run.title == stored[way].title
    assert str(run.surrogate) == str(stored[way].surrogate)
    assert run.cost == stored[way].cost
    np.testing.assert_array_equal(run.warmup_draws, stored[way].warmup_draws)
    assert before == {path: path.stat().st_mtime_ns for path in files if path.name != "lock"}


@pytest.mark.parametrize("way", WAYS)
def test_extending_is_as_good_as_a_longer_run(way, posterior, tmp_path):
    settings = WAYS[way]
    longer = sample(posterior, 90, 3, seed=1, **settings)
    in_memory = sample(posterior, 60, 3, seed=1, **settings)
    on_disk = sample(posterior, 60, 3, seed=1, store=tmp_path / "run", **settings)
    for run in (in_memory, on_disk):
        first, second = run.draws.copy(), run.extend(20, progress=False)
        assert_same(second.extend(10, progress=False), longer)
        np.testing.assert_array_equal(run.draws, first)
        assert second.draws.shape == (3, 80, 3)
        assert second.cost.warmup == run.cost.warmup
    resumed = resume(tmp_path / "run", posterior, progress=False)
    assert_same(resumed, longer)
    assert resumed.complete
    extended = in_memory.extend(30, progress=False)
    assert extended.cost.sample.learned_gradients == longer.cost.sample.learned_gradients
    assert extended.cost.sample.true_potentials == longer.cost.sample.true_potentials
    with pytest.raises(StoreError, match="has since become one of 90; extend that one"):
        on_disk.extend(10, progress=False)
    with pytest.raises(SettingsError, match="draws must be a positive whole number, got 0"):
        in_memory.extend(0)


LOOKS = {"learned": (0, 5, 21, 40, 66), "nuts": (3, 60, 120), "schedule": (3, 15, 30)}


@pytest.mark.parametrize(("way", "looks"), [(way, n) for way in LOOKS for n in LOOKS[way]])
def test_a_request_to_stop_and_resume(way, looks, posterior, stored, tmp_path):
    method, stop = stored[way].method, StopAfter(looks)
    run = conducted(posterior, 60, 3, 1, method, tmp_path / "run", 9, stop=stop)
    assert not run.complete
    assert run.draws.shape[1] < 60
    np.testing.assert_array_equal(run.draws, stored[way].draws[:, : run.draws.shape[1]])
    again = resume(tmp_path / "run", posterior, progress=False)
    assert again.complete
    assert_same(again, stored[way])


def test_a_request_to_stop_while_extending_and_resume(posterior, tmp_path):
    settings = {**QUICK, "chunk_size": 9}
    run = sample(posterior, 20, 3, seed=1, store=tmp_path / "run", **settings)
    stopped = extend(run, 60, Surroundings(progress=False, stop=StopAfter(3)))
    assert not stopped.complete
    assert 20 < stopped.draws.shape[1] < 80
    again = resume(tmp_path / "run", posterior, progress=False)
    assert again.complete
    assert_same(again, sample(posterior, 80, 3, seed=1, **settings))


def test_a_surrogate_and_arrays_among_the_arguments_survive(posterior, stored, tmp_path):
    method = replace(
        QUICK["method"],
        surrogate=stored["schedule"].surrogate,
        inverse_mass_matrix=np.full(3, 0.02),
        step_size=(0.5, 0.9),
    )
    settings = {"method": method, "initial_positions": np.full((3, 3), 0.1), "progress": False}
    expected = sample(posterior, 20, 3, seed=5, **settings)
    sample(posterior, 20, 3, seed=5, store=tmp_path / "run", **settings)
    for name in ("journal.jsonl", "status.json"):  # everything is made anew
        (tmp_path / "run" / name).unlink()
    shutil.rmtree(tmp_path / "run" / "journal")
    assert_same(resume(tmp_path / "run", posterior, progress=False), expected)


def test_a_function_that_dies_in_mid_run_leaves_nothing_of_it_in_the_store(tmp_path):
    """Its last chunk is full of rejections that are none: a run that goes on must not know them."""
    calls_left = [np.inf]

    def value_and_grad(q):
        calls_left[0] -= 1
        if calls_left[0] < 0:
            raise ConnectionError("the service is gone")
        return -0.5 * q @ q, -q

    method, posterior = QUICK["method"], nnghmc.from_callable(value_and_grad, 2)
    expected = conducted(posterior, 40, 2, 1, method, None, 5)
    for calls in (150, 330, 450):
        calls_left[0] = calls
        with pytest.raises(nnghmc.NnghmcError, match="the service is gone"):
            conducted(posterior, 40, 2, 1, method, tmp_path / str(calls), 5, eager=True)
        calls_left[0] = np.inf
        run = resume(tmp_path / str(calls), posterior, progress=False)
        assert_same(run, expected)


def test_failures_of_a_black_box_survive_extend_and_resume(tmp_path):
    def value_and_grad(q):
        if q[0] > 1.5:
            raise ValueError("out of range")
        return -0.5 * q @ q, -q

    posterior = nnghmc.from_callable(value_and_grad, 2)
    settings = {"method": nnghmc.HMC(0.5, 3, warmup=20), "progress": False}
    run = sample(posterior, 100, 2, seed=1, store=tmp_path / "run", **settings)
    failed = run.calls.failures["ValueError"]
    assert failed > 0
    assert any(note.kind == "failed calls" for note in run.notes)
    again = resume(tmp_path / "run", nnghmc.from_callable(value_and_grad, 2), progress=False)
    assert again.calls.failures["ValueError"] == failed
    longer = again.extend(100, progress=False)
    assert longer.calls.failures["ValueError"] > failed
    assert nnghmc.load(tmp_path / "run").calls == longer.calls
    in_memory = sample(posterior, 100, 2, seed=1, **settings).extend(100, progress=False)
    assert in_memory.calls.failures == longer.calls.failures


# What is refused


def test_a_folder_that_is_taken(posterior, stored, tmp_path):
    with pytest.raises(StoreError, match=r"holds a run already\. Go on with it by nnghmc\.resume"):
        sample(posterior, store=stored["nuts"].store)
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(StoreError, match="must be a new or empty folder"):
        sample(posterior, store=tmp_path)
    with pytest.raises(StoreError, match=r"must be a folder, and .*mine\.txt is a file"):
        sample(posterior, store=tmp_path / "mine.txt")
    with pytest.raises(StoreError, match="can be written to"):
        sample(posterior, store=tmp_path / "mine.txt" / "deeper")
    assert (tmp_path / "mine.txt").read_text() == "mine"


def test_a_folder_without_permission(posterior):
    with pytest.raises(StoreError, match="must be a folder that can be written to; /proc/nnghmc"):
        sample(posterior, store="/proc/nnghmc")


def test_what_is_not_a_store(tmp_path):
    with pytest.raises(StoreError, match="there is no such folder"):
        resume(tmp_path / "nowhere")
    with pytest.raises(StoreError, match=r"sample\(\.\.\., store=\.\.\.\) has made"):
        resume(tmp_path)


def test_without_its_posterior(copied):
    with pytest.raises(StoreError, match=r"give the model that it was begun with"):
        resume(copied)


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (lambda: regression(scale=11.0), "its log density at a fixed point"),
        (lambda: regression(data=logistic_data(seed=1)), "its data are different"),
        (
            lambda: from_log_density(lambda p: -(p**2).sum(), np.zeros(3)),
            r"its parameters are beta",
        ),
    ],
)
def test_another_posterior(copied, other, reason):
    with pytest.raises(StoreError, match=f"belongs to another posterior: {reason}"):
        resume(copied, other())


def as_version(folder, version):
    """Have the header say that another version of the package wrote it."""
    header = json.loads((folder / "store.json").read_text())
    header = {**header, "package_version": version}
    del header["seal"]
    (folder / "store.json").write_text(json.dumps({**header, "seal": seal(header)}))


def test_a_run_that_another_version_began_does_not_go_on(posterior, stored, tmp_path):
    method = stored["schedule"].method
    stopped = conducted(posterior, 60, 3, 1, method, tmp_path / "run", 9, stop=StopAfter(15))
    assert not stopped.complete
    as_version(tmp_path / "run", "0.0.1")
    with pytest.raises(StoreError, match=r"begun by nnghmc 0\.0\.1, and this is"):
        resume(tmp_path / "run", posterior)
    assert_same(nnghmc.load(tmp_path / "run"), stopped)


def test_a_complete_run_of_another_version_comes_back(copied, posterior, stored):
    as_version(copied, "0.0.1")
    run = resume(copied, posterior, progress=False)
    assert_same(run, stored["schedule"])
    with pytest.raises(StoreError, match=r"begun by nnghmc 0\.0\.1"):
        run.extend(10, progress=False)
    assert run.draws.shape[1] == 60


def test_another_machine_is_noted(posterior, tmp_path, stored):
    method = stored["schedule"].method
    conducted(posterior, 60, 3, 1, method, tmp_path / "run", 9, stop=StopAfter(15))
    header = json.loads((tmp_path / "run" / "store.json").read_text())
    del header["seal"]
    header["jax_version"] = "0.0.9"
    (tmp_path / "run" / "store.json").write_text(json.dumps({**header, "seal": seal(header)}))
    run = resume(tmp_path / "run", posterior, progress=False)
    assert [note.kind for note in run.notes].count("moved") == 1


def _edit_header(folder):
    header = (folder / "store.json").read_text()
    (folder / "store.json").write_text(header.replace('"value": 60', '"value": 61', 1))


def _edit_draws(folder):
    array = zarr.open_group(folder / "draws.zarr")["unconstrained_posterior/position"]
    array[1, 30, 2] = np.nextafter(array[1, 30, 2], 10.0)


def _edit_variable(folder):
    file = folder / "draws.zarr" / "posterior" / "odds" / "0.0.0"
    file.write_bytes(file.read_bytes()[:-8])


DAMAGES = {
    "edited header": (_edit_header, r"store\.json has changed"),
    "torn header": (lambda f: (f / "store.json").write_text("{"), r"store\.json is not what"),
    "edited arguments": (
        lambda f: (f / "arguments.npz").write_bytes(b""),
        r"arguments\.npz has changed",
    ),
    "missing arguments": (lambda f: (f / "arguments.npz").unlink(), r"arguments\.npz: No such"),
    "edited draws": (_edit_draws, r"the draws 0 to 59 in draws\.zarr have changed"),
    "torn variable": (_edit_variable, r"draws\.zarr"),
    "missing draws": (lambda f: shutil.rmtree(f / "draws.zarr"), r"draws\.zarr is missing"),
    "missing variable": (
        lambda f: shutil.rmtree(f / "draws.zarr" / "sample_stats" / "lp"),
        r"draws\.zarr",
    ),
    "missing file": (
        lambda f: (f / "draws.zarr" / "sample_stats" / "lp" / "0.0").unlink(),
        r"the draws 0 to 59 in draws\.zarr have changed",
    ),
    "missing log": (lambda f: (f / "journal.jsonl").unlink(), r"journal\.jsonl is missing"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_store(copied, posterior, damage):
    change, reason = DAMAGES[damage]
    change(copied)
    with pytest.raises(StoreError, match=f"is damaged: .*{reason}"):
        resume(copied, posterior, progress=False)


@dataclass(frozen=True)
class OwnModel(GradientMLP):
    """A model that the package does not know."""


def test_a_model_of_ones_own(posterior, tmp_path):
    method = replace(QUICK["method"], network=OwnModel(8))
    with pytest.raises(StoreError, match="must be of the package's own classes, and a OwnModel"):
        sample(posterior, store=tmp_path / "run", method=method)
    assert not (tmp_path / "run").exists()


def test_two_runs_at_once(copied, posterior):
    with (
        nnghmc.store.store.Store.open(copied).locked(),
        pytest.raises(StoreError, match="in use by another run"),
    ):
        resume(copied, posterior)


# A disk that fills


@pytest.fixture
def small_disk(tmp_path):
    """A file system of a megabyte."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = (
        shutil.which("mount")
        and not subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], capture_output=True
        ).returncode
    )
    if not mounted:
        pytest.skip("only a superuser can mount a small file system")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_disk_that_fills(small_disk, posterior, tmp_path):
    method = QUICK["method"]
    with pytest.raises(StoreError, match=r"No space left on device.* is safe.*nnghmc\.resume"):
        conducted(posterior, 4000, 3, 1, method, small_disk / "run", 100, eager=True)
    made = group(small_disk / "run", "posterior").sizes["draw"]
    assert made >= 100
    shutil.copytree(small_disk / "run", tmp_path / "larger")
    expected = conducted(posterior, 4000, 3, 1, method, None, 100)
    kept = group(small_disk / "run", "unconstrained_posterior")["position"]
    np.testing.assert_array_equal(kept, expected.draws[:, :made])
    assert_same(resume(tmp_path / "larger", posterior, progress=False), expected)


def test_a_disk_that_fills_in_mid_line(posterior, stored, tmp_path, monkeypatch):
    """The log takes half a line, and no more."""

    def half(journal, line):
        with (tmp_path / "run" / "journal.jsonl").open("ab") as log:
            log.write(json.dumps(line).encode()[:50])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "_append", half)
        with pytest.raises(StoreError, match="No space left on device"):
            sample(posterior, 60, 3, seed=1, store=tmp_path / "run", **QUICK)
    assert_same(resume(tmp_path / "run", posterior, progress=False), stored["schedule"])


def test_draws_spread_over_a_stored_run(stored, monkeypatch):
    run = stored["learned"]
    monkeypatch.setattr(run.kept._files, "rows_per_file", 7)  # read in many parts
    for most in (1, 4, 13, 59, 60, 100):
        step = -(-60 // most)
        positions, potentials = run.kept.spread(most)
        np.testing.assert_array_equal(positions, run.draws[:, ::step])
        np.testing.assert_array_equal(potentials, -run.stats["lp"][:, ::step])


def test_a_kill_right_after_an_extension_was_noted(posterior, tmp_path, copied):
    """The journal asks for more draws, and the status is still that of the complete run."""
    status = (copied / "status.json").read_bytes()
    run = resume(copied, posterior, progress=False)
    stopped = extend(run, 20, Surroundings(progress=False, stop=StopAfter(0)))
    assert not stopped.complete
    before = json.loads((copied / "status.json").read_text())
    assert before["events"] == json.loads(status)["events"]  # known while the run goes on
    (copied / "status.json").write_bytes(status)
    again = resume(copied, posterior, progress=False)
    assert again.draws.shape[1] == 80
    assert again.complete
