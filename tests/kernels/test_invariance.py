"""Each kernel leaves known targets unchanged, whatever gradient it follows.

Many independent chains start from exact draws of the target and make a few transitions. If the
kernel is right, the ends are again independent exact draws, so moments can be compared with a
plain z-test: no autocorrelation, no estimate of an effective sample size.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nnghmc.kernels import hmc, true_gradient_hmc
from support import assert_invariant

CHAINS = 40_000


def fixed(step_size, num_steps):
    return step_size, num_steps


def jittered(step_size, num_steps):
    return (0.5 * step_size, 1.2 * step_size), (1, num_steps)


TUNINGS = {
    "fixed length, identity": (fixed, np.ones),
    "fixed length, dense": (fixed, lambda dim: 0.5 * np.eye(dim) + 0.2 * np.ones((dim, dim))),
    "jittered length, diagonal": (jittered, lambda dim: np.linspace(0.4, 1.0, dim)),
}


@pytest.mark.parametrize("tuning", TUNINGS)
def test_target_is_unchanged(target_and_gradient, tuning):
    target, gradient = target_and_gradient
    length, matrix = TUNINGS[tuning]
    inverse_mass_matrix = jnp.asarray(matrix(target.exact_draws(1, seed=0).shape[1]))
    step_size, num_steps = length(target.step_size, target.num_steps)
    algorithm = hmc(target.potential, gradient, step_size, num_steps, inverse_mass_matrix)
    assert_invariant(target, algorithm, CHAINS)


def test_target_is_unchanged_by_the_kernel_that_shares_value_and_gradient(known_target):
    target = known_target
    dim = target.exact_draws(1, seed=0).shape[1]
    algorithm = true_gradient_hmc(
        jax.value_and_grad(target.potential), target.step_size, target.num_steps, jnp.ones(dim)
    )
    assert_invariant(target, algorithm, CHAINS)
