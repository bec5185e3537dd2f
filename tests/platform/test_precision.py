"""Double precision is the default; single is possible, and a run where it is too coarse says so."""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import nnghmc
from nnghmc.errors import PosteriorError, PrecisionWarning

PROGRAM = """
import sys, warnings
import jax, jax.numpy as jnp, numpy as np
import nnghmc
offset = float(sys.argv[1])
posterior = nnghmc.from_log_density(lambda x: -0.5 * jnp.sum(x**2) - offset, np.zeros(2))
method = nnghmc.Auto(way="learn")
if sys.argv[2] == "tuned":
    schedule = nnghmc.TrainingSchedule.once(10, tolerance=1.0, probe_draws=5)
    method = nnghmc.NNgHMC(0.5, 4, warmup=10, epochs=2, schedule=schedule)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    run = nnghmc.sample(posterior, 50, 2, method=method, progress=False)
noted = [event.kind for event in run.events_of("Note")]
assert set(noted) <= {"precision"}, noted
print(posterior.initial.dtype, len(caught), len(noted), np.isfinite(run.draws).all())
"""


def run_program(offset, way="tuned", **environment):
    clean = {name: value for name, value in os.environ.items() if name != "JAX_ENABLE_X64"}
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(offset), way],
        env={**clean, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return result.stdout.split()


def test_double_by_default():
    assert run_program(1e7) == ["float64", "0", "0", "True"]


@pytest.mark.parametrize("way", ["tuned", "automatic"])
def test_single_where_the_environment_says_so(way):
    assert run_program(0.0, way, JAX_ENABLE_X64="0") == ["float32", "0", "0", "True"]


def test_single_precision_that_is_too_coarse_is_noted():
    assert run_program(1e7, JAX_ENABLE_X64="0") == ["float32", "1", "1", "True"]


def test_a_density_that_rounds_to_single_is_noted_too():
    """Though all the rest is in double precision, and the sum is cast back to it."""
    posterior = nnghmc.Posterior(
        lambda x, data: (-0.5 * jnp.sum(x**2) - 1e8).astype(jnp.float32),
        lambda x: -0.5 * jnp.sum(x**2),
        None,
        np.zeros(2),
    )
    with pytest.warns(PrecisionWarning, match="rounded to 12"):
        run = nnghmc.sample(posterior, 5, 2, method=nnghmc.HMC(warmup=0), progress=False)
    assert run.notes[0].kind == "precision"
    assert "double precision" in run.notes[0].remedy


def test_changing_precision_after_the_posterior_was_made_is_refused():
    posterior = nnghmc.from_log_density(lambda x: -0.5 * jnp.sum(x**2), np.zeros(2))
    with jax.enable_x64(False), pytest.raises(PosteriorError, match=r"made in float64.*float32"):
        nnghmc.sample(posterior, progress=False)
