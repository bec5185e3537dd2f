"""Measure by how much the memory of the host grows while a million draws are stored.

python benchmarks/flat_memory.py [--quick]
"""

import argparse
import resource
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import jax.numpy as jnp
import numpy as np

from nnghmc import Auto, from_log_density, sample
from report import publish, table

DRAWS, CHAINS, DIM = 1_000_000, 4, 10
MOST_GROWTH = 200


def resident():
    """Return the megabytes of memory that this process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6


@contextmanager
def watching():
    """Give a list to which the memory held is appended ten times a second."""
    seen, over = [resident()], threading.Event()

    def look():
        while not over.wait(0.1):
            seen.append(resident())

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield seen
    finally:
        over.set()
        watcher.join()


def timed(target, draws, **settings):
    """Return a run of so many draws in all, and its seconds."""
    started = time.perf_counter()
    run = sample(target, draws // CHAINS, **settings)
    return run, time.perf_counter() - started


def posterior():
    scales = jnp.linspace(0.5, 2.0, DIM)
    return from_log_density(
        lambda p: -0.5 * jnp.sum((p["x"] / scales) ** 2) - 0.01 * jnp.sum(p["x"] ** 4),
        {"x": np.zeros(DIM)},
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the draws; writes nothing")
    quick = parser.parse_args().quick
    draws = DRAWS // 10 if quick else DRAWS
    target = posterior()
    settings = {"chains": CHAINS, "method": Auto(way="learn"), "progress": False}
    with tempfile.TemporaryDirectory() as folder:
        sample(target, 1000, store=f"{folder}/small", **settings)  # loads and compiles everything
        with watching() as seen:
            run, stored = timed(target, draws, store=f"{folder}/large", **settings)
        files = [path for path in run.store.rglob("*") if path.is_file()]
        size = sum(path.stat().st_size for path in files) / 1e6
        same, in_memory = timed(target, draws, **settings)
        assert np.array_equal(run.draws, same.draws)
    growth = max(seen) - seen[0]
    rows = [
        ("memory at the start, after a small stored run", f"{seen[0]:,.0f} MB"),
        ("largest growth until the run is complete", f"{growth:,.0f} MB"),
        ("the store on disk", f"{size:,.0f} MB in {len(files)} files"),
        ("time, stored", f"{stored:.1f} s"),
        ("time, in memory", f"{in_memory:.1f} s"),
    ]
    lines = [
        f"{draws:,} draws of {DIM} dimensions, {CHAINS} chains together, with `store=`, and the "
        "same without.",
        *table(("", ""), rows),
    ]
    publish("flat_memory", "Memory of a stored run", lines, quick=quick)
    if growth > MOST_GROWTH:
        raise SystemExit(f"memory grew by {growth:.0f} MB, more than {MOST_GROWTH} MB")


if __name__ == "__main__":
    main()
