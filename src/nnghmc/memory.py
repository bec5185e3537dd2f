"""How much memory there is, and a refusal before it is exceeded rather than a crash after."""

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


def require_memory(needed: float, what: str, remedy: str) -> None:
    """Refuse what needs more bytes than there are."""
    available = available_memory()
    if needed > available:
        raise SettingsError(
            f"{what} needs about {needed / 2**30:,.1f} GiB of memory, and {available / 2**30:,.1f} "
            f"GiB are free. {remedy}"
        )


def available_memory() -> int:
    """Free bytes where JAX computes: on the accelerator, or on the host within its limits."""
    stats = jax.local_devices()[0].memory_stats()
    if stats and "bytes_limit" in stats:
        return int(stats["bytes_limit"] - stats.get("bytes_in_use", 0))
    return min(_free_on_host(), *(_free_in_group(*files) for files in CGROUP_FILES))


def _free_on_host() -> int:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _free_in_group(limit_file: str, usage_file: str) -> int:
    """What a container may still use; without such a limit, more than any machine has."""
    try:
        limit = int(Path(limit_file).read_text())
        return limit - int(Path(usage_file).read_text())
    except (OSError, ValueError):
        return 2**63
