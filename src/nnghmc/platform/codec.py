"""Converts values to JSON and arrays, and back; our files hold these instead of pickle.

A description names classes. Reading it creates objects of the allowed classes only.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, TypeVar

import jax
import numpy as np


@dataclass(frozen=True)
class Converter:
    """Converts values of a class that its fields alone do not describe.

    Attributes:
        kind: the class.
        pack: turns a value into something that can be described.
        unpack: turns that back into the value.
    """

    kind: type
    pack: Callable[[Any], Any]
    unpack: Callable[[Any], Any]


Kinds = Mapping[str, type | Converter]
"""Classes that may be described, by name: dataclasses, Equinox modules, or converters."""

STORABLE: dict[str, type] = {}
"""Dataclasses that files may hold, by name."""

Kind = TypeVar("Kind", bound=type)


def storable(kind: Kind) -> Kind:
    """Allow files to hold a dataclass. Use it as a decorator."""
    STORABLE[kind.__name__] = kind
    return kind


def described(value: Any, arrays: dict[str, np.ndarray], kinds: Kinds) -> dict[str, Any]:
    """Return a description of a value that JSON can hold, and add its arrays to `arrays`."""
    kind: Any = type(value)
    found: Any = kinds.get(kind.__name__)
    if isinstance(found, Converter) and found.kind is kind:
        return {"class": kind.__name__, "packed": described(found.pack(value), arrays, kinds)}
    if found is kind:
        parts = {
            part.name: described(getattr(value, part.name), arrays, kinds) for part in fields(kind)
        }
        return {"class": kind.__name__, "fields": parts}
    if isinstance(value, tuple | list):
        return {"tuple": [described(item, arrays, kinds) for item in value]}
    if isinstance(value, dict) and all(isinstance(name, str) for name in value):
        return {"dict": {name: described(item, arrays, kinds) for name, item in value.items()}}
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
    """Return the value that `described` turned into a description; lists come back as tuples."""
    if "class" in node:
        return _restored_instance(node, arrays, kinds, as_array)
    if "tuple" in node:
        return tuple(restored(item, arrays, kinds, as_array) for item in node["tuple"])
    if "dict" in node:
        parts = node["dict"].items()
        return {name: restored(item, arrays, kinds, as_array) for name, item in parts}
    if "array" in node:
        return as_array(arrays[node["array"]])
    return node["value"]


def _restored_instance(
    node: Mapping[str, Any],
    arrays: Mapping[str, np.ndarray],
    kinds: Kinds,
    as_array: Callable[[np.ndarray], Any],
) -> Any:
    """Return an instance of an allowed class from its description."""
    kind = kinds[node["class"]]
    if isinstance(kind, Converter):
        return kind.unpack(restored(node["packed"], arrays, kinds, as_array))
    parts = {name: restored(part, arrays, kinds, as_array) for name, part in node["fields"].items()}
    _check_parts(node["class"], kind, set(parts))
    return kind(**parts)


def _check_parts(name: str, kind: Any, found: set[str]) -> None:
    """Refuse parts that the class does not have, or has no default for.

    A field that came after the file was written has its default.
    """
    required = {
        part.name
        for part in fields(kind)
        if part.default is MISSING and part.default_factory is MISSING
    }
    if not required <= found <= {part.name for part in fields(kind)}:
        raise ValueError(f"{name} has the parts {sorted(found)}")
