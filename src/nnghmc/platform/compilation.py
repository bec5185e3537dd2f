"""Chooses how thoroughly XLA compiles, and how much compiled code a process keeps.

XLA spends half of its usual time on making code somewhat faster. That does not pay for a function
that runs for less than a few seconds in all. JAX keeps all compiled code, but Linux limits the
memory maps that it takes.
"""

from collections.abc import Callable
from functools import cache, wraps
from pathlib import Path
from typing import Any

import equinox as eqx
import jax

MEMORY_MAPS = Path("/proc/self/maps")
"""The file that lists the memory maps of the process."""
MOST_MEMORY_MAPS = Path("/proc/sys/vm/max_map_count")
"""The file with the largest number of memory maps that a process may have."""
SHARE_OF_MEMORY_MAPS = 0.5
"""Fraction of the allowed memory maps above which a new run drops all compiled code."""
QUICK = {"xla_backend_optimization_level": 1, "xla_cpu_use_fusion_emitters": False}


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function; a call with `quick=True` uses code that compiles in half the time."""
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
    """Return those of the quick options that this version of XLA knows."""
    return {name: value for name, value in QUICK.items() if _known(name, value)}


def _known(name: str, value: Any) -> bool:
    """Return whether XLA accepts an option."""
    attempt = jax.jit(lambda x: x, compiler_options={name: value})
    try:
        attempt.lower(0.0).compile()
    except jax.errors.JaxRuntimeError:
        return False
    return True


def make_room_for_compiled_code() -> None:
    """Drop all compiled code if a run could use up the memory maps of the process.

    A run that learns takes over a thousand memory maps, JAX returns none of them, and Linux allows
    65,530 by default. A process that samples one model after another would crash in XLA, without a
    message, after about sixty models. Code that is needed again is compiled again.
    """
    if _share_of_memory_maps() > SHARE_OF_MEMORY_MAPS:
        jax.clear_caches()


def _share_of_memory_maps() -> float:
    """Return the fraction of the allowed memory maps in use; 0 if there is no such limit."""
    try:
        with MEMORY_MAPS.open("rb") as lines:
            return sum(1 for _ in lines) / int(MOST_MEMORY_MAPS.read_text())
    except OSError:
        return 0.0
