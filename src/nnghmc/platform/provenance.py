"""Describes where, when and with which versions a result was computed."""

import datetime
import os
import platform
from importlib.metadata import version

import jax

PACKAGES = ("nnghmc", "jax", "blackjax", "equinox", "numpy")


def cores() -> int:
    """Return the number of processor cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def provenance(*others: str) -> str:
    """Return date, machine and package versions in one line; `others` names further packages."""
    versions = ", ".join(f"{name} {version(name)}" for name in (*PACKAGES, *others))
    device = jax.devices()[0]
    machine = platform.machine() if device.platform == "cpu" else device.device_kind
    return (
        f"{datetime.date.today().isoformat()}, {cores()} cores {machine}, "
        f"Python {platform.python_version()}, {versions}"
    )
