"""What a surrogate is made of: modules that can be written to a file, and read without pickle."""

from typing import Any, ClassVar

import equinox as eqx


class Storable(eqx.Module):
    """A module of arrays, numbers, words, tuples and other storables; known by its class name.

    A file names the classes it is made of, and reading it makes objects of these classes alone.
    """

    kinds: ClassVar[dict[str, type["Storable"]]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        Storable.kinds[cls.__name__] = cls
