"""Stores: nothing that was written is ever removed, and nothing outside of them is touched."""

import json
import os
import shutil

import jax.numpy as jnp
import numpy as np
import pytest
import zarr

from nnghmc import HMC, from_log_density, load, resume, sample
from nnghmc.errors import StoreError
from nnghmc.store.draws import DrawFiles

SETTINGS = {"method": HMC(0.5, 3, warmup=10), "progress": False}
DRAWS = 60


def posterior(**options):
    return from_log_density(lambda p: -0.5 * jnp.sum(p["x"] ** 2), {"x": np.ones(2)}, **options)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stores") / "run"
    return sample(posterior(), DRAWS, 2, seed=1, store=folder, chunk_size=20, **SETTINGS)


@pytest.fixture
def copied(run, tmp_path):
    return shutil.copytree(run.store, tmp_path / "copy")


def rows_on_disk(folder):
    """All positions that lie in a store, those set aside too."""
    found = []
    for path in folder.glob("draws.zarr*"):
        if path.suffix == ".npz":
            found.append(np.load(path)["unconstrained_posterior/position"])
        else:
            found.append(zarr.open_group(path)["unconstrained_posterior/position"][:])
    return np.concatenate(found, axis=1)


def shorten_journal(folder, lines):
    kept = (folder / "journal.jsonl").read_bytes().splitlines(keepends=True)[:lines]
    (folder / "journal.jsonl").write_bytes(b"".join(kept))


@pytest.mark.parametrize("lines", [0, 1, -1])
def test_a_shortened_journal_is_noticed_and_no_draw_removed(copied, run, lines):
    shorten_journal(copied, lines)
    with pytest.raises(StoreError, match=r"journal\.jsonl has \d+ lines, and \d+ were written"):
        resume(copied, posterior(), progress=False)
    np.testing.assert_array_equal(rows_on_disk(copied), run.draws)


@pytest.mark.parametrize("lines", [0, -2])
def test_draws_are_set_aside_where_no_status_shows_a_shortened_journal(copied, run, lines):
    """As after a crash between the writing of draws and of the line that makes them count."""
    shorten_journal(copied, lines)
    (copied / "status.json").unlink()
    again = resume(copied, posterior(), progress=False)
    np.testing.assert_array_equal(again.draws, run.draws)
    for draw in run.draws[0]:
        assert (rows_on_disk(copied)[0] == draw).all(axis=1).any()
    assert rows_on_disk(copied).shape[1] > DRAWS  # those set aside, and those made anew


def test_a_kill_while_the_groups_are_made_leaves_a_store_that_goes_on(run, tmp_path, monkeypatch):
    written = []

    def killed(files, folder, group, dataset, encoding=None):
        if written:
            raise KeyboardInterrupt  # as good as a kill: nothing is tidied up
        written.append(group)
        return original(files, folder, group, dataset, encoding)

    original = DrawFiles._write_group
    with monkeypatch.context() as patch:
        patch.setattr(DrawFiles, "_write_group", killed)
        with pytest.raises(KeyboardInterrupt):
            sample(posterior(), DRAWS, 2, seed=1, store=tmp_path / "run", **SETTINGS)
    assert written
    again = resume(tmp_path / "run", posterior(), progress=False)
    np.testing.assert_array_equal(again.draws, run.draws)


@pytest.mark.parametrize("name", ["lock", "journal.jsonl", "status.json", "draws.zarr/mine"])
def test_links_out_of_the_store_are_not_followed(copied, tmp_path, name):
    mine = tmp_path / "mine.txt"
    mine.write_text("mine")
    (copied / name).unlink(missing_ok=True)
    (copied / name).symlink_to(mine)
    with pytest.raises(StoreError, match=rf"no symbolic links, and .*{name} is one"):
        resume(copied, posterior(), progress=False)
    assert mine.read_text() == "mine"


def test_a_header_that_speaks_of_far_too_many_rows(copied):
    header = copied / "draws.zarr" / "sample_stats" / "lp" / ".zarray"
    edited = json.loads(header.read_text())
    edited["shape"][1] = 10**11
    header.write_text(json.dumps(edited))
    with pytest.raises(StoreError, match=r"has 100000000000 draws, and 60 were written"):
        resume(copied, posterior(), progress=False)


@pytest.mark.parametrize("status", ["[]", "3", "{", '{"complete": true}', '{"cost": 3}', "null"])
def test_a_status_that_was_edited_is_refused_by_load(copied, status):
    (copied / "status.json").write_text(status)
    with pytest.raises(StoreError, match=r"is damaged: status\.json"):
        load(copied)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"constrain": lambda p: {"x": jnp.exp(p["x"])}}, "it reports x on another scale"),
        ({"constrain": lambda p: {"y": p["x"]}}, "it reports x, and this posterior y"),
        ({"dims": {"x": ["side"]}}, "its dims or coords are different"),
    ],
)
def test_what_is_reported_must_stay_the_same(copied, options, reason):
    with pytest.raises(StoreError, match=f"belongs to another posterior: {reason}"):
        resume(copied, posterior(**options), progress=False)


def test_observed_data_that_changed_are_refused(tmp_path):
    target, folder = posterior(observed={"y": np.arange(5.0)}), tmp_path / "run"
    sample(target, 10, 1, store=folder, **SETTINGS)
    zarr.open_group(folder / "draws.zarr")["observed_data/y"][2] = 7.0
    for read in (load, lambda place: resume(place, target, progress=False)):
        with pytest.raises(StoreError, match=r"the labels in draws\.zarr have changed"):
            read(folder)


@pytest.mark.parametrize("name", ["x" * 300, "ä" * 150, ".hidden"])
def test_names_that_no_file_can_have_are_refused_before_any_time_is_spent(tmp_path, name):
    target = from_log_density(lambda p: -0.5 * p[name] ** 2, {name: 0.0})
    with pytest.raises(StoreError, match="must have a name of at most 200 bytes"):
        sample(target, 10, 1, store=tmp_path / "run", **SETTINGS)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("path", [3, None.__class__, "a\0b", "", b"bytes"])
def test_what_is_no_path(path):
    for function in (lambda: sample(posterior(), store=path), lambda: resume(path)):
        with pytest.raises(StoreError, match="must be the path of a folder, got"):
            function()


DAMAGES = 60
"""In the suite; `python tests/store/test_safety.py 500` makes as many as one likes."""
KINDS = ["truncate", "flip", "delete", "swap", "duplicate", "symlink"]


def damage(folder, generator):
    """Do something to the files that may happen to files, and say what it was."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    path, other = (files[i] for i in generator.choice(len(files), 2, replace=False))
    kind = generator.choice(KINDS)
    contents = path.read_bytes()
    if kind == "truncate":
        path.write_bytes(contents[: generator.integers(0, len(contents) + 1)])
    elif kind == "flip" and contents:
        place = int(generator.integers(len(contents)))
        flipped = bytes([contents[place] ^ (1 << int(generator.integers(8)))])
        path.write_bytes(contents[:place] + flipped + contents[place + 1 :])
    elif kind == "delete":
        path.unlink()
    elif kind == "swap":
        path.write_bytes(other.read_bytes())
        other.write_bytes(contents)
    elif kind == "duplicate":
        path.write_bytes(contents + contents)
    elif kind == "symlink":
        path.rename(folder.parent / "elsewhere")
        path.symlink_to(folder.parent / "elsewhere")
    return f"{kind} {path.relative_to(folder)} {other.relative_to(folder)}"


def readable_rows(folder):
    """The number of draws on disk; zero where a damage has made them unreadable."""
    try:
        return rows_on_disk(folder).shape[1]
    except Exception:
        return 0


def number_of_files(folder):
    return sum(len(names) for _, _, names in os.walk(folder))


def survive(run, folder, seed):
    """Damage a copy of a store, load it, and go on with it: the same draws, or one sentence."""
    shutil.rmtree(folder.parent, ignore_errors=True)
    shutil.copytree(run.store, folder)
    what = damage(folder, np.random.default_rng(seed))
    before, files = readable_rows(folder), number_of_files(folder)
    ended = []
    for attempt in (lambda: load(folder), lambda: resume(folder, run.posterior, progress=False)):
        try:
            np.testing.assert_array_equal(attempt().draws, run.draws, err_msg=what)
            ended.append("the same")
        except StoreError as refusal:
            ended.append("refused" if "\n" not in str(refusal).strip() else str(refusal))
    assert set(ended) <= {"the same", "refused"}, what
    assert "refused" not in ended or number_of_files(folder) >= files, what
    assert readable_rows(folder) >= before, what
    return what, ended


@pytest.mark.parametrize("seed", range(DAMAGES))
def test_any_damage_ends_in_the_same_draws_or_in_one_sentence(run, tmp_path, seed):
    survive(run, tmp_path / "of damages" / "copy", seed)


if __name__ == "__main__":
    import sys
    import tempfile
    from collections import Counter
    from pathlib import Path

    place = Path(tempfile.mkdtemp())
    whole = sample(posterior(), DRAWS, 2, 1, store=place / "run", chunk_size=20, **SETTINGS)
    counted = Counter()
    for number in range(int(sys.argv[1])):
        what, ended = survive(whole, place / "damages" / "copy", number)
        counted[(what.split()[0], *ended)] += 1
    for outcome, times in sorted(counted.items()):
        print(*outcome, times)
    print(sum(counted.values()), "damages, none of which lost a draw")
