"""An exception from the user's own code, in one line."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nnghmc.platform.explanation import explain


def caught(function):
    with pytest.raises(BaseException) as info:  # noqa: PT011
        function()
    return info.value


def test_gives_the_line():
    line = raising.__code__.co_firstlineno + 1
    found = explain(caught(lambda: raising(ValueError("no mesh"))))
    assert found == f"ValueError: no mesh (line {line} of test_explanation.py)"


def raising(error):
    raise error


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda: raising(ValueError("no mesh.\nmore")), "ValueError: no mesh"),
        (lambda: raising(KeyError()), "KeyError: no message"),
        (lambda: raising(SystemExit(2)), "SystemExit: 2"),
        (lambda: np.zeros(3).reshape(2, 2), "ValueError: cannot reshape array of size 3"),
    ],
)
def test_says_what_and_where(function, words):
    found = explain(caught(function))
    assert found.startswith(words)
    assert found.endswith(" of test_explanation.py)")
    assert "(line " in found
    assert "\n" not in found


def test_names_the_last_line_of_the_user_and_not_that_of_a_library():
    def of_the_user(x):
        return np.linalg.solve(x, x[:1])

    found = explain(caught(lambda: jax.tree.map(of_the_user, np.ones((2, 2)))))
    line = of_the_user.__code__.co_firstlineno + 1
    assert found.startswith("ValueError: ")
    assert f"(line {line} of test_explanation.py)" in found


def test_an_error_that_was_never_raised_has_no_place():
    assert explain(ValueError("unused")) == "ValueError: unused"


@pytest.mark.parametrize("function", [lambda x: np.sin(x), lambda x: x if x > 0 else -x])
def test_what_jax_cannot_trace_has_a_remedy_instead_of_a_page(function):
    found = explain(caught(lambda: jax.jit(function)(jnp.ones(()))))
    assert "Tracer" in found.split(" ")[0]
    assert "(line " in found
    assert "jax.numpy" in found
    assert "jnp.where" in found
    assert len(found) < 300
