"""Modules that can be written to a file and read back without pickle."""

from typing import Any, ClassVar

import equinox as eqx


class Storable(eqx.Module):
    """A module of arrays, numbers, strings, tuples and other storables.

    Every subclass registers itself in `kinds` under its name. A file refers to classes by these
    names, and reading it creates objects of registered classes only.
    """

    kinds: ClassVar[dict[str, type["Storable"]]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        Storable.kinds[cls.__name__] = cls
