"""Settings of methods, as fields with a meaning and a name on the command line."""

from dataclasses import field
from typing import Any


def setting(default: Any, meaning: str, *, option: str | None = "", kind: str = "") -> Any:
    """Return a field of a method.

    Args:
        default: default of the field, or a function that returns a new default on each call.
        meaning: sentence for the help of the command line.
        option: name of the option on the command line, without the dashes. The empty string is the
            name of the field; None means that there is no option.
        kind: how the command line reads the option: empty for a plain value, "range" for a number
            or LOW:HIGH, "matrix" for a .npy file, "network" for a name, "surrogate" for a file, or
            "group" for a dataclass whose own fields are options.
    """
    metadata = {"meaning": meaning, "option": option, "kind": kind}
    if callable(default):
        return field(default_factory=default, metadata=metadata)
    return field(default=default, metadata=metadata)
