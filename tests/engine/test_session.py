"""A session: named streams, a clock, a request to stop and a checkpoint, all of them handed in."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nnghmc import Session
from nnghmc.engine.checkpoint import Remembered
from nnghmc.kernels import TrueGradientHMC, Tuning
from nnghmc.platform.interrupts import StopRequest
from support_clock import Clock


class Notebook:
    """A checkpoint that remembers in memory."""

    active = True

    def __init__(self):
        self.steps = {}

    def recall(self, name):
        return self.steps.get(name)

    def remember(self, name, value, seconds):
        assert name not in self.steps
        self.steps[name] = Remembered(value, seconds)


def kernel():
    both = jax.value_and_grad(lambda q: 0.5 * jnp.sum(q**2))
    return TrueGradientHMC(both, Tuning.checked(0.3, (1, 4), None, 2))


def advanced(session, draws=20, **options):
    states = session.begin(kernel(), np.ones((3, 2)))
    return session.advance("warmup", kernel(), states, draws, **options)


def data_of(key):
    return tuple(np.asarray(jax.random.key_data(key)).tolist())


def test_streams_depend_on_seed_method_name_and_numbers_alone():
    keys = [
        data_of(Session(seed, streams).key(*name))
        for seed in (0, 1)
        for streams in ("HMC", "NUTS")
        for name in (("warmup",), ("sample",), ("fit", 0), ("fit", 1))
    ]
    assert len(set(keys)) == len(keys)
    session = Session(0, "HMC")
    session.key("something else")
    assert data_of(session.key("sample")) == keys[1]


def test_draws_do_not_depend_on_chunks_and_are_counted():
    whole, by_threes = Session(0, "HMC"), Session(0, "HMC", chunk_size=3)
    (_, one), (_, other) = advanced(whole), advanced(by_threes)
    np.testing.assert_array_equal(one.draws, other.draws)
    assert whole.cost.warmup.true_gradients == one.stats["n_steps"].sum() > 0
    assert by_threes.cost.warmup.true_gradients == whole.cost.warmup.true_gradients
    assert whole.warmup == [("warmup", one)]


def test_a_request_to_stop_ends_a_phase_after_the_chunk():
    stop = StopRequest()
    session = Session(0, "HMC", stop=stop, chunk_size=4)

    def ask(first, chunk):
        stop.made |= first + len(chunk) >= 6

    _, history = advanced(session, on_chunk=ask)
    assert session.stopped
    assert 6 <= history.length < 10
    _, whole = advanced(Session(0, "HMC"))
    np.testing.assert_array_equal(history.draws, whole.draws[:, : history.length])
    _, nothing = advanced(session)
    assert nothing.length == 0


def test_what_a_checkpoint_holds_is_not_made_again():
    """Nor forgotten in the cost: its seconds are those that it took."""
    clock, notebook, computed = Clock(), Notebook(), []

    def compute():
        clock.now += 5.0
        computed.append(clock.now)
        return 3.0

    def session():
        return Session(0, "HMC", clock=clock, checkpoint=notebook)

    first = session()
    with first.timed("train"):
        assert first.once("fit", compute) == 3.0
        assert first.once("fit", compute) == 3.0  # a second one, of its own
    assert list(notebook.steps) == ["fit 0", "fit 1"]
    again = session()
    with again.timed("train"):
        assert again.once("fit", compute) == 3.0
    assert len(computed) == 2
    assert again.cost.train.seconds == 5.0
    assert first.cost.train.seconds == 10.0


def test_draws_of_a_checkpoint_are_those_that_were_made():
    notebook = Notebook()
    states, history = advanced(Session(0, "HMC", checkpoint=notebook, chunk_size=6))
    assert len(notebook.steps) > 1
    steps = dict(notebook.steps)
    session = Session(0, "HMC", checkpoint=notebook)
    same_states, same = advanced(session)
    np.testing.assert_array_equal(history.draws, same.draws)
    np.testing.assert_array_equal(states.position, same_states.position)
    assert notebook.steps == steps  # nothing was made anew
    assert session.cost.warmup.true_gradients == history.stats["n_steps"].sum()


def test_what_begins_after_a_request_to_stop_is_not_remembered():
    stop, notebook = StopRequest(), Notebook()
    stop.made = True
    session = Session(0, "HMC", stop=stop, checkpoint=notebook)
    assert session.once("fit", lambda: 3.0) == 3.0
    assert notebook.steps == {}


def test_what_begins_after_a_request_to_stop_is_not_recalled():
    """What it begins with may be less than what the remembered step had."""
    stop, notebook = StopRequest(), Notebook()
    Session(0, "HMC", checkpoint=notebook).once("fit", lambda: 3.0)
    stop.made = True
    stopped = Session(0, "HMC", stop=stop, checkpoint=notebook)
    assert stopped.once("fit", lambda: 2.0) == 2.0


def test_a_step_that_must_end_the_run_is_not_remembered():
    notebook = Notebook()

    def check():
        raise ValueError("the function failed")

    session = Session(0, "HMC", checkpoint=notebook, check=check)
    with pytest.raises(ValueError, match="the function failed"):
        session.once("fit", lambda: 3.0)
    assert notebook.steps == {}
