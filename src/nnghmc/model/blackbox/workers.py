"""Who calls a user's function: this thread, several threads, or several processes.

Whatever the function does, a call has an outcome. Outcomes come in the order of the positions and
do not depend on who made the calls, so that draws do not either. KeyboardInterrupt and its like are
no outcomes: they are raised.
"""

import multiprocessing
import pickle
import signal
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial

import numpy as np

from nnghmc.errors import PosteriorError
from nnghmc.model.blackbox.evaluation import Evaluation, Outcome
from nnghmc.platform.explanation import explain

DIED = Outcome(np.nan, None, "the process died", "the worker process died during the call")
NOT_STARTED = (
    "the worker processes could not be started. Each of them imports the function anew: put it "
    'into a module of its own, keep `if __name__ == "__main__":` around what the script does, or '
    "use threads (processes=False)."
)


class Workers:
    """A worker that makes one call after another, in the thread that asks for the results."""

    def __init__(self, evaluation: Evaluation):
        self.evaluation = evaluation

    def outcomes(self, positions: np.ndarray, gradients: bool) -> list[Outcome]:
        """Return one outcome for each row of the positions."""
        return [self.evaluation(position, gradients) for position in positions]

    def close(self) -> None:
        """End the workers that wait; they are started again when there is work."""


class Threads(Workers):
    """Workers in threads, for functions that wait or that release Python's global lock."""

    def __init__(self, evaluation: Evaluation, number: int):
        super().__init__(evaluation)
        self.number = number
        self._pool: Executor | None = None

    def outcomes(self, positions: np.ndarray, gradients: bool) -> list[Outcome]:
        """Return one outcome for each row of the positions."""
        if self._pool is None:
            self._pool = self._new_pool()
        return list(self._pool.map(partial(self._evaluate(), gradients=gradients), positions))

    def close(self) -> None:
        """End the threads or processes, without waiting for them."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=False, cancel_futures=True)

    def _evaluate(self) -> Callable[..., Outcome]:
        return self.evaluation

    def _new_pool(self) -> Executor:
        return ThreadPoolExecutor(self.number, thread_name_prefix="nnghmc")


class Processes(Threads):
    """Workers in processes of their own. A process that dies in a call does not end the run."""

    def __init__(self, evaluation: Evaluation, number: int):
        super().__init__(evaluation, number)
        try:
            pickle.dumps(evaluation)
        except Exception as error:
            raise PosteriorError(
                "processes=True needs functions that can be sent to another process, and these "
                f"cannot: {explain(error)}. Define them at the top level of a module (no "
                "lambda, no function inside another), or use threads (processes=False)."
            ) from None
        self._pool = self._new_pool()
        try:
            self._pool.submit(_ready).result()
        except BrokenProcessPool:
            raise PosteriorError(NOT_STARTED) from None

    def outcomes(self, positions: np.ndarray, gradients: bool) -> list[Outcome]:
        """Return one outcome for each row of the positions.

        Where a process dies, all calls under way are lost. They are made again one by one, so that
        only the position that killed the process is rejected, and no other chain is affected.
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
        # Not forked: a lock that one of JAX's threads holds would never be released in the fork.
        return ProcessPoolExecutor(
            self.number, multiprocessing.get_context("spawn"), _begin, (self.evaluation,)
        )


_evaluation_here: Evaluation


def _begin(evaluation: Evaluation) -> None:
    """Keep the function in this worker process, and leave Ctrl-C to the parent."""
    global _evaluation_here
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _evaluation_here = evaluation


def _ready() -> bool:
    return True


def _evaluate_here(position: np.ndarray, gradients: bool) -> Outcome:
    return _evaluation_here(position, gradients)
