"""Values as JSON and arrays, and back: what our files hold in the place of pickle.

A description names classes, and reading it makes objects of the classes allowed, and of no others.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

import jax
import numpy as np

Kinds = Mapping[str, type]
"""The classes that may be described, by name; dataclasses, or modules of Equinox."""


def described(value: Any, arrays: dict[str, np.ndarray], kinds: Kinds) -> dict[str, Any]:
    """A description of a value; its arrays are added to `arrays`."""
    kind: Any = type(value)
    if kind in kinds.values():
        parts = {
            part.name: described(getattr(value, part.name), arrays, kinds) for part in fields(kind)
        }
        return {"class": kind.__name__, "fields": parts}
    if isinstance(value, tuple | list):
        return {"tuple": [described(item, arrays, kinds) for item in value]}
    if isinstance(value, jax.Array | np.ndarray):
        name = f"array{len(arrays)}"
        arrays[name] = np.asarray(value)
        return {"array": name}
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, str | bool | int | float):
        return {"value": value}
    raise TypeError(f"a {type(value).__name__} cannot be written to a file")


def restored(
    node: Mapping[str, Any],
    arrays: Mapping[str, np.ndarray],
    kinds: Kinds,
    as_array: Callable[[np.ndarray], Any] = np.asarray,
) -> Any:
    """The value that a description describes; lists come back as tuples."""
    if "class" in node:
        kind = kinds[node["class"]]
        parts = {
            name: restored(part, arrays, kinds, as_array) for name, part in node["fields"].items()
        }
        if set(parts) != {part.name for part in fields(kind)}:
            raise ValueError(f"{node['class']} has the parts {sorted(parts)}")
        return kind(**parts)
    if "tuple" in node:
        return tuple(restored(item, arrays, kinds, as_array) for item in node["tuple"])
    if "array" in node:
        return as_array(arrays[node["array"]])
    return node["value"]
