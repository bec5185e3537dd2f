"""A black box: any Python function that returns a log density and its gradient, in NumPy.

A simulator with adjoints, a Stan model through BridgeStan, a PyTorch model. Compiled code calls it
back, with all chains at once: one call a chain brings potential and gradient, and one call a chain
the potential alone. A call that fails is a rejection, and is counted.
"""

import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral
from threading import Lock
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, PyTree

from nnghmc.calls import NOT_FINITE, Calls, Outcome
from nnghmc.errors import GradientWarning, PosteriorError, positive_integer
from nnghmc.frontends.host import called_back, like, traceable
from nnghmc.frontends.workers import (
    UNUSABLE,
    Evaluation,
    Processes,
    Threads,
    Workers,
    as_flat,
)
from nnghmc.model_checks import checked_layout
from nnghmc.parameters import ParameterLayout
from nnghmc.posterior import Posterior, from_log_density
from nnghmc.precision import position_dtype

FAILED_ROUNDS = 10
"""After so many in a row, in which no chain's call succeeded, an earlier position is tried."""
CLEARLY_OFF, NOISE = 0.2, 1e-6
"""Shares of a slope, and of the log density, by which a good gradient may seem to be wrong."""
SAME_DENSITY = 0.01
"""As close as the Metropolis test needs it."""


def from_callable(
    value_and_grad: Callable[[PyTree], tuple[Any, PyTree]],
    initial_or_dim: PyTree,
    *,
    value: Callable[[PyTree], Any] | None = None,
    workers: int = 1,
    processes: bool = False,
    constrain: Callable[[PyTree], PyTree] | None = None,
    dims: Mapping[str, Sequence[str]] | None = None,
    coords: Mapping[str, Sequence[Any]] | None = None,
) -> Posterior:
    """A posterior from a function outside JAX: plain NumPy in and out, in double precision.

    Args:
        value_and_grad: `parameters -> (log density, gradient)`. The log density, not the
            potential: no minus sign. The gradient has the form of the parameters. What it raises,
            and what is not finite, are rejections; `posterior.calls` counts them.
        initial_or_dim: the number of parameters, all of which start at zero; or the parameters
            where chains start, an array, or a dictionary or other pytree of arrays. The function
            gets what stands here: one array, or that pytree of arrays.
        value: `parameters -> log density`, where that is cheaper without the gradient. It is what
            a draw along a learned gradient calls, once. It must be the same number, constants
            included.
        workers: how many chains are evaluated at the same time. More than 1 asks for a function
            that several threads may call at once.
        processes: have the workers be processes instead of threads: for functions that keep
            Python busy, or that several threads must not call. They must be importable.
        constrain: `parameters -> pytree` of what is reported, in NumPy too.
        dims: names of the axes of reported variables, `{"beta": ["feature"]}`.
        coords: labels along those axes, `{"feature": ["age", "income"]}`.

    Making it takes 3 calls at and around the initial point, which check what is returned and warn
    where the gradient does not belong to the log density.
    """
    for name, function in (("value_and_grad", value_and_grad), ("value", value)):
        if not callable(function) and (name, function) != ("value", None):
            raise PosteriorError(f"{name} must be a function, got {function!r}.")
    initial = _initial(initial_or_dim)
    layout = checked_layout(initial)
    evaluation = Evaluation(value_and_grad, value, layout)
    host = _HostFunction(_workers(evaluation, workers, processes))
    start = as_flat(initial, layout)
    _check_first_calls(host, start)
    posterior = from_log_density(
        _differentiable(host, layout),
        initial,
        constrain=None if constrain is None else traceable(constrain, layout, start),
        dims=dims,
        coords=coords,
    )
    posterior.calls = host.calls
    weakref.finalize(posterior, host.workers.close)
    return posterior


def _initial(initial_or_dim: PyTree) -> PyTree:
    """Where chains start: as given, or zeros for a number of dimensions."""
    if isinstance(initial_or_dim, Integral) and not isinstance(initial_or_dim, bool):
        return np.zeros(positive_integer("the number of dimensions", initial_or_dim))
    return initial_or_dim


def _workers(evaluation: Evaluation, workers: int, processes: bool) -> Workers:
    number = positive_integer("workers", workers)
    if processes:
        return Processes(evaluation, number)
    return Threads(evaluation, number) if number > 1 else Workers(evaluation)


class _HostFunction:
    """The function as compiled code sees it: positions of all chains in, numbers out.

    It never raises: what must be raised waits in `calls`.
    """

    def __init__(self, workers: Workers):
        self.workers = workers
        self.calls = Calls(self.settle_doubt)
        self.good: np.ndarray | None = None  # a position where it has worked
        self._failed_rounds = 0
        self._lock = Lock()

    def outcomes(self, positions: np.ndarray, gradients: bool) -> list[Outcome]:
        """One for each row of the positions, counted."""
        outcomes = self.workers.outcomes(positions, gradients)
        self.calls.count(outcomes, gradients=gradients)
        return outcomes

    def potentials(self, positions: np.ndarray) -> np.ndarray:
        """The log densities at positions of shape (..., dim)."""
        return self._evaluated(positions, gradients=False)[0]

    def gradients(self, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The log densities and their gradients at positions of shape (..., dim)."""
        return self._evaluated(positions, gradients=True)

    def _evaluated(
        self, positions: np.ndarray, *, gradients: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        values = np.full(positions.shape[:-1], np.nan)
        slopes = np.full(positions.shape, np.nan)
        # Where a trajectory is lost there is nothing to ask the function.
        rows = np.argwhere(np.isfinite(positions).all(axis=-1))
        with self._lock:  # one batch at a time, since a function may not be thread-safe
            for row, outcome in zip(rows, self._called(positions, rows, gradients), strict=False):
                values[tuple(row)] = outcome.value
                if outcome.gradient is not None:
                    slopes[tuple(row)] = outcome.gradient
        return values, slopes

    def _called(self, positions: np.ndarray, rows: np.ndarray, gradients: bool) -> list[Outcome]:
        """An outcome for each of these rows, or none where the calls have come to an end."""
        if self.calls.ended or not len(rows):
            return []
        wanted = np.stack([positions[tuple(row)] for row in rows])
        try:
            outcomes = self.outcomes(wanted, gradients)
            self._watch(wanted, outcomes, gradients)
        except BaseException as error:  # Ctrl-C: it is raised when compiled code has returned
            self.calls.end_with(error)
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

    def settle_doubt(self) -> None:
        """See whether it still works, if the last calls have failed in all chains.

        Asked when a chunk of draws is done: one in which the function died must not count.
        """
        if self._failed_rounds and not self.calls.ended:
            self._try_where_it_worked(gradients=False)

    def _try_where_it_worked(self, gradients: bool) -> None:
        self._failed_rounds = 0
        if self.good is None:
            return
        again = self.outcomes(self.good[np.newaxis], gradients)[0]
        if again.problem:
            self.calls.end_with(
                PosteriorError(
                    f"the function fails always now, even at {_shown(self.good)}, where it has "
                    f"worked before: {again.words}. Mend what it needs, and run again."
                )
            )


def _differentiable(host: _HostFunction, layout: ParameterLayout) -> Callable[[PyTree], Array]:
    """The log density of a parameter pytree, whose value comes free with its gradient."""

    @jax.custom_vjp
    def log_density(position: Array) -> Array:
        return called_back(host.potentials, like(position, ()), position)

    def forward(position: Array) -> tuple[Array, Array]:
        shapes = (like(position, ()), like(position, position.shape))
        return called_back(host.gradients, shapes, position)

    def backward(gradient: Array, slope: Array) -> tuple[Array]:
        return (slope * gradient,)

    log_density.defvjp(forward, backward)

    def of_parameters(parameters: PyTree) -> Array:
        return log_density(layout.flatten(parameters, position_dtype()))

    return of_parameters


def _check_first_calls(host: _HostFunction, position: np.ndarray) -> None:
    """Say what is wrong with what the functions return, before any time is spent on it."""
    first = _first(host, position, gradients=True)
    if host.workers.evaluation.value is not None:
        cheaper = _first(host, position, gradients=False).value
        if abs(cheaper - first.value) > SAME_DENSITY:
            raise PosteriorError(
                "value must return the same log density as value_and_grad, constants included; at "
                f"{_shown(position)} it is {cheaper} and {first.value}. Mend the one or the other, "
                "or leave value out."
            )
    assert first.gradient is not None
    host.calls.doubt = _doubt_about(first.value, first.gradient, host, position)
    if host.calls.doubt:
        warnings.warn(host.calls.doubt, GradientWarning, stacklevel=3)


def _first(host: _HostFunction, position: np.ndarray, *, gradients: bool) -> Outcome:
    """The outcome at the initial parameters, or its problem in plain words."""
    outcome = host.outcomes(position[np.newaxis], gradients)[0]
    name = "value_and_grad" if gradients or host.workers.evaluation.value is None else "value"
    if outcome.problem == UNUSABLE:
        raise PosteriorError(outcome.words)
    if outcome.problem == NOT_FINITE:
        raise PosteriorError(
            f"{name} must be finite where chains start, but at {_shown(position)} {outcome.words}. "
            "Give initial parameters inside the support."
        )
    if outcome.problem:
        raise PosteriorError(
            f"{name} failed at the initial parameters, {_shown(position)}: {outcome.words}."
        )
    host.good = position
    return outcome


def _doubt_about(
    value: float, gradient: np.ndarray, host: _HostFunction, position: np.ndarray
) -> str:
    """What seems wrong with a gradient: it is compared with two more values along a direction.

    Half random and half along the gradient. The step is one in which the log density should change
    by little, but by more than a solver's noise. Only what neither noise nor the bend of the log
    density explains is told.
    """
    direction = np.random.default_rng(0).normal(size=position.shape)
    direction /= np.linalg.norm(direction)
    if gradient.any():
        direction *= -1 if direction @ gradient < 0 else 1
        direction += gradient / np.linalg.norm(gradient)
        direction /= np.linalg.norm(direction)
    claimed = float(direction @ gradient)
    longest = 1e-3 * max(1.0, float(np.abs(position).max()))
    step = min((0.1 + 10 * NOISE * abs(value)) / max(abs(claimed), 1e-300), longest)
    ends = position + step * direction * np.array([[1.0], [-1.0]])
    outcomes = host.outcomes(ends, gradients=False)
    if any(outcome.problem for outcome in outcomes):
        return ""
    ahead, behind = ((outcome.value - value) / step for outcome in outcomes)
    seen = (ahead - behind) / 2
    allowed = CLEARLY_OFF * max(abs(seen), abs(claimed)) + abs(ahead + behind)
    if abs(seen - claimed) <= allowed + NOISE * abs(value) / step:
        return ""
    return _told_doubt(seen, claimed)


def _told_doubt(seen: float, claimed: float) -> str:
    opposite = seen * claimed < 0
    remedy = (
        "Return the log density and its gradient, both without the minus sign of a potential."
        if opposite
        else "Return the gradient of the very log density that is returned."
    )
    return (
        "the gradient does not belong to the log density"
        f"{', it points the other way' if opposite else ''}: from the initial parameters, in some "
        f"direction, the log density changes at a rate of {seen:.3g}, and the gradient says "
        f"{claimed:.3g}. {remedy} Draws are exact with any gradient, but few will be accepted with "
        "this one."
    )


def _shown(position: np.ndarray) -> str:
    return np.array2string(position, precision=4, threshold=6)
