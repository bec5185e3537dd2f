"""Who calls a user's function: this thread, several threads, or several processes.

Whatever the function does, a call has an outcome: what it returned, or how it failed. Outcomes
come in the order of the positions and do not depend on who made the calls, so that draws do not
either. KeyboardInterrupt and its like are no outcomes: they are raised.
"""

import multiprocessing
import pickle
import signal
import sysconfig
import traceback
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import PyTree

from nnghmc.calls import NOT_FINITE, Outcome
from nnghmc.errors import PosteriorError
from nnghmc.parameters import ParameterLayout

UNUSABLE = "unusable return"
DIED = Outcome(np.nan, None, "the process died", "the worker process died during the call")
NOT_STARTED = (
    "the worker processes could not be started. Each of them imports the function anew: put it "
    'into a module of its own, keep `if __name__ == "__main__":` around what the script does, or '
    "use threads (processes=False)."
)
PACKAGE = str(Path(__file__).parents[1])
STANDARD_LIBRARY = sysconfig.get_path("stdlib")


class UnusableError(Exception):
    """What the function returned is not what it should return."""


@dataclass(frozen=True)
class Evaluation:
    """One call at a flat position, whatever becomes of it."""

    value_and_grad: Callable[[PyTree], tuple[Any, PyTree]]
    value: Callable[[PyTree], Any] | None
    layout: ParameterLayout

    def __call__(self, position: np.ndarray, gradients: bool) -> Outcome:
        """The outcome; with its gradient, or of the cheaper function if there is one."""
        parameters = self.layout.unflatten(np.array(position, np.float64))  # theirs to write to
        try:
            if self.value is not None and not gradients:
                return judged(as_number("value", self.value(parameters)), None)
            returned = self.value_and_grad(parameters)
            value, gradient = as_pair(returned)
            log_density = as_number("value_and_grad", value, ", as its first part")
            flat = as_flat(gradient, self.layout)
        except UnusableError as error:
            return Outcome(np.nan, None, UNUSABLE, str(error))
        except Exception as error:
            return Outcome(np.nan, None, type(error).__name__, in_one_line(error))
        return judged(log_density, flat)


def judged(value: float, gradient: np.ndarray | None) -> Outcome:
    """An outcome that says so where something is not finite."""
    if not np.isfinite(value):
        return Outcome(np.nan, None, NOT_FINITE, f"the log density is {value}")
    if gradient is not None and not np.isfinite(gradient).all():
        coordinate = int(np.argmin(np.isfinite(gradient)))
        words = f"the gradient is {gradient[coordinate]} in coordinate {coordinate}"
        return Outcome(value, gradient, NOT_FINITE, words)
    return Outcome(value, gradient)


def as_pair(returned: Any) -> tuple[Any, Any]:
    """The two parts of what value_and_grad returned."""
    if isinstance(returned, tuple | list) and len(returned) == 2:
        return returned[0], returned[1]
    raise UnusableError(
        "value_and_grad must return the pair (log density, gradient), got "
        f"{described(returned)}. Return both, and mind the return statement."
    )


def as_number(name: str, value: Any, place: str = "") -> float:
    """A log density as a float."""
    array = _as_array(value)
    if array is None or array.shape != () or array.dtype.kind not in "fiu":
        raise UnusableError(
            f"{name} must return one real number, the log density{place}, got {described(value)}. "
            "Sum over the observations, and return a float."
        )
    return float(array)


def as_flat(gradient: PyTree, layout: ParameterLayout) -> np.ndarray:
    """A gradient in the form of the parameters as one vector."""
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
    """A value in a few words."""
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


def in_one_line(error: BaseException) -> str:
    """An exception, its message, and where in the user's own files it came from."""
    message = (str(error).strip().splitlines() or ["no message"])[0]
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not _is_a_library(frame.filename)]
    where = f" (line {own[-1].lineno} of {Path(own[-1].filename).name})" if own else ""
    return f"{type(error).__name__}: {message}{where}"


def _is_a_library(file_name: str) -> bool:
    return "site-packages" in file_name or file_name.startswith((PACKAGE, STANDARD_LIBRARY, "<"))


class Workers:
    """One after the other, in the thread that asks."""

    def __init__(self, evaluation: Evaluation):
        self.evaluation = evaluation

    def outcomes(self, positions: np.ndarray, gradients: bool) -> list[Outcome]:
        """One for each row of the positions."""
        return [self.evaluation(position, gradients) for position in positions]

    def close(self) -> None:
        """End what waits for work; it begins anew when there is some."""


class Threads(Workers):
    """Several at a time, in threads: for functions that wait, or that leave Python's lock."""

    def __init__(self, evaluation: Evaluation, number: int):
        super().__init__(evaluation)
        self.number = number
        self._pool: Executor | None = None

    def outcomes(self, positions: np.ndarray, gradients: bool) -> list[Outcome]:
        """One for each row of the positions."""
        if self._pool is None:
            self._pool = self._new_pool()
        return list(self._pool.map(partial(self._evaluate(), gradients=gradients), positions))

    def close(self) -> None:
        """Let the pool go, without waiting for it."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=False, cancel_futures=True)

    def _evaluate(self) -> Callable[..., Outcome]:
        return self.evaluation

    def _new_pool(self) -> Executor:
        return ThreadPoolExecutor(self.number, thread_name_prefix="nnghmc")


class Processes(Threads):
    """Several at a time, in processes of their own, which may even die in a call."""

    def __init__(self, evaluation: Evaluation, number: int):
        super().__init__(evaluation, number)
        try:
            pickle.dumps(evaluation)
        except Exception as error:
            raise PosteriorError(
                "processes=True needs functions that can be sent to another process, and these "
                f"cannot: {in_one_line(error)}. Define them at the top level of a module (no "
                "lambda, no function inside another), or use threads (processes=False)."
            ) from None
        self._pool = self._new_pool()
        try:
            self._pool.submit(_ready).result()
        except BrokenProcessPool:
            raise PosteriorError(NOT_STARTED) from None

    def outcomes(self, positions: np.ndarray, gradients: bool) -> list[Outcome]:
        """One for each row of the positions.

        Where a process dies, all calls under way are lost. They are made again one by one, so that
        only the position that kills is rejected, and no other chain notices.
        """
        try:
            return super().outcomes(positions, gradients)
        except BrokenProcessPool:
            self.close()
            return [self._alone(position, gradients) for position in positions]

    def _alone(self, position: np.ndarray, gradients: bool) -> Outcome:
        try:
            return super().outcomes(position[np.newaxis], gradients)[0]
        except BrokenProcessPool:
            self.close()
            return DIED

    def _evaluate(self) -> Callable[..., Outcome]:
        return _evaluate_here

    def _new_pool(self) -> Executor:
        # Not forked: JAX has threads, and what they hold would be held for ever in a fork.
        return ProcessPoolExecutor(
            self.number, multiprocessing.get_context("spawn"), _begin, (self.evaluation,)
        )


_evaluation_here: Evaluation


def _begin(evaluation: Evaluation) -> None:
    """In a worker process: keep the function, and leave Ctrl-C to the parent."""
    global _evaluation_here
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _evaluation_here = evaluation


def _ready() -> bool:
    return True


def _evaluate_here(position: np.ndarray, gradients: bool) -> Outcome:
    return _evaluation_here(position, gradients)
