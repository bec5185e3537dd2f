"""The TARGET of a command line leads to a posterior, or the message says why it does not."""

import sys

import numpy as np
import pytest

from nnghmc import Posterior, from_log_density
from nnghmc.errors import TargetError
from nnghmc.model.targets import load_target

FILE = """
import jax.numpy as jnp, nnghmc, numpy as np

normal = nnghmc.from_log_density(lambda x: -0.5 * jnp.sum(x**2), np.zeros(2))

def made():
    return normal

def failing():
    return 1 / 0

number = 3
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(FILE)
    (tmp_path / "typo.py").write_text("import numpy\n\nnumpy.zeroes(3)\n")
    (tmp_path / "unfinished.py").write_text("x = (\n")
    (tmp_path / "leaving.py").write_text("import sys\n\nsys.exit(4)\n")
    return tmp_path


def short():
    return from_log_density(lambda x: -(x**2), 0.0)


def test_built_in_names_come_from_the_caller(folder):
    posterior = load_target("short", {"short": short})
    assert posterior.dim == 1
    assert posterior.origin == "short"
    with pytest.raises(TargetError, match=r"a built-in name \(short\), `file.py:name`.*got 'long'"):
        load_target("long", {"short": short})
    with pytest.raises(TargetError, match=r"TARGET must be `file.py:name`.*got 'short'"):
        load_target("short")


@pytest.mark.parametrize("name", ["normal", "made"])
def test_the_origin_can_be_loaded_from_any_folder(folder, name, monkeypatch):
    posterior = load_target(f"mine.py:{name}")
    assert isinstance(posterior, Posterior)
    assert posterior.origin == f"{folder / 'mine.py'}:{name}"
    monkeypatch.chdir("/")
    again = load_target(posterior.origin)
    assert again.potential(np.ones(2)) == posterior.potential(np.ones(2)) == 1.0
    assert again.origin == posterior.origin


def test_a_posterior_of_the_users_module_stays_as_it_is(folder):
    load_target("mine.py:normal")
    assert sys.modules["_nnghmc_target_mine"].normal.origin is None


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("mine.py:absent", ["mine.py has no 'absent'", "It has normal."]),
        ("mine.py:number", ["a Posterior, a PyMC model", "is of type int", "from_log_density"]),
        ("mine.py:failing", ["failing() of mine.py failed", "(line 10 of mine.py)."]),
        ("typo.py:x", ["could not be imported: AttributeError", "(line 3 of typo.py)."]),
        ("unfinished.py:x", ["could not be imported: SyntaxError", "line 1"]),
        ("leaving.py:x", ["could not be imported: SystemExit: 4 (line 3 of leaving.py)."]),
        ("nowhere.py:x", ["no such file"]),
        ("no_such_package.module:x", ["could not be imported: ModuleNotFoundError"]),
        ("mine.py:", ["TARGET must be"]),
    ],
)
def test_what_leads_nowhere_is_told_in_one_line(folder, target, words):
    with pytest.raises(TargetError) as caught:
        load_target(target)
    message = str(caught.value)
    assert all(word in message for word in words), message
    assert "\n" not in message
