"""Files that are there whole or not at all, and arrays in them without pickle."""

import hashlib
import io
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

UNFINISHED = ".unfinished"
"""The end of the name of a file that a crash has kept from being finished."""


def write_atomically(path: Path, contents: bytes) -> None:
    """Put a file in its place in one stroke: whoever looks finds the old one or the new one.

    It has reached the disk when this returns, so that a loss of power does not take it away.
    """
    unfinished = path.with_name(f".{path.name}.{uuid4().hex}{UNFINISHED}")
    try:
        with unfinished.open("wb") as file:
            file.write(contents)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    reach_the_disk(path.parent)


def reach_the_disk(path: Path) -> None:
    """Wait until a file, or the list of files of a folder, is on the disk."""
    if os.name == "nt":  # Windows cannot open folders, and sees to it by itself
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def as_bytes(arrays: Mapping[str, np.ndarray]) -> bytes:
    """Arrays in NumPy's .npz format."""
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def from_bytes(contents: bytes) -> dict[str, np.ndarray]:
    """What `as_bytes` made bytes of; objects that would need pickle are refused by NumPy."""
    with np.load(io.BytesIO(contents), allow_pickle=False) as parts:
        return {name: parts[name] for name in parts.files}


def seal(values: Mapping[str, Any], before: str = "") -> str:
    """A digest of what JSON can hold, whatever its order, and of the seal of what came before."""
    return digest(before.encode(), json.dumps(values, sort_keys=True).encode())


def digest(*parts: bytes) -> str:
    """The SHA-256 of some bytes, in hexadecimal."""
    found = hashlib.sha256()
    for part in parts:
        found.update(part)
    return found.hexdigest()
