"""Quick compilation: options that XLA does not know are left out, and results are the same.

And compiled code does not fill the process up.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nnghmc import HMC, from_log_density, sample
from nnghmc.platform import compilation


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


def number_of_memory_maps():
    with compilation.MEMORY_MAPS.open() as lines:
        return sum(1 for _ in lines)


@pytest.mark.skipif(
    not compilation.MOST_MEMORY_MAPS.exists(), reason="only Linux limits memory maps and says so"
)
def test_compiled_code_is_let_go_of_before_the_memory_maps_run_out(monkeypatch, tmp_path):
    """Otherwise XLA dies, and Python with it."""
    kept = [jax.jit(lambda x, i=i: jnp.sin(x) + i) for i in range(30)]
    for function in kept:
        function(jnp.arange(4.0))
    crowded = number_of_memory_maps()
    limit = tmp_path / "limit"
    monkeypatch.setattr(compilation, "MOST_MEMORY_MAPS", limit)
    limit.write_text(str(3 * crowded))
    compilation.make_room_for_compiled_code()
    assert number_of_memory_maps() >= crowded  # there was room enough
    limit.write_text(str(crowded))
    compilation.make_room_for_compiled_code()
    assert number_of_memory_maps() < crowded - len(kept)
    assert kept[3](jnp.zeros(1)) == 3  # compiled anew


def test_every_run_looks_whether_there_is_room(monkeypatch):
    looks = []
    monkeypatch.setattr(compilation, "_share_of_memory_maps", lambda: looks.append(1) or 0.0)
    posterior = from_log_density(lambda x: -0.5 * jnp.sum(x**2), np.zeros(2))
    run = sample(posterior, 5, 1, method=HMC(warmup=2), progress=False)
    assert len(looks) == 1
    run.extend(5, progress=False)
    assert len(looks) == 2


def test_where_memory_maps_are_not_known_nothing_is_done(monkeypatch, tmp_path):
    monkeypatch.setattr(compilation, "MEMORY_MAPS", tmp_path / "absent")
    monkeypatch.setattr(jax, "clear_caches", None)
    compilation.make_room_for_compiled_code()
