"""HMC of a fixed length leaves known targets unchanged, whatever gradient it follows.

The suite over all kernels has lengths that vary and a diagonal mass matrix.

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


MATRICES = {
    "identity": np.ones,
    "dense": lambda dim: 0.5 * np.eye(dim) + 0.2 * np.ones((dim, dim)),
}


@pytest.mark.parametrize("matrix", MATRICES)
def test_target_is_unchanged(target_and_gradient, matrix):
    target, gradient = target_and_gradient
    inverse_mass_matrix = jnp.asarray(MATRICES[matrix](target.exact_draws(1, seed=0).shape[1]))
    algorithm = hmc(
        target.potential, gradient, target.step_size, target.num_steps, inverse_mass_matrix
    )
    assert_invariant(target, algorithm, CHAINS)


def test_target_is_unchanged_by_the_kernel_that_shares_value_and_gradient(known_target):
    target = known_target
    dim = target.exact_draws(1, seed=0).shape[1]
    algorithm = true_gradient_hmc(
        jax.value_and_grad(target.potential), target.step_size, target.num_steps, jnp.ones(dim)
    )
    assert_invariant(target, algorithm, CHAINS)
