"""Every error a user can meet, one tree, and the small checks that raise them.

A message states the rule, the value that broke it, and what to do.
"""

import numbers
from collections.abc import Callable
from pathlib import Path
from typing import Any


class NnghmcError(ValueError):
    """Something the caller gave cannot be used; the message says what and how to mend it."""


class PosteriorError(NnghmcError):
    """The log density, its data or its initial point cannot be sampled."""


class SettingsError(NnghmcError):
    """An argument of `sample`, a kernel, a network or a schedule is out of its range."""


class GradientDataError(NnghmcError):
    """The collected gradients cannot be learned from."""


class SurrogateFileError(NnghmcError):
    """A surrogate cannot be written to a file, or read from one."""


class StoreError(NnghmcError):
    """A store cannot be made, written, read, or gone on with."""


class TargetError(NnghmcError):
    """A TARGET of the command line does not lead to a Posterior."""


class PrecisionWarning(UserWarning):
    """Energies are too coarse for the Metropolis test in the floating-point type in use."""


class GradientWarning(UserWarning):
    """The gradient that a function returns does not belong to its log density."""


def positive_integer(name: str, value: Any) -> int:
    """Return `value` as an int, or say that it must be a positive whole number."""
    return _integer(name, value, smallest=1, rule="a positive whole number")


def natural_number(name: str, value: Any, largest: int | None = None) -> int:
    """Return `value` as an int, or say that it must be zero or a positive whole number."""
    number = _integer(name, value, smallest=0, rule="zero or a positive whole number")
    if largest is not None and number > largest:
        raise SettingsError(f"{name} must be at most {largest}, got {value!r}.")
    return number


def check_fields(instance: Any, **checks: Callable[[str, Any], Any]) -> None:
    """Put what a check returns in the place of each field of a frozen dataclass; None stays."""
    for name, check in checks.items():
        value = getattr(instance, name)
        if value is not None:
            object.__setattr__(instance, name, check(name, value))


def share(name: str, value: Any) -> float:
    """Return `value` as a float, or say that it must be at least 0 and less than 1."""
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
    """Return `value` as a float, or say that it must be positive and finite."""
    value = _plain(value)
    real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not real or not 0 < value < float("inf"):
        raise SettingsError(f"{name} must be a positive, finite number, got {value!r}.")
    return float(value)


def _plain(value: Any) -> Any:
    """The number in an array without axes."""
    return value.item() if getattr(value, "ndim", None) == 0 else value


def instance_of(name: str, value: Any, kind: type) -> Any:
    """Return `value` if it is of the kind wanted, or name that kind."""
    if not isinstance(value, kind):
        raise SettingsError(f"{name} must be a {kind.__name__}, got {value!r}.")
    return value


def one_of(name: str, value: Any, allowed: tuple[str, ...]) -> str:
    """Return `value` if it is one of the words allowed, or list them."""
    if value not in allowed:
        raise SettingsError(f"{name} must be one of {', '.join(allowed)}; got {value!r}.")
    return str(value)


def line_in_file(error: BaseException, file_name: str) -> str:
    """The last line of a file that an error went through, as " (line 7)", or nothing."""
    lines = []
    trace = error.__traceback__
    while trace is not None:
        if Path(trace.tb_frame.f_code.co_filename).name == Path(file_name).name:
            lines.append(trace.tb_lineno)
        trace = trace.tb_next
    return f" (line {lines[-1]})" if lines else ""
