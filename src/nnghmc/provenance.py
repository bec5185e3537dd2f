"""Where and when a result was made: for tables and figures that outlive their run."""

import datetime
import os
import platform
from importlib.metadata import version

import jax

PACKAGES = ("nnghmc", "jax", "blackjax", "equinox", "numpy")


def provenance() -> str:
    """Date, machine class and versions, in one line."""
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    device = jax.devices()[0]
    machine = platform.machine() if device.platform == "cpu" else device.device_kind
    return (
        f"{datetime.date.today().isoformat()}, {os.cpu_count()} cores {machine}, "
        f"Python {platform.python_version()}, {versions}"
    )
