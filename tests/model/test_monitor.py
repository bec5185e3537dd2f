import json

import pytest

from nnghmc.model.blackbox.calls import CallMonitor
from nnghmc.model.blackbox.evaluation import NOT_FINITE, Outcome
from nnghmc.model.monitor import Monitor, Tally

GOOD = Outcome(1.0)
BAD = Outcome(float("nan"), None, "ValueError", "ValueError: no (line 3 of model.py)")
ENDLESS = Outcome(float("nan"), None, NOT_FINITE, "the log density is nan")
FULL = Tally(5, 7, {"ValueError": 2, "OSError": 1}, 3, "OSError: disk")


def counted(*outcomes, gradients=False):
    monitor = CallMonitor()
    monitor.count(outcomes, gradients=gradients)
    return monitor


def test_counts_what_was_asked_for_and_what_failed():
    monitor = counted(GOOD, BAD, ENDLESS)
    monitor.count([GOOD], gradients=True)
    tally = monitor.tally
    assert (tally.potentials, tally.gradients, tally.calls) == (3, 1, 4)
    assert (tally.failures, tally.nonfinite, tally.failed) == ({"ValueError": 1}, 1, 1)
    assert tally.last_error == BAD.words
    assert repr(monitor) == "CallMonitor(4 calls, 1 failed)"


def test_a_run_is_told_its_own_calls_alone():
    monitor = counted(BAD, BAD)
    before = monitor.tally
    monitor.begin()
    assert monitor.tally.since(before) == Tally()
    monitor.count([GOOD], gradients=False)
    assert monitor.tally.since(before) == Tally(potentials=1)
    monitor.count([BAD], gradients=True)
    expected = Tally(1, 1, {"ValueError": 1}, 0, BAD.words)
    assert monitor.tally.since(before) == expected


def test_tallies_add_up_and_go_back_and_forth():
    later = Tally(1, 0, {"KeyError": 1, "OSError": 1}, 1, "KeyError: k")
    both = FULL + later
    expected = {"ValueError": 2, "OSError": 2, "KeyError": 1}
    assert both == Tally(6, 7, expected, 4, "KeyError: k")
    assert both.since(FULL) == later
    assert FULL + Tally() == Tally() + FULL == FULL


def test_a_tally_is_plain_json_and_back():
    written = json.loads(json.dumps(FULL.as_dict()))
    assert Tally.from_dict(written) == FULL
    assert Tally.from_dict(Tally().as_dict()) == Tally()
    counts = counted(BAD, BAD).tally.as_dict()["failures"]
    assert type(counts) is dict


@pytest.mark.parametrize(
    ("outcomes", "words"),
    [
        ([GOOD], ""),
        (
            [BAD, GOOD],
            "the function failed once in 2 calls (ValueError: no (line 3 of model.py)); it was a "
            "rejection",
        ),
        ([ENDLESS] * 2, "the function returned infinity or NaN 2 times in 2 calls; each was a rej"),
        (
            [BAD, BAD, ENDLESS],
            "failed 2 times in 3 calls (ValueError: no (line 3 of model.py)) and",
        ),
        ([BAD, BAD._replace(problem="OSError", words="OSError: x")], "OSError once; the last: OSE"),
    ],
)
def test_says_in_words_what_failed(outcomes, words):
    said = str(counted(*outcomes).tally)
    assert words in said
    assert bool(words) == bool(said)


def test_what_ended_the_calls_is_raised_once():
    monitor = CallMonitor()
    monitor.check()
    monitor.end_with(KeyboardInterrupt())
    monitor.end_with(ValueError())
    assert monitor.ended
    with pytest.raises(KeyboardInterrupt):
        monitor.check()
    monitor.check()


def test_a_new_run_forgets_what_ended_the_last_one():
    monitor = counted(BAD)
    monitor.end_with(ValueError())
    monitor.begin()
    assert not monitor.ended
    monitor.check()
    assert monitor.tally.failed == 1


def test_a_check_finds_out_first_whether_the_function_still_works():
    asked = []
    monitor = CallMonitor(lambda: asked.append(monitor.end_with(OSError("gone"))))
    with pytest.raises(OSError, match="gone"):
        monitor.check()
    assert len(asked) == 1


def test_inside_jax_there_is_nothing_to_do():
    monitor = Monitor()
    monitor.begin()
    monitor.check()
    assert monitor.tally == Tally()
    assert monitor.doubt == ""
    assert not monitor.counts
