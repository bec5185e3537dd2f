"""Writes surrogates to files and reads them back, without pickle.

A file is an .npz archive of NumPy. Its entry `header` is JSON that names the classes the surrogate
consists of and the arrays they hold. Reading creates objects of the classes in `Storable.kinds`
only, and checks the result.
"""

import json
import math
from dataclasses import asdict, dataclass, fields
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from nnghmc.errors import SurrogateFileError
from nnghmc.platform.codec import described, restored
from nnghmc.platform.files import as_bytes, from_bytes, write_atomically
from nnghmc.surrogates.data import GradientData
from nnghmc.surrogates.learned import Learned
from nnghmc.surrogates.parts.storable import Storable

FORMAT = "nnghmc surrogate"
FORMAT_VERSION = 1
HELD_OUT = "held_out."
"""Start of the names of the arrays that hold the held-out gradient data."""


@dataclass(frozen=True, eq=False)
class FitReport:
    """A report on a fit: the data it used, the course of training and the held-out error.

    Attributes:
        model: name of the gradient model.
        losses: mean loss of each epoch; empty for a model without epochs.
        held_out_losses: mean held-out loss of each epoch, where it decided when to stop.
        points: number of points learned from.
        dropped: number of points left out because they were not finite.
        held_out: number of held-out points.
        held_out_error: size of the error of the gradient at the held-out points, relative to the
            size of the gradient.
        remarks: further facts, one phrase each.
    """

    model: str
    losses: np.ndarray
    held_out_losses: np.ndarray
    points: int
    dropped: int = 0
    held_out: int = 0
    held_out_error: float = float("nan")
    remarks: tuple[str, ...] = ()

    @property
    def lines(self) -> list[str]:
        """The report in words, one phrase per line."""
        lines = [f"learned from {self.points:,} points by {self.model}"]
        if self.dropped:
            lines.append(f"left out {self.dropped:,} points that were not finite")
        if len(self.losses):
            first, last = self.losses[0], self.losses[-1]
            lines.append(f"loss from {first:.3g} to {last:.3g} in {len(self.losses)} epochs")
        if self.held_out:
            error = f"relative gradient error {self.held_out_error:.2g}"
            lines.append(f"{error} on {self.held_out:,} held-out points")
        return [*lines, *self.remarks]

    def __str__(self) -> str:
        return "; ".join(self.lines)


class StoredSurrogate(NamedTuple):
    """The contents of a file; `names` and `shapes` are those of the parameters."""

    learned: Learned
    report: FitReport
    dim: int
    names: tuple[str, ...] | None
    shapes: tuple[tuple[int, ...], ...] | None
    held_out: GradientData | None = None
    of_inputs: bool = False


def write_surrogate(path: str | Path, stored: StoredSurrogate) -> None:
    """Write one file, completely or not at all."""
    try:
        write_atomically(Path(path), as_bytes(to_arrays(stored)))
    except OSError as error:
        raise SurrogateFileError(
            f"{path} could not be written: {error}. Choose a folder that exists and is writable."
        ) from None


def to_arrays(stored: StoredSurrogate) -> dict[str, np.ndarray]:
    """Turn a surrogate into named arrays; the JSON header is one of them."""
    arrays: dict[str, np.ndarray] = {}
    report = {
        name: value.tolist() if isinstance(value, np.ndarray) else value
        for name, value in asdict(stored.report).items()
    }
    try:
        learned = described(stored.learned, arrays, Storable.kinds)
    except TypeError as error:
        raise SurrogateFileError(
            f"this surrogate cannot be saved: {error}. Save it before with_prior, and call "
            "with_prior again after loading."
        ) from None
    header = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "package_version": version("nnghmc"),
        "dim": stored.dim,
        "names": stored.names,
        "shapes": stored.shapes,
        "report": report,
        "learned": learned,
        "of_inputs": stored.of_inputs,
    }
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    if stored.held_out is not None:
        for part in fields(GradientData):
            arrays[HELD_OUT + part.name] = getattr(stored.held_out, part.name)
    return arrays


def read_surrogate(path: str | Path) -> StoredSurrogate:
    """Read one file, or raise an error that says what is wrong with it."""
    try:
        arrays = from_bytes(Path(path).read_bytes())
    except FileNotFoundError:
        raise SurrogateFileError(
            f"{path} does not exist. Pass the path of a file that Surrogate.save wrote."
        ) from None
    except Exception as error:  # a damaged archive makes NumPy and zipfile raise errors of any kind
        raise SurrogateFileError(
            f"{path} is not a surrogate's file, or it is damaged ({error}). Pass the path of a "
            "file that Surrogate.save wrote."
        ) from None
    return read_arrays(path, arrays)


def read_arrays(path: str | Path, arrays: dict[str, np.ndarray]) -> StoredSurrogate:
    """Restore a surrogate from named arrays and check it; errors name `path` as their origin."""
    header = _read_header(path, arrays)
    try:
        stored = _decode(header, arrays)
        _check(stored)
    except Exception as error:  # an edited header may raise errors of any kind, but runs no code
        raise SurrogateFileError(
            f"{path} is damaged: {error!r}. Restore it from a copy, or fit the surrogate again."
        ) from None
    return stored


def _read_header(path: str | Path, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    try:
        header = json.loads(arrays["header"].tobytes())
        if header["format"] != FORMAT:
            raise ValueError(header["format"])
    except (KeyError, ValueError, TypeError):
        raise SurrogateFileError(
            f"{path} is not a surrogate's file: its header is missing or foreign. Pass the path of "
            "a file that Surrogate.save wrote."
        ) from None
    if header.get("format_version") != FORMAT_VERSION:
        raise SurrogateFileError(
            f"{path} must have format {FORMAT_VERSION}, which nnghmc {version('nnghmc')} reads, "
            f"and has format {header.get('format_version')} of nnghmc "
            f"{header.get('package_version')}. Load it with that version, or fit the surrogate "
            "again."
        )
    return header


def _decode(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> StoredSurrogate:
    report = dict(header["report"])
    for name in ("losses", "held_out_losses"):
        report[name] = np.asarray(report[name], float)
    report["remarks"] = tuple(report["remarks"])
    names, shapes = header["names"], header["shapes"]
    return StoredSurrogate(
        restored(header["learned"], arrays, Storable.kinds, _checked_array),
        FitReport(**report),
        int(header["dim"]),
        None if names is None else tuple(names),
        None if shapes is None else tuple(tuple(shape) for shape in shapes),
        _decode_held_out(arrays),
        bool(header.get("of_inputs", False)),
    )


def _decode_held_out(arrays: dict[str, np.ndarray]) -> GradientData | None:
    parts = {
        name.removeprefix(HELD_OUT): array
        for name, array in arrays.items()
        if name.startswith(HELD_OUT)
    }
    for name, array in parts.items():
        axes = 2 if name in ("positions", "gradients") else 1
        if array.dtype.kind not in "fi" or array.ndim != axes:
            raise ValueError(f"held-out {name} of {array.dtype} with shape {array.shape}")
    return GradientData(**parts) if parts else None


def _checked_array(array: np.ndarray) -> jax.Array:
    if array.dtype.kind not in "fi" or not np.isfinite(array).all():
        raise ValueError(f"an array of {array.dtype} whose entries are not all finite numbers")
    return jnp.asarray(array)


def _check(stored: StoredSurrogate) -> None:
    """Fail unless the contents are a gradient of the dimension that the header names."""
    str(stored.report)
    if stored.shapes is not None:
        sizes = [math.prod(shape) for shape in stored.shapes]
        if sum(sizes) != stored.dim or stored.names is None or len(stored.names) != len(sizes):
            raise ValueError(f"parameters of sizes {sizes} in {stored.dim} dimensions")
    if stored.held_out is not None and stored.held_out.dim != stored.dim:
        raise ValueError(f"held-out data of {stored.held_out.dim} in {stored.dim} dimensions")
    if not isinstance(stored.learned, Learned):
        raise ValueError(f"{type(stored.learned).__name__} is not a learned gradient")
    shape = jax.ShapeDtypeStruct((stored.dim,), jnp.result_type(float))
    gradient = eqx.filter_eval_shape(stored.learned.gradient, shape)
    if gradient.shape != (stored.dim,):
        raise ValueError(f"gradients of shape {gradient.shape} in {stored.dim} dimensions")
