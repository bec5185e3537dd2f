"""Surrogates in files: arrays and a description of what they make up. No pickle.

A file is NumPy's .npz. Its `header` is JSON: which classes of ours the surrogate is made of, with
the names of their arrays. Reading makes objects of these classes alone, and checks what it makes.
"""

import json
import math
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from nnghmc.description import described, restored
from nnghmc.errors import SurrogateFileError
from nnghmc.files import as_bytes, from_bytes, write_atomically
from nnghmc.surrogates.learned import Learned
from nnghmc.surrogates.storable import Storable

FORMAT = "nnghmc surrogate"
FORMAT_VERSION = 1


@dataclass(frozen=True, eq=False)
class FitReport:
    """How a fit went.

    Attributes:
        model: the name of the gradient model.
        losses: the mean loss of each epoch, where there were epochs.
        held_out_losses: that on held-out trajectories, where they decided when to stop.
        points: points learned from.
        dropped: points dropped for not being finite.
        held_out: points held out.
        held_out_error: the size of the gradient's error on them, relative to the gradient's.
        remarks: what else there is to say.
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
        """The report in words, a line a matter."""
        learned = f"learned from {self.points:,} points by {self.model}"
        if self.dropped:
            learned += f", {self.dropped} not finite and left out"
        lines = [learned]
        if len(self.losses):
            first, last = self.losses[0], self.losses[-1]
            lines.append(f"loss {first:.3g} to {last:.3g} in {len(self.losses)} epochs")
        if self.held_out:
            error = f"gradient error {self.held_out_error:.2g}"
            lines.append(f"{error} on {self.held_out:,} points held out")
        return [*lines, *self.remarks]

    def __str__(self) -> str:
        return "; ".join(self.lines)


class StoredSurrogate(NamedTuple):
    """What a file holds."""

    learned: Learned
    report: FitReport
    dim: int
    names: tuple[str, ...] | None
    shapes: tuple[tuple[int, ...], ...] | None


def write_surrogate(path: str | Path, stored: StoredSurrogate) -> None:
    """Write one file, in one stroke."""
    try:
        write_atomically(Path(path), as_bytes(packed(stored)))
    except OSError as error:
        raise SurrogateFileError(f"{path} could not be written: {error}.") from None


def packed(stored: StoredSurrogate) -> dict[str, np.ndarray]:
    """Everything as arrays, the header among them."""
    arrays: dict[str, np.ndarray] = {}
    report = {
        name: value.tolist() if isinstance(value, np.ndarray) else value
        for name, value in asdict(stored.report).items()
    }
    try:
        learned = described(stored.learned, arrays, Storable.kinds)
    except TypeError as error:
        raise SurrogateFileError(
            f"this surrogate cannot be saved: {error}. Save it before with_prior, and call that "
            "again after loading."
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
    }
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    return arrays


def read_surrogate(path: str | Path) -> StoredSurrogate:
    """Read one file, or say what is wrong with it."""
    try:
        arrays = from_bytes(Path(path).read_bytes())
    except FileNotFoundError:
        raise SurrogateFileError(f"{path} does not exist.") from None
    except Exception as error:  # whatever a damaged archive leads NumPy and zipfile to
        raise SurrogateFileError(
            f"{path} is not a surrogate's file, or it is damaged ({error})."
        ) from None
    return unpacked(path, arrays)


def unpacked(path: str | Path, arrays: dict[str, np.ndarray]) -> StoredSurrogate:
    """What was packed, checked; `path` is where it came from."""
    header = _header(path, arrays)
    try:
        stored = _decoded(header, arrays)
        _check(stored)
    except Exception as error:  # whatever an edited header leads to; none of it runs foreign code
        raise SurrogateFileError(f"{path} is damaged: {error!r}.") from None
    return stored


def _header(path: str | Path, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    try:
        header = json.loads(arrays["header"].tobytes())
        if header["format"] != FORMAT:
            raise ValueError(header["format"])
    except (KeyError, ValueError, TypeError):
        raise SurrogateFileError(
            f"{path} is not a surrogate's file: its header is missing or foreign."
        ) from None
    if header.get("format_version") != FORMAT_VERSION:
        raise SurrogateFileError(
            f"{path} has format {header.get('format_version')} of nnghmc "
            f"{header.get('package_version')}; this version ({version('nnghmc')}) reads format "
            f"{FORMAT_VERSION}. Fit the surrogate anew."
        )
    return header


def _decoded(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> StoredSurrogate:
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
    )


def _checked_array(array: np.ndarray) -> jax.Array:
    if array.dtype.kind != "f" or not np.isfinite(array).all():
        raise ValueError(f"an array of {array.dtype} that is not all finite numbers")
    return jnp.asarray(array)


def _check(stored: StoredSurrogate) -> None:
    """What was read must be a gradient of the dimension it names."""
    str(stored.report)
    if stored.shapes is not None:
        sizes = [math.prod(shape) for shape in stored.shapes]
        if sum(sizes) != stored.dim or stored.names is None or len(stored.names) != len(sizes):
            raise ValueError(f"parameters of sizes {sizes} in {stored.dim} dimensions")
    if not isinstance(stored.learned, Learned):
        raise ValueError(f"{type(stored.learned).__name__} is not a learned gradient")
    shape = jax.ShapeDtypeStruct((stored.dim,), jnp.result_type(float))
    made = eqx.filter_eval_shape(stored.learned.gradient, shape)
    if made.shape != (stored.dim,):
        raise ValueError(f"gradients of shape {made.shape} in {stored.dim} dimensions")
