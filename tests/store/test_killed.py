"""Processes that are killed at random moments, and go on each time, end with the same draws."""

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from support_store import contents

CHILD = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
import jax.numpy as jnp, numpy as np
import nnghmc
from outside_method import MALA
from support_store import conducted, resumed

methods = {{
    "Auto": nnghmc.Auto(way="learn"),
    "NNgHMC": nnghmc.NNgHMC(
        0.3, (2, 5), warmup=60, network=nnghmc.GradientMLP(8), epochs=3,
        schedule=nnghmc.TrainingSchedule(40, 80, 40, probe_draws=20, tolerance=1.0),
    ),
    "NUTS": nnghmc.NUTS(),
    "MALA": MALA(0.2, warmup=150),
}}
store = Path(sys.argv[1])
posterior = nnghmc.from_log_density(
    lambda q: jnp.sum(jnp.array([0.8, 2.0]) * q - jnp.exp(q)), np.zeros(2), constrain=jnp.exp
)
print("ready", flush=True)
if (store / "store.json").exists():
    resumed(store, posterior, eager=True)
else:
    conducted(posterior, 300, 3, 4, methods[sys.argv[2]], store, 20, eager=True)
print("done", flush=True)
"""
KILLS = {"Auto": 10, "NNgHMC": 4, "NUTS": 4, "MALA": 4}
"""How often each is killed; `NNGHMC_KILLS=10` sets one number for all."""


@pytest.fixture
def start(tmp_path):
    """Start the child on a folder; what it compiles, the next one finds in a cache."""
    cache = {
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path / "compiled"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    program = CHILD.format(tests=str(Path(__file__).parents[1]))

    def started(store, method):
        child = subprocess.Popen(
            [sys.executable, "-c", program, str(store), method],
            env=os.environ | cache,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert child.stdout.readline() == "ready\n"
        return child

    return started


def lines(store):
    """How far a run has come: the lines in its journal."""
    log = Path(store) / "journal.jsonl"
    return log.read_bytes().count(b"\n") if log.exists() else 0


@pytest.mark.parametrize("method", KILLS)
def test_killed_again_and_again(start, tmp_path, method):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert start(whole, method).communicate()[0] == "done\n"
    expected = contents(whole)
    assert expected["unconstrained_posterior", "position"].shape == (3, 300, 2)
    chance = random.Random(7)
    kills = int(os.environ.get("NNGHMC_KILLS", KILLS[method]))
    moments = [0, *sorted(chance.sample(range(1, lines(whole) - 1), kills - 1))]
    for moment in moments:
        with start(killed, method) as child:
            while lines(killed) < moment:
                assert child.poll() is None
                time.sleep(0.001)
            time.sleep(chance.uniform(0, 0.05))
            child.kill()
        assert child.returncode == -9
    assert start(killed, method).communicate()[0] == "done\n"
    found = contents(killed)
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values)
