"""A method from outside gets everything that the package's own methods get."""

import ast
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import nnghmc
import outside_method
from nnghmc.engine.progress import Silent
from outside_method import MALA
from support import KNOWN_TARGETS, assert_invariant
from support_store import StopAfter, assert_same, conducted

SOURCE = Path(outside_method.__file__)


@pytest.fixture(scope="module")
def posterior():
    target = KNOWN_TARGETS["gaussian"]
    return nnghmc.from_log_density(lambda q: -target.potential(q), np.zeros(3))


@pytest.fixture(scope="module")
def run(posterior, tmp_path_factory):
    store = tmp_path_factory.mktemp("outside") / "run"
    return nnghmc.sample(
        posterior, 400, 4, seed=2, method=MALA(0.2), store=store, chunk_size=50, progress=False
    )


def test_it_is_one_short_file_against_the_public_names():
    text = SOURCE.read_text()
    assert len(text.splitlines()) <= 60
    imported = [
        name.name if isinstance(node, ast.Import) else node.module
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in node.names
    ]
    assert {name for name in imported if name.startswith("nnghmc")} == {"nnghmc"}
    used = {
        node.attr
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "nnghmc"
    }
    assert used <= set(nnghmc.__all__)


@pytest.mark.parametrize("name", KNOWN_TARGETS)
def test_its_kernel_is_exact(name):
    target = KNOWN_TARGETS[name]
    posterior = nnghmc.from_log_density(
        lambda q: -target.potential(q), target.exact_draws(1, seed=0)[0]
    )
    step = 0.002 if name == "banana" else 0.1
    assert_invariant(target, MALA(step).kernel(posterior, {}))


def test_cost_summary_notes_and_warm_up(run):
    assert run.title == "MALA"
    assert run.exact
    assert run.cost.sample.true_gradients == 4 * 400
    assert run.cost.warmup.true_gradients == 4 + 4 * 50  # the starts, and the draws
    assert run.warmup_draws.shape == (4, 50, 3)
    assert 0.5 < run.acceptance < 1
    assert list(run.summary().index) == ["x[0]", "x[1]", "x[2]"]
    assert "MALA: 4 chains × 400 draws of 3 dimensions, exact" in str(run)
    assert {"lp", "acceptance_rate", "accepted"} == set(run.stats)


def test_progress(posterior):
    shown = []

    class Shown(Silent):
        def begin(self, phase, total):
            shown.append((phase, total))

        def advance(self, draws, acceptance):
            shown.append(draws)

    conducted(posterior, 30, 2, 2, MALA(0.2), None, 10, reporter=Shown())
    assert [part for part in shown if isinstance(part, tuple)] == [("warmup", 50), ("sample", 30)]
    assert sum(part for part in shown if isinstance(part, int)) == 80


@pytest.mark.parametrize("looks", [1, 4, 9, 14])
def test_a_request_to_stop_and_resume(posterior, run, tmp_path, looks):
    stop = StopAfter(looks)
    stopped = conducted(posterior, 400, 4, 2, MALA(0.2), tmp_path / "run", 50, stop=stop)
    assert not stopped.complete
    assert stopped.draws.shape[1] < 400
    again = nnghmc.resume(tmp_path / "run", posterior, progress=False)
    assert again.complete
    assert again.method == MALA(0.2)
    assert_same(again, run)


def test_extend_and_load_and_report(posterior, run, tmp_path):
    longer = nnghmc.sample(posterior, 450, 4, seed=2, method=MALA(0.2), progress=False)
    in_memory = nnghmc.sample(posterior, 400, 4, seed=2, method=MALA(0.2), progress=False)
    assert_same(in_memory.extend(50, progress=False), longer)
    loaded = nnghmc.load(run.store)
    assert_same(loaded, run)
    assert [str(note) for note in loaded.notes] == [str(note) for note in run.notes]
    for name, made in (("made", run), ("loaded", loaded)):
        made.report(tmp_path / f"{name}.html")
        assert "MALA" in (tmp_path / f"{name}.html").read_text()


READER = """
import sys
import jax.numpy as jnp, numpy as np
import nnghmc
posterior = nnghmc.from_log_density(
    lambda q: -0.5 * jnp.sum((q / jnp.array([0.5, 1.0, 2.0])) ** 2), np.zeros(3)
)
print(nnghmc.load(sys.argv[1]).title)
try:
    nnghmc.resume(sys.argv[1], posterior)
except nnghmc.NnghmcError as error:
    print(error)
"""


def test_a_process_that_does_not_know_it_can_read_but_not_go_on(run, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", READER, run.store], cwd=tmp_path, capture_output=True, text=True
    )
    title, refusal = done.stdout.splitlines()
    assert title == "MALA"
    assert "was sampled by outside_method.MALA, which this process does not know" in refusal


def test_a_name_of_the_package_cannot_be_taken():
    with pytest.raises(TypeError, match=r"NUTS is nnghmc\.methods\.nuts\.NUTS; choose another"):
        type("NUTS", (nnghmc.Method,), {"__module__": "mine"})
    assert nnghmc.Method.known["NUTS"] is nnghmc.NUTS
