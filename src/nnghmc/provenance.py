"""Where and when a result was made: for tables and figures that outlive their run."""

import datetime
import os
import platform
from importlib.metadata import version

PACKAGES = ("nnghmc", "jax", "blackjax", "equinox", "numpy")


def provenance() -> str:
    """Date, machine class and versions, in one line."""
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    return (
        f"{datetime.date.today().isoformat()}, {os.cpu_count()} cores {platform.machine()}, "
        f"Python {platform.python_version()}, {versions}"
    )
