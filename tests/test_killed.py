"""A process that is killed at random moments, and goes on each time, ends with the same draws."""

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import xarray

CHILD = """
import sys
from pathlib import Path
import jax.numpy as jnp, numpy as np
import nnghmc, nnghmc.journal

nnghmc.journal.LEAST_SECONDS, nnghmc.journal.SHARE_OF_TIME = 0.0, 1e9  # write after every step
store = Path(sys.argv[1])
posterior = nnghmc.from_log_density(
    lambda q: jnp.sum(jnp.array([0.8, 2.0]) * q - jnp.exp(q)), np.zeros(2), constrain=jnp.exp
)
print("ready", flush=True)
if (store / "store.json").exists():
    nnghmc.resume(store, posterior, progress=False)
else:
    nnghmc.sample(
        posterior, 600, 3, seed=4, chunk_size=20, store=store, progress=False,
        automatic=nnghmc.Automatic(way="learn"),
    )
print("done", flush=True)
"""
KILLS = 10


@pytest.fixture
def start(tmp_path):
    """Start the child on a folder; what it compiles, the next one finds in a cache."""
    cache = {
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path / "compiled"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }

    def started(store):
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(store)],
            env=os.environ | cache,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert child.stdout.readline() == "ready\n"
        return child

    return started


def steps(store):
    """How far a run has come: the lines in its journal."""
    log = Path(store) / "journal.jsonl"
    return log.read_bytes().count(b"\n") if log.exists() else 0


def contents(store):
    tree = xarray.open_datatree(store / "draws.zarr", engine="zarr")
    return {
        (name, variable): values.values
        for name, group in tree.children.items()
        for variable, values in group.variables.items()
    }


def test_killed_ten_times(start, tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert start(whole).communicate()[0] == "done\n"
    expected = contents(whole)
    assert expected["unconstrained_posterior", "position"].shape == (3, 600, 2)
    chance = random.Random(7)
    moments = [0, *sorted(chance.sample(range(1, steps(whole) - 1), KILLS - 1))]
    for moment in moments:
        with start(killed) as child:
            while steps(killed) < moment:
                assert child.poll() is None
                time.sleep(0.001)
            time.sleep(chance.uniform(0, 0.05))
            child.kill()
        assert child.returncode == -9
    assert start(killed).communicate()[0] == "done\n"
    found = contents(killed)
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values)
