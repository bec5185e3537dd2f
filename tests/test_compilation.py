"""Quick compilation: options that XLA does not know are left out, and results are the same."""

import jax.numpy as jnp
import pytest

from nnghmc import compilation


@pytest.fixture
def an_unknown_option(monkeypatch):
    monkeypatch.setitem(compilation.QUICK, "xla_option_of_the_past", True)
    compilation.quick_options.cache_clear()
    yield
    compilation.quick_options.cache_clear()


def test_an_option_that_is_not_known_any_more_is_left_out(an_unknown_option):
    found = compilation.quick_options()
    assert "xla_option_of_the_past" not in found
    assert found["xla_backend_optimization_level"] == 1
    assert found.items() <= compilation.QUICK.items()


def test_a_function_compiled_quickly_gives_the_same(an_unknown_option):
    function = compilation.compiled(lambda x: jnp.sum(x**2))
    assert function(jnp.arange(4.0), quick=True) == function(jnp.arange(4.0)) == 14
