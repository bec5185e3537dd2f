"""How hard XLA tries: all it can for what runs long, little for what runs for moments.

Half of the usual time of compiling goes into code that is somewhat faster. Where a compiled
function runs for less than a few seconds in all, that never pays off.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

import equinox as eqx
import jax

QUICK = {"xla_backend_optimization_level": 1, "xla_cpu_use_fusion_emitters": False}


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function compiled; a call with `quick=True` uses what compiles in half the time."""
    thorough = eqx.filter_jit(function)
    quickly = eqx.filter_jit(function, compiler_options=QUICK)  # type: ignore[call-overload]

    @wraps(function)
    def call(*arguments: Any, quick: bool = False) -> Any:
        chosen = quickly if quick and jax.default_backend() == "cpu" else thorough
        return chosen(*arguments)

    return call
