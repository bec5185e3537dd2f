"""The density of a function outside JAX, which compiled code calls back for all chains at once."""

from collections.abc import Callable
from functools import partial
from threading import Lock

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from nnghmc.errors import PosteriorError
from nnghmc.model.blackbox.callbacks import called_back, like
from nnghmc.model.blackbox.calls import CallMonitor
from nnghmc.model.blackbox.evaluation import Outcome
from nnghmc.model.blackbox.workers import Workers
from nnghmc.model.layout import ParameterLayout
from nnghmc.model.split import PriorApart, Split

FAILED_ROUNDS = 10
"""Number of rounds in a row without a successful call after which an earlier position is tried."""


class HostFunction:
    """The function as compiled code sees it: positions of all chains in, log densities out.

    It never raises. What must be raised waits in the monitor.
    """

    def __init__(self, workers: Workers):
        self.workers = workers
        self.monitor = CallMonitor(self.find_out)
        self.good: np.ndarray | None = None  # a position where the function has worked
        self._failed_rounds = 0
        self._lock = Lock()

    def outcomes(self, positions: np.ndarray, gradients: bool) -> list[Outcome]:
        """Call the function once for each row of the positions, and count the calls."""
        outcomes = self.workers.outcomes(positions, gradients)
        self.monitor.count(outcomes, gradients=gradients)
        return outcomes

    def values(self, positions: np.ndarray) -> np.ndarray:
        """Return the log densities at positions of shape (..., dim)."""
        return self._evaluate(positions, gradients=False)[0]

    def values_and_gradients(self, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the log densities and their gradients at positions of shape (..., dim)."""
        return self._evaluate(positions, gradients=True)

    def _evaluate(self, positions: np.ndarray, *, gradients: bool) -> tuple[np.ndarray, np.ndarray]:
        values = np.full(positions.shape[:-1], np.nan)
        slopes = np.full(positions.shape, np.nan)
        # Where a trajectory has diverged there is nothing to ask the function.
        rows = np.argwhere(np.isfinite(positions).all(axis=-1))
        with self._lock:  # one batch at a time, since a function may not be thread-safe
            for row, outcome in zip(rows, self._call(positions, rows, gradients), strict=False):
                values[tuple(row)] = outcome.value
                if outcome.gradient is not None:
                    slopes[tuple(row)] = outcome.gradient
        return values, slopes

    def _call(self, positions: np.ndarray, rows: np.ndarray, gradients: bool) -> list[Outcome]:
        """Return an outcome for each of these rows, or none where the calls have come to an end."""
        if self.monitor.ended or not len(rows):
            return []
        chosen = np.stack([positions[tuple(row)] for row in rows])
        try:
            outcomes = self.outcomes(chosen, gradients)
            self._watch(chosen, outcomes, gradients)
        except BaseException as error:  # Ctrl-C: it is raised when compiled code has returned
            self.monitor.end_with(error)
            return []
        return outcomes

    def _watch(self, positions: np.ndarray, outcomes: list[Outcome], gradients: bool) -> None:
        """End the calls if the function fails even where it has worked before."""
        succeeded = [not outcome.problem for outcome in outcomes]
        if any(succeeded):
            self._failed_rounds = 0
            self.good = positions[succeeded.index(True)].copy()
            return
        self._failed_rounds += 1
        if self._failed_rounds >= FAILED_ROUNDS:
            self._try_where_it_worked(gradients)

    def find_out(self) -> None:
        """Check whether the function still works, if the last calls have failed in all chains.

        The monitor calls this after each chunk of draws, so that a chunk in which the function
        broke does not count.
        """
        if self._failed_rounds and not self.monitor.ended:
            self._try_where_it_worked(gradients=False)

    def _try_where_it_worked(self, gradients: bool) -> None:
        self._failed_rounds = 0
        if self.good is None:
            return
        again = self.outcomes(self.good[np.newaxis], gradients)[0]
        if again.problem:
            self.monitor.end_with(
                PosteriorError(
                    f"the function now fails every time, even at {shown(self.good)}, where it has "
                    f"worked before: {again.words}. Repair what it needs, and run again."
                )
            )


class BlackBox(eqx.Module):
    """The potential of a function outside JAX; its value comes free with its gradient."""

    host: HostFunction = eqx.field(static=True)

    def potential(self, position: Array) -> Array:
        """Return U(q) by one call for each chain."""
        return _potential(self.host, position)

    def potential_and_gradient(self, position: Array) -> tuple[Array, Array]:
        """Return U(q) and ∇U(q) by one call for each chain."""
        return jax.value_and_grad(self.potential)(position)


class BlackBoxWithPrior(eqx.Module):
    """The potential of a log likelihood outside JAX and a log prior in JAX, which stays exact."""

    likelihood: BlackBox
    log_prior: Callable[[PyTree], Array]
    layout: ParameterLayout = eqx.field(static=True)

    def potential(self, position: Array) -> Array:
        """Return U(q) by one call for each chain."""
        return self.prior(position) + self.likelihood.potential(position)

    def potential_and_gradient(self, position: Array) -> tuple[Array, Array]:
        """Return U(q) and ∇U(q) by one call for each chain."""
        return self.split().with_function(position, self.likelihood.potential_and_gradient)

    def prior(self, position: Array) -> Array:
        """Return minus the log prior."""
        return -jnp.asarray(self.log_prior(self.layout.unflatten(position)), position.dtype)

    def split(self) -> Split:
        """Return the prior as the exact part, and the log likelihood as the expensive function."""
        return PriorApart(self.likelihood.potential_and_gradient, self.layout.dim, self.prior)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _potential(host: HostFunction, position: Array) -> Array:
    return -called_back(host.values, like(position, ()), position)


def _forward(host: HostFunction, position: Array) -> tuple[Array, Array]:
    shapes = (like(position, ()), like(position, position.shape))
    value, slope = called_back(host.values_and_gradients, shapes, position)
    return -value, -slope


def _backward(host: HostFunction, slope: Array, cotangent: Array) -> tuple[Array]:
    return (slope * cotangent,)


_potential.defvjp(_forward, _backward)


def shown(position: np.ndarray) -> str:
    """Return a position in a form short enough for a message."""
    return np.array2string(position, precision=4, threshold=6)
