"""The journal remembers steps in order, forgets what a crash cut short, and tells damage."""

import json

import numpy as np
import pytest

from nnghmc.errors import StoreError
from nnghmc.interrupts import StopRequest
from nnghmc.journal import FOLDER, LOG, Journal, Step

STEPS = [
    Step("first", {"x": np.array([1.5, np.nan])}, seconds=2.0),
    Step("second", {}, {"answer": 0.1, "none": float("inf")}, seconds=3.0),
    Step("third", {"x": np.arange(3), "y": np.array(True)}),
]


def written(folder, steps=STEPS, at_once=1):
    journal = Journal(folder, StopRequest())
    for number, step in enumerate(steps):
        journal.add(step)
        if (number + 1) % at_once == 0:
            journal.write()
    journal.write()
    return journal


def lines(folder):
    return (folder / LOG).read_bytes().splitlines(keepends=True)


@pytest.mark.parametrize("at_once", [1, 2, 3])
def test_steps_come_back_as_they_were(tmp_path, at_once):
    written(tmp_path, at_once=at_once)
    journal = Journal(tmp_path, StopRequest())
    for step in STEPS:
        found = journal.recall(step.what)
        assert found.values == step.values
        assert found.arrays.keys() == step.arrays.keys()
        for name, values in step.arrays.items():
            np.testing.assert_array_equal(found.arrays[name], values)
            assert found.arrays[name].dtype == values.dtype
    assert journal.seconds_recalled == 5.0
    assert journal.recall("fourth") is None


def test_it_grows_where_it_ended(tmp_path):
    written(tmp_path, STEPS[:2])
    journal = Journal(tmp_path, StopRequest())
    assert [journal.recall(step.what).what for step in STEPS[:2]] == ["first", "second"]
    assert journal.recall("third") is None
    journal.add(STEPS[2])
    journal.write()
    again = Journal(tmp_path, StopRequest())
    assert [again.recall(step.what).what for step in STEPS] == ["first", "second", "third"]


def test_another_step_than_the_next_is_refused(tmp_path):
    written(tmp_path)
    with pytest.raises(StoreError, match="next step is 'first', and the run has come to 'second'"):
        Journal(tmp_path, StopRequest()).recall("second")


@pytest.mark.parametrize("cut", [1, 7, 100])
def test_a_line_that_was_cut_short_does_not_count(tmp_path, cut):
    written(tmp_path)
    kept = b"".join(lines(tmp_path)[:2])
    (tmp_path / LOG).write_bytes(kept + lines(tmp_path)[2][:-cut])
    journal = Journal(tmp_path, StopRequest())
    assert [journal.recall(step.what).what for step in STEPS[:2]] == ["first", "second"]
    assert journal.recall("third") is None
    assert (tmp_path / LOG).read_bytes() == kept


def test_an_edited_line_is_refused(tmp_path):
    written(tmp_path)
    first, second, third = lines(tmp_path)
    edited = json.loads(second)
    edited["steps"][0]["values"]["answer"] = 0.2
    (tmp_path / LOG).write_bytes(first + json.dumps(edited).encode() + b"\n" + third)
    with pytest.raises(StoreError, match=r"damaged: line 2 of journal\.jsonl"):
        Journal(tmp_path, StopRequest())


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
        Journal(tmp_path, StopRequest())


def test_arrays_that_changed_or_are_gone_are_refused(tmp_path):
    written(tmp_path)
    file = tmp_path / FOLDER / "000000.npz"
    contents = bytearray(file.read_bytes())
    contents[len(contents) // 2] ^= 1
    file.write_bytes(contents)
    with pytest.raises(StoreError, match=r"000000\.npz has changed since it was written"):
        Journal(tmp_path, StopRequest())
    file.unlink()
    with pytest.raises(StoreError, match=r"000000\.npz: No such file"):
        Journal(tmp_path, StopRequest())


def test_notes_stand_beside_the_steps(tmp_path):
    journal = Journal(tmp_path, StopRequest())
    journal.add(STEPS[0])
    for number in range(5):
        journal.note({"kind": "kept", "stop": number}, {"x": np.full(2, number)}, keep=2)
    journal.note({"kind": "other"}, {})
    journal.add(STEPS[1])
    journal.write()
    again = Journal(tmp_path, StopRequest())
    assert [note["stop"] for note in again.notes_of("kept")] == [0, 1, 2, 3, 4]
    np.testing.assert_array_equal(again.arrays_of_last("kept")["x"], [4, 4])
    assert [again.recall(step.what).what for step in STEPS[:2]] == ["first", "second"]
    assert len(list((tmp_path / FOLDER).iterdir())) == 2 + 1 + 2  # two kept notes' arrays are left


def test_what_begins_after_a_stop_request_does_not_belong_to_the_run(tmp_path):
    stop = StopRequest()
    journal = Journal(tmp_path, stop)
    assert journal.recall("first") is None
    stop.made = True
    journal.add(STEPS[0])  # begun before
    assert journal.recall("second") is None
    journal.add(STEPS[1])
    journal.write()
    again = Journal(tmp_path, StopRequest())
    assert again.recall("first") is not None
    assert again.recall("second") is None


def test_a_stop_request_in_the_middle_of_recalling_recalls_no_more(tmp_path):
    written(tmp_path)
    stop = StopRequest()
    journal = Journal(tmp_path, stop)
    assert journal.recall("first") is not None
    stop.made = True
    assert journal.recall("something else") is None
