import pytest

from nnghmc.calls import NOT_FINITE, Calls, Outcome, Tally

GOOD = Outcome(1.0)
BAD = Outcome(float("nan"), None, "ValueError", "ValueError: no (line 3 of model.py)")
ENDLESS = Outcome(float("nan"), None, NOT_FINITE, "the log density is nan")


def counted(*outcomes, gradients=False):
    calls = Calls()
    calls.count(outcomes, gradients=gradients)
    return calls


def test_counts_what_was_asked_for_and_what_failed():
    calls = counted(GOOD, BAD, ENDLESS)
    calls.count([GOOD], gradients=True)
    tally = calls.tally
    assert (tally.potentials, tally.gradients, tally.calls) == (3, 1, 4)
    assert (tally.failures, tally.nonfinite) == ({"ValueError": 1}, 1)
    assert tally.last_error == BAD.words


def test_a_run_is_told_its_own_calls_alone():
    calls = counted(BAD, BAD)
    before = calls.begin()
    assert calls.remarks_since(before) == []
    calls.count([GOOD], gradients=False)
    assert calls.tally.since(before) == Tally(potentials=1)


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
def test_tells_failures_in_words(outcomes, words):
    told = str(counted(*outcomes).tally)
    assert words in told
    assert bool(words) == bool(told)


def test_what_ended_the_calls_is_raised_once():
    calls = Calls()
    calls.check()
    calls.end_with(KeyboardInterrupt())
    calls.end_with(ValueError())
    assert calls.ended
    with pytest.raises(KeyboardInterrupt):
        calls.check()
    calls.check()
