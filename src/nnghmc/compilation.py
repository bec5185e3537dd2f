"""How hard XLA tries: all it can for what runs long, little for what runs for moments.

Half of the usual time of compiling goes into code that is somewhat faster. Where a compiled
function runs for less than a few seconds in all, that never pays off.
"""

from collections.abc import Callable
from functools import cache, wraps
from typing import Any

import equinox as eqx
import jax

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
