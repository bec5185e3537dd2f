"""Writes files completely or not at all, with arrays in them but without pickle."""

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
"""Suffix of a file that is not finished, perhaps because of a crash."""


def write_atomically(path: Path, contents: bytes) -> None:
    """Write or replace a file in one operation: readers see either the old or the new contents.

    The contents are on the disk when this function returns, and survive a loss of power.
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
    if os.name == "nt":  # Windows cannot open folders, and does this by itself
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def as_bytes(arrays: Mapping[str, np.ndarray]) -> bytes:
    """Return arrays as the bytes of a file in NumPy's .npz format."""
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def from_bytes(contents: bytes) -> dict[str, np.ndarray]:
    """Return the arrays in the bytes of an .npz file; NumPy refuses objects that need pickle."""
    with np.load(io.BytesIO(contents), allow_pickle=False) as parts:
        return {name: parts[name] for name in parts.files}


def seal(values: Mapping[str, Any], before: str = "") -> str:
    """Return a digest of the seal before and of values that JSON can hold, whatever their order."""
    return digest(before.encode(), json.dumps(values, sort_keys=True).encode())


def digest(*parts: bytes) -> str:
    """Return the SHA-256 digest of some bytes, in hexadecimal."""
    found = hashlib.sha256()
    for part in parts:
        found.update(part)
    return found.hexdigest()
