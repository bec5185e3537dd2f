"""How hard XLA tries: all it can for what runs long, little for what runs for moments.

Half of the usual time of compiling goes into code that is somewhat faster. Where a compiled
function runs for less than a few seconds in all, that never pays off.

And how much compiled code a process may keep: JAX keeps all of it, and Linux does not allow that.
"""

from collections.abc import Callable
from functools import cache, wraps
from pathlib import Path
from typing import Any

import equinox as eqx
import jax

MEMORY_MAPS = Path("/proc/self/maps")
MOST_MEMORY_MAPS = Path("/proc/sys/vm/max_map_count")
SHARE_OF_MEMORY_MAPS = 0.5
"""Share of the memory maps allowed to the process that may be taken when a run begins."""
QUICK = {"xla_backend_optimization_level": 1, "xla_cpu_use_fusion_emitters": False}


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function compiled; a call with `quick=True` uses what compiles in half the time."""
    thorough = eqx.filter_jit(function)

    @cache
    def quickly() -> Callable[..., Any]:
        return eqx.filter_jit(function, compiler_options=quick_options())  # type: ignore[call-overload]

    @wraps(function)
    def call(*arguments: Any, quick: bool = False) -> Any:
        chosen = quickly() if quick and jax.default_backend() == "cpu" else thorough
        return chosen(*arguments)

    return call


@cache
def quick_options() -> dict[str, Any]:
    """Those of the options that this version of XLA knows: they come and go."""
    return {name: value for name, value in QUICK.items() if _known(name, value)}


def _known(name: str, value: Any) -> bool:
    attempt = jax.jit(lambda x: x, compiler_options={name: value})
    try:
        attempt.lower(0.0).compile()
    except jax.errors.JaxRuntimeError:
        return False
    return True


def make_room_for_compiled_code() -> None:
    """Let go of all compiled code where a run could use up the memory maps of the process.

    A run that learns takes over a thousand of them, JAX gives none back, and Linux allows 65,530 by
    default: a process that samples one model after another would die in XLA, without a word, after
    some sixty of them. What is used again is compiled again.
    """
    if _share_of_memory_maps() > SHARE_OF_MEMORY_MAPS:
        jax.clear_caches()


def _share_of_memory_maps() -> float:
    """How many there are, relative to what is allowed; zero where there is no such limit."""
    try:
        with MEMORY_MAPS.open("rb") as lines:
            return sum(1 for _ in lines) / int(MOST_MEMORY_MAPS.read_text())
    except OSError:
        return 0.0
