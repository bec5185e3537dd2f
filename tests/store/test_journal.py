"""The journal remembers steps by name, drops what a crash cut short, and notices damage."""

import json

import numpy as np
import pytest

from nnghmc.errors import StoreError
from nnghmc.store.journal import FOLDER, LOG, Journal

STEPS = {
    "first": ({"x": np.array([1.5, np.nan])}, 2.0),
    "second": ({"answer": 0.1, "none": float("inf"), "words": ("a", None)}, 3.0),
    "third": ((np.arange(3), {"y": np.array(True)}), 0.0),
}


def written(folder, names=tuple(STEPS), at_once=1):
    journal = Journal(folder, {})
    for number, name in enumerate(names):
        journal.remember(name, *STEPS[name])
        if (number + 1) % at_once == 0:
            journal.write()
    journal.write()
    return journal


def lines(folder):
    return (folder / LOG).read_bytes().splitlines(keepends=True)


@pytest.mark.parametrize("at_once", [1, 2, 3])
@pytest.mark.parametrize("order", [1, -1])
def test_steps_come_back_by_name_in_any_order(tmp_path, at_once, order):
    written(tmp_path, at_once=at_once)
    journal = Journal(tmp_path, {})
    for name, (value, seconds) in list(STEPS.items())[::order]:
        found = journal.recall(name)
        assert found.seconds == seconds
        np.testing.assert_equal(found.value, value)
    assert journal.recall("third").value[0].dtype == np.arange(3).dtype
    assert journal.recall("fourth") is None


def test_it_grows_where_it_ended(tmp_path):
    written(tmp_path, ["first", "second"])
    journal = Journal(tmp_path, {})
    assert journal.recall("third") is None
    journal.remember("third", *STEPS["third"])
    journal.write()
    again = Journal(tmp_path, {})
    assert all(again.recall(name) is not None for name in STEPS)


@pytest.mark.parametrize("cut", [1, 7, 100])
def test_a_line_that_was_cut_short_does_not_count(tmp_path, cut):
    written(tmp_path)
    kept = b"".join(lines(tmp_path)[:2])
    (tmp_path / LOG).write_bytes(kept + lines(tmp_path)[2][:-cut])
    journal = Journal(tmp_path, {})
    assert journal.recall("second") is not None
    assert journal.recall("third") is None
    assert (tmp_path / LOG).read_bytes() == kept


def test_reading_alone_changes_no_file(tmp_path):
    written(tmp_path)
    torn = (tmp_path / LOG).read_bytes()[:-3]
    (tmp_path / LOG).write_bytes(torn)
    journal = Journal(tmp_path, {}, writable=False)
    assert journal.length == 2
    assert (tmp_path / LOG).read_bytes() == torn


def test_an_edited_line_is_refused(tmp_path):
    written(tmp_path)
    first, second, third = lines(tmp_path)
    edited = json.loads(second)
    edited["steps"][0]["seconds"] = 4.0
    (tmp_path / LOG).write_bytes(first + json.dumps(edited).encode() + b"\n" + third)
    with pytest.raises(StoreError, match=r"damaged: line 2 of journal\.jsonl"):
        Journal(tmp_path, {})


@pytest.mark.parametrize("change", ["dropped", "swapped", "not JSON", "not a dictionary"])
def test_lines_out_of_place_are_refused(tmp_path, change):
    written(tmp_path)
    first, second, third = lines(tmp_path)
    found = {
        "dropped": first + third,
        "swapped": second + first + third,
        "not JSON": first + b"{\n" + third,
        "not a dictionary": first + b"[1]\n" + third,
    }[change]
    (tmp_path / LOG).write_bytes(found)
    with pytest.raises(StoreError, match="damaged: line"):
        Journal(tmp_path, {})


def test_fewer_lines_than_were_seen_before_are_refused(tmp_path):
    written(tmp_path)
    (tmp_path / LOG).write_bytes(b"".join(lines(tmp_path)[:2]))
    with pytest.raises(StoreError, match="has 2 lines, and 3 were written"):
        Journal(tmp_path, {}, least=3)


def test_arrays_that_changed_or_are_gone_are_refused(tmp_path):
    written(tmp_path)
    file = tmp_path / FOLDER / "000000.npz"
    contents = bytearray(file.read_bytes())
    contents[len(contents) // 2] ^= 1
    file.write_bytes(contents)
    with pytest.raises(StoreError, match=r"000000\.npz has changed since it was written"):
        Journal(tmp_path, {}).recall("first")
    file.unlink()
    with pytest.raises(StoreError, match=r"000000\.npz: No such file"):
        Journal(tmp_path, {}).recall("first")


def test_notes_stand_beside_the_steps(tmp_path):
    journal = Journal(tmp_path, {})
    journal.remember("first", *STEPS["first"])
    for number in range(5):
        journal.note("kept", {"stop": number}, {"x": np.full(2, number)}, keep=2)
    journal.note("other", {})
    journal.remember("second", *STEPS["second"])
    journal.write()
    again = Journal(tmp_path, {})
    assert [note["stop"] for note in again.notes("kept")] == [0, 1, 2, 3, 4]
    np.testing.assert_array_equal(again.last("kept")["x"], [4, 4])
    assert again.last("absent") is None
    assert again.recall("first") is not None
    assert again.recall("second") is not None
    assert len(list((tmp_path / FOLDER).iterdir())) == 2 + 1 + 2  # two kept notes' arrays are left


def test_what_is_not_of_a_known_kind_is_refused(tmp_path):
    with pytest.raises(StoreError, match="a object cannot be written to a file"):
        Journal(tmp_path, {}).remember("odd", object(), 0.0)


def test_steps_wait_until_it_is_time(tmp_path):
    now = [0.0]
    journal = Journal(tmp_path, {}, clock=lambda: now[0])
    journal.remember("first", *STEPS["first"])
    assert lines(tmp_path) == []
    now[0] = 2.0
    journal.remember("second", *STEPS["second"])
    assert len(lines(tmp_path)) == 1
    eager = Journal(tmp_path, {}, clock=lambda: now[0], eager=True)
    eager.remember("third", *STEPS["third"])
    assert len(lines(tmp_path)) == 2


def test_writing_takes_a_small_share_of_the_time(tmp_path):
    """After a write of a second, the next one waits for 25."""
    now = [0.0]
    journal = Journal(tmp_path, {}, clock=lambda: now[0])

    def take_a_second():
        now[0] += 1.0

    journal.on_write = take_a_second
    for time, name, expected in [(2.0, "first", 1), (27.0, "second", 1), (29.0, "third", 2)]:
        now[0] = time
        journal.remember(name, *STEPS[name])
        assert len(lines(tmp_path)) == expected
