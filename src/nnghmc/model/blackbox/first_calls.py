"""The first calls of a function outside JAX: are its results usable, and is the gradient right?"""

import warnings

import numpy as np

from nnghmc.errors import GradientWarning, PosteriorError
from nnghmc.model.blackbox.density import HostFunction, shown
from nnghmc.model.blackbox.evaluation import NOT_FINITE, UNUSABLE, Outcome

CLEARLY_OFF, NOISE = 0.2, 1e-6
"""Differences that a right gradient may show, relative to the slope and to the log density."""
SAME_DENSITY = 0.01
"""Largest difference of two log densities that are equal as far as the Metropolis test goes."""


def check_first_calls(host: HostFunction, position: np.ndarray) -> None:
    """Say what is wrong with what the functions return, before any time is spent on sampling."""
    first = _first_outcome(host, position, gradients=True)
    if host.workers.evaluation.value is not None:
        cheaper = _first_outcome(host, position, gradients=False).value
        if abs(cheaper - first.value) > SAME_DENSITY:
            raise PosteriorError(
                "value must return the same log density as value_and_grad, constants included; at "
                f"{shown(position)} it is {cheaper} and {first.value}. Correct one of the two, "
                "or leave value out."
            )
    assert first.gradient is not None
    doubt = _doubt_about(first.value, first.gradient, host, position)
    host.monitor.cast_doubt(doubt)
    if doubt:
        warnings.warn(doubt, GradientWarning, stacklevel=3)


def _first_outcome(host: HostFunction, position: np.ndarray, *, gradients: bool) -> Outcome:
    """Return the outcome at the initial parameters, or raise its problem in plain words."""
    outcome = host.outcomes(position[np.newaxis], gradients)[0]
    name = "value_and_grad" if gradients or host.workers.evaluation.value is None else "value"
    if outcome.problem == UNUSABLE:
        raise PosteriorError(outcome.words)
    if outcome.problem == NOT_FINITE:
        raise PosteriorError(
            f"{name} must be finite where chains start, but at {shown(position)} {outcome.words}. "
            "Give initial parameters inside the support."
        )
    if outcome.problem:
        raise PosteriorError(
            f"{name} failed at the initial parameters, {shown(position)}: {outcome.words}."
        )
    host.good = position
    return outcome


def _doubt_about(
    value: float, gradient: np.ndarray, host: HostFunction, position: np.ndarray
) -> str:
    """Compare the gradient with two more values along one direction, and say what seems wrong.

    The direction is half random and half along the gradient. Over the step the log density should
    change by little, but by more than a solver's noise. Only a difference is reported that neither
    noise nor the curvature of the log density explains.
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
    return _words_of_doubt(seen, claimed)


def _words_of_doubt(seen: float, claimed: float) -> str:
    opposite = seen * claimed < 0
    remedy = (
        "Return the log density and its gradient, both without the minus sign of a potential."
        if opposite
        else "Return the gradient of the same log density that is returned."
    )
    return (
        "the gradient does not belong to the log density"
        f"{', it points the other way' if opposite else ''}: from the initial parameters, in some "
        f"direction, the log density changes at a rate of {seen:.3g}, and the gradient says "
        f"{claimed:.3g}. {remedy} Draws are exact with any gradient, but few will be accepted with "
        "this one."
    )
