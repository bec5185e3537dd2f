"""Measures the free memory, so that an error comes before a crash."""

import os
from pathlib import Path

import jax

from nnghmc.errors import SettingsError

CGROUP_FILES = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    (
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "/sys/fs/cgroup/memory/memory.usage_in_bytes",
    ),
)
"""Files with the memory limit and the memory in use of a container, in cgroups 2 and 1."""


def require_memory(needed: float, what: str, remedy: str) -> None:
    """Raise an error if `what` needs more bytes than are free."""
    available = available_memory()
    if needed > available:
        raise SettingsError(
            f"{what} needs about {needed / 2**30:,.1f} GiB of memory, and {available / 2**30:,.1f} "
            f"GiB are free. {remedy}"
        )


def available_memory() -> int:
    """Return the free bytes where JAX computes: on the accelerator, or on the host."""
    stats = jax.local_devices()[0].memory_stats()
    if stats and "bytes_limit" in stats:
        return int(stats["bytes_limit"] - stats.get("bytes_in_use", 0))
    return min(_free_on_host(), *(_free_in_group(*files) for files in CGROUP_FILES))


def _free_on_host() -> int:
    """Return the free bytes of the host, or all its memory if the system does not say."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _free_in_group(limit_file: str, usage_file: str) -> int:
    """Return the bytes that a container may still use, or a huge number without a limit."""
    try:
        limit = int(Path(limit_file).read_text())
        return limit - int(Path(usage_file).read_text())
    except (OSError, ValueError):
        return 2**63
