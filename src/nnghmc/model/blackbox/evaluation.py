"""One call of a user's function, and its outcome: what it returned, or how it failed."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import PyTree

from nnghmc.model.layout import ParameterLayout
from nnghmc.platform.explanation import explain

NOT_FINITE = "not finite"
UNUSABLE = "unusable return"


class Outcome(NamedTuple):
    """What a call returned, or how it failed.

    `problem` is empty where all is well. Otherwise it is `NOT_FINITE`, `UNUSABLE` or the name of an
    exception, and `words` say more.
    """

    value: float
    gradient: np.ndarray | None = None
    problem: str = ""
    words: str = ""


class UnusableError(Exception):
    """The function returned something other than it should return."""


@dataclass(frozen=True)
class Evaluation:
    """Calls the user's functions at a flat position, whatever becomes of the call."""

    value_and_grad: Callable[[PyTree], tuple[Any, PyTree]]
    value: Callable[[PyTree], Any] | None
    layout: ParameterLayout

    def __call__(self, position: np.ndarray, gradients: bool) -> Outcome:
        """Return the outcome with its gradient, or that of the cheaper function if there is one."""
        parameters = self.layout.unflatten(np.array(position, np.float64))  # theirs to write to
        try:
            if self.value is not None and not gradients:
                return judged(as_number("value", self.value(parameters)), None)
            value, gradient = as_pair(self.value_and_grad(parameters))
            log_density = as_number("value_and_grad", value, ", as its first part")
            flat = as_flat(gradient, self.layout)
        except UnusableError as error:
            return Outcome(np.nan, None, UNUSABLE, str(error))
        except Exception as error:
            return Outcome(np.nan, None, type(error).__name__, explain(error))
        return judged(log_density, flat)


def judged(value: float, gradient: np.ndarray | None) -> Outcome:
    """Return the outcome of a call, which says so where something is not finite."""
    if not np.isfinite(value):
        return Outcome(np.nan, None, NOT_FINITE, f"the log density is {value}")
    if gradient is not None and not np.isfinite(gradient).all():
        coordinate = int(np.argmin(np.isfinite(gradient)))
        words = f"the gradient is {gradient[coordinate]} in coordinate {coordinate}"
        return Outcome(value, gradient, NOT_FINITE, words)
    return Outcome(value, gradient)


def as_pair(returned: Any) -> tuple[Any, Any]:
    """Return the two parts of what value_and_grad returned."""
    if isinstance(returned, tuple | list) and len(returned) == 2:
        return returned[0], returned[1]
    raise UnusableError(
        "value_and_grad must return the pair (log density, gradient), got "
        f"{described(returned)}. Return both, and check the return statement."
    )


def as_number(name: str, value: Any, place: str = "") -> float:
    """Return a log density as a float."""
    array = _as_array(value)
    if array is None or array.shape != () or array.dtype.kind not in "fiu":
        raise UnusableError(
            f"{name} must return one real number, the log density{place}, got {described(value)}. "
            "Sum over the observations, and return a float."
        )
    return float(array)


def as_flat(gradient: PyTree, layout: ParameterLayout) -> np.ndarray:
    """Return a gradient in the form of the parameters as one vector."""
    try:
        leaves = layout.treedef.flatten_up_to(gradient)
    except (ValueError, TypeError):
        raise UnusableError(
            "the gradient must have the form of the parameters, with the same names "
            f"({', '.join(layout.names)}), got {described(gradient)}."
        ) from None
    parts = []
    for name, shape, leaf in zip(layout.names, layout.shapes, leaves, strict=True):
        array = _as_array(leaf)
        if array is None or array.dtype.kind not in "fiu":
            raise UnusableError(
                f"the gradient must be real numbers; that of {name} is {described(leaf)}. Make it "
                "a NumPy array."
            )
        if array.shape != shape:
            raise UnusableError(
                f"the gradient must have the shape of the parameters; {name} has shape {shape}, "
                f"and its gradient {array.shape}. Return one derivative for each parameter."
            )
        parts.append(np.ravel(array).astype(np.float64))
    return np.concatenate(parts)


def described(value: Any) -> str:
    """Return a value in a few words, for a message."""
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape} and type {value.dtype}"
    if value is None:
        return "None"
    words = repr(value)
    return f"{words if len(words) < 80 else words[:77] + '...'} ({type(value).__name__})"


def _as_array(value: Any) -> np.ndarray | None:
    try:
        return np.asarray(value)
    except Exception:  # what an object of any library may raise here
        return None
