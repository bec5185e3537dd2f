"""Every error a user can meet, one tree, and the small checks that raise them.

A message states the rule, the value that broke it, and what to do.
"""

import numbers
from typing import Any


class NnghmcError(ValueError):
    """Something the caller gave cannot be used; the message says what and how to mend it."""


class PosteriorError(NnghmcError):
    """The log density, its data or its initial point cannot be sampled."""


class SettingsError(NnghmcError):
    """An argument of `sample`, a kernel, a network or a schedule is out of its range."""


class GradientDataError(NnghmcError):
    """The collected gradients cannot be learned from."""


class TargetError(NnghmcError):
    """A TARGET of the command line does not lead to a Posterior."""


class PrecisionWarning(UserWarning):
    """Energies are too coarse for the Metropolis test in the floating-point type in use."""


def positive_integer(name: str, value: Any) -> int:
    """Return `value` as an int, or say that it must be a positive whole number."""
    return _integer(name, value, smallest=1, rule="a positive whole number")


def natural_number(name: str, value: Any) -> int:
    """Return `value` as an int, or say that it must be zero or a positive whole number."""
    return _integer(name, value, smallest=0, rule="zero or a positive whole number")


def _integer(name: str, value: Any, smallest: int, rule: str) -> int:
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not whole or value < smallest:
        raise SettingsError(f"{name} must be {rule}, got {value!r}.")
    return int(value)


def positive_number(name: str, value: Any) -> float:
    """Return `value` as a float, or say that it must be positive and finite."""
    real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not real or not 0 < value < float("inf"):
        raise SettingsError(f"{name} must be a positive, finite number, got {value!r}.")
    return float(value)


def one_of(name: str, value: Any, allowed: tuple[str, ...]) -> str:
    """Return `value` if it is one of the words allowed, or list them."""
    if value not in allowed:
        raise SettingsError(f"{name} must be one of {', '.join(allowed)}; got {value!r}.")
    return str(value)
