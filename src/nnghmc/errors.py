"""Defines all errors that a user can meet, and the small checks that raise them.

A message states the rule, the value that broke it, and what to do.
"""

import numbers
from collections.abc import Callable
from typing import Any


class NnghmcError(ValueError):
    """An argument cannot be used; the message says which, why, and what to do."""


class PosteriorError(NnghmcError):
    """The log density, its data or its initial point cannot be sampled."""


class SettingsError(NnghmcError):
    """A setting of `sample`, a method, a kernel or a network is out of its range."""


class GradientDataError(NnghmcError):
    """A surrogate cannot be fitted to the collected gradients."""


class SurrogateFileError(NnghmcError):
    """A surrogate cannot be written to a file, or read from one."""


class StoreError(NnghmcError):
    """A store cannot be made, written, read or continued."""


class UnreadableError(StoreError):
    """A store holds something of a kind that this version does not know."""


class TargetError(NnghmcError):
    """A TARGET of the command line does not lead to a Posterior."""


class PrecisionWarning(UserWarning):
    """The floating-point type in use rounds energies too coarsely for the Metropolis test."""


class GradientWarning(UserWarning):
    """The gradient that a function returns does not belong to its log density."""


def positive_integer(name: str, value: Any) -> int:
    """Return `value` as an int, or raise an error if it is not a positive whole number."""
    return _integer(name, value, smallest=1, rule="a positive whole number")


def natural_number(name: str, value: Any, largest: int | None = None) -> int:
    """Return `value` as an int, or raise an error if it is not zero or a positive whole number."""
    number = _integer(name, value, smallest=0, rule="zero or a positive whole number")
    if largest is not None and number > largest:
        raise SettingsError(f"{name} must be at most {largest}, got {value!r}.")
    return number


def check_fields(instance: Any, **checks: Callable[[str, Any], Any]) -> None:
    """Replace each field of a frozen dataclass by what its check returns; None stays None."""
    for name, check in checks.items():
        value = getattr(instance, name)
        if value is not None:
            object.__setattr__(instance, name, check(name, value))


def share(name: str, value: Any) -> float:
    """Return `value` as a float, or raise an error if it is not at least 0 and less than 1."""
    value = _plain(value)
    real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not real or not 0 <= value < 1:
        raise SettingsError(f"{name} must be at least 0 and less than 1, got {value!r}.")
    return float(value)


def _integer(name: str, value: Any, smallest: int, rule: str) -> int:
    value = _plain(value)
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not whole or value < smallest:
        raise SettingsError(f"{name} must be {rule}, got {value!r}.")
    return int(value)


def positive_number(name: str, value: Any) -> float:
    """Return `value` as a float, or raise an error if it is not positive and finite."""
    value = _plain(value)
    real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not real or not 0 < value < float("inf"):
        raise SettingsError(f"{name} must be a positive, finite number, got {value!r}.")
    return float(value)


def _plain(value: Any) -> Any:
    """Return the number in an array without axes, if it holds one; a random key does not."""
    if getattr(value, "ndim", None) != 0:
        return value
    try:
        return value.item()
    except (TypeError, ValueError, AttributeError, NotImplementedError):
        return value


def instance_of(name: str, value: Any, kind: type) -> Any:
    """Return `value` if it is an instance of `kind`, or raise an error that names the kind."""
    if not isinstance(value, kind):
        raise SettingsError(f"{name} must be a {kind.__name__}, got {value!r}.")
    return value


def one_of(name: str, value: Any, allowed: tuple[str, ...]) -> str:
    """Return `value` if it is one of the allowed words, or raise an error that lists them."""
    if value not in allowed:
        raise SettingsError(f"{name} must be one of {', '.join(allowed)}; got {value!r}.")
    return str(value)
