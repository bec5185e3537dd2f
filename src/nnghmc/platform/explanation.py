"""Explains an exception from the user's own code in one line."""

import sysconfig
import traceback
from pathlib import Path

import jax

PACKAGE = str(Path(__file__).parents[1])
STANDARD_LIBRARY = sysconfig.get_path("stdlib")
TRACING = (
    "JAX has to trace it: use jax.numpy and jax.scipy instead of numpy and scipy, and jnp.where "
    "instead of if"
)


def explain(error: BaseException) -> str:
    """Return the error and the line of the user's files that raised it, without a full stop.

    If JAX could not trace the code, advice replaces its long message.
    """
    kind, place = type(error).__name__, _place(error)
    if isinstance(error, jax.errors.JAXTypeError):
        return f"{kind}{place}. {TRACING}"
    message = (str(error).strip().splitlines() or ["no message"])[0]
    return f"{kind}: {message.rstrip('.')}{place}"


def _place(error: BaseException) -> str:
    """Return the last line of the user's own files in the traceback, or an empty string."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not _is_from_a_library(frame.filename)]
    return f" (line {own[-1].lineno} of {Path(own[-1].filename).name})" if own else ""


def _is_from_a_library(file_name: str) -> bool:
    """Return whether a file belongs to this package, another one, or the standard library."""
    return "site-packages" in file_name or file_name.startswith((PACKAGE, STANDARD_LIBRARY, "<"))
