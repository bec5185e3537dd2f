"""Fixtures: targets with known moments, their gradients, and a small regression."""

import os
import re
import shutil
from functools import cache
from importlib.metadata import version
from pathlib import Path

TESTS = Path(__file__).parent
COMPILED = TESTS.parent / "build" / "compiled"
MOST_COMPILED = 500 * 10**6  # bytes

# Most of the suite's time is XLA's: compiling takes half as long like this, and what is compiled
# here runs for moments. Child processes inherit it. Must be said before JAX is loaded.
QUICK_COMPILATION = "--xla_backend_optimization_level=0 --xla_cpu_parallel_codegen_split_count=1"
if version("jaxlib").startswith("0.10."):  # later ones have no such flag, and die of it
    QUICK_COMPILATION += " --xla_cpu_use_fusion_emitters=false"
FLAGS = os.environ.get("XLA_FLAGS", "")
if QUICK_COMPILATION not in FLAGS:  # a worker has them already; twice would be other flags to JAX
    os.environ["XLA_FLAGS"] = f"{FLAGS} {QUICK_COMPILATION}".strip()
# PyMC's own functions run for moments here too; compiling them with C takes many seconds.
os.environ.setdefault("PYTENSOR_FLAGS", "mode=FAST_COMPILE,cxx=")

# The same code is compiled in many tests, in both workers and in the next run: once is enough.
# JAX's own bound on the size would look at every file again whenever it writes one.
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:  # the workers inherit it
    if sum(file.stat().st_size for file in COMPILED.glob("*")) > MOST_COMPILED:
        shutil.rmtree(COMPILED, ignore_errors=True)
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(COMPILED)
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.02"
    os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"


def keep_to_its_own_cores():
    """Each of several workers, so that XLA's threads do not get into each other's way."""
    worker, workers = (os.environ.get(f"PYTEST_XDIST_WORKER{part}") for part in ("", "_COUNT"))
    if worker and hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        if own := cores[int(worker.removeprefix("gw")) :: int(workers)]:
            os.sched_setaffinity(0, own)


keep_to_its_own_cores()  # before JAX counts them

import jax
import numpy as np
import pytest

from nnghmc import Posterior
from support import (
    KNOWN_TARGETS,
    logistic_data,
    logistic_log_likelihood,
    logistic_log_prior,
    random_gradient,
)


@pytest.fixture(params=KNOWN_TARGETS)
def known_target(request):
    return KNOWN_TARGETS[request.param]


@pytest.fixture(params=["true gradient", "random network"])
def target_and_gradient(request, known_target):
    """Each known target with its true gradient, and with one that has learned nothing."""
    if request.param == "true gradient":
        return known_target, jax.grad(known_target.potential)
    return known_target, random_gradient(known_target)


@pytest.fixture
def logistic():
    return Posterior(
        logistic_log_likelihood, logistic_log_prior, logistic_data(), {"beta": np.zeros(3)}
    )


WHOLE_RUN = re.compile(r"\b(sample|conducted|resumed?|watched_run)\b")
FOLDERS_OF_WHOLE_RUNS = ("paper", "test_docs.py")


@cache
def samples(path):
    """Whether a file of tests samples."""
    place = path.relative_to(TESTS)
    return place.parts[0] in FOLDERS_OF_WHOLE_RUNS or bool(WHOLE_RUN.search(path.read_text()))


def pytest_ignore_collect(collection_path, config):
    """Spare `make test-fast` the loading of files that sample, and of the front ends with them."""
    if config.option.markexpr == "not whole_run" and collection_path.suffix == ".py":
        return samples(collection_path) or None
    return None


def pytest_collection_modifyitems(items):
    """Mark the tests of files that sample: `make test-fast` leaves them out."""
    for item in items:
        if samples(item.path):
            item.add_marker("whole_run")
