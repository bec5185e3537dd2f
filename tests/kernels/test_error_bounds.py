"""Propositions 1 to 3 of the paper on a quadratic, where every constant can be computed.

U(q) = ½ qᵀ A q, so that the exact flow is a matrix exponential. The learned gradient is the true
one plus an error of size δ: a smooth field of constant length, or a random network scaled to it.
"""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import expm

from nnghmc.kernels import simulate
from support import KNOWN_TARGETS, random_gradient

PRECISION = np.diag([4.0, 1.0, 0.25])
SYSTEM = np.block([[np.zeros((3, 3)), np.eye(3)], [-PRECISION, np.zeros((3, 3))]])
LIPSCHITZ = np.linalg.norm(SYSTEM, 2)
START = np.array([0.5, -1.0, 1.5, 0.3, 0.8, -0.6])


def rotating_error(q):
    """A field of unit length everywhere that is no gradient of anything."""
    angle = q[0] + 2 * q[1] - q[2]
    return jnp.array([jnp.cos(angle), jnp.sin(angle), 0.0])


def network_error(q):
    """A random network, squashed so that its length stays below one."""
    field = random_gradient(KNOWN_TARGETS["gaussian"], seed=7)(q)
    return field / (1 + jnp.linalg.norm(field))


ERRORS = {"rotating": rotating_error, "random network": network_error}


@pytest.fixture(params=ERRORS)
def gradient_with_error(request):
    error = ERRORS[request.param]
    return lambda size: lambda q: PRECISION @ q + size * error(q)


def run(gradient, time, step_size):
    """Position and momentum at the end, and the energy along the way."""
    num_steps = round(time / step_size)
    position, momentum, path = simulate(
        gradient, jnp.asarray(START[:3]), jnp.asarray(START[3:]), step_size, num_steps
    )
    return np.concatenate([position, momentum]), path


def energy(point):
    return 0.5 * point[:3] @ PRECISION @ point[:3] + 0.5 * point[3:] @ point[3:]


def test_energy_drift_is_proportional_to_the_gradient_error(gradient_with_error):
    """Proposition 1: dH/dt = p·(∇U - g), so the drift is linear in a small error."""
    sizes = np.array([1e-3, 2e-3, 4e-3, 8e-3])
    reference = energy(run(gradient_with_error(0.0), 2.0, 1e-3)[0])
    drifts = [energy(run(gradient_with_error(s), 2.0, 1e-3)[0]) - reference for s in sizes]
    ratios = np.abs(drifts) / sizes
    assert ratios.min() > 1e-3
    np.testing.assert_allclose(ratios, ratios[0], rtol=0.05)


def test_energy_drift_is_within_its_integral_bound(gradient_with_error):
    """Proposition 1: |H(T) - H(0)| is at most the integral of |p| |∇U - g|."""
    size, step_size = 0.3, 1e-3
    end, path = run(gradient_with_error(size), 2.0, step_size)
    speed = np.linalg.norm(np.diff(path.positions, axis=0), axis=1)  # |p| dt
    errors = np.linalg.norm(
        np.asarray(path.gradients) - np.asarray(path.positions) @ PRECISION, axis=1
    )
    bound = np.sum(speed * errors[1:]) + np.linalg.norm(START[3:]) * size * step_size
    assert abs(energy(end) - energy(START)) <= bound * 1.01
    assert errors.max() <= size * (1 + 1e-9)


@pytest.mark.parametrize("size", [0.01, 0.1, 0.5])
@pytest.mark.parametrize("time", [0.1, 0.25, 0.5, 1.0])
def test_flows_part_no_faster_than_gronwall(gradient_with_error, size, time):
    """Proposition 2: the learned flow is within (δ / K)(exp(K t) - 1) of the true one."""
    learned, _ = run(gradient_with_error(size), time, 1e-3)
    true = expm(SYSTEM * time) @ START
    integration_error = np.linalg.norm(run(gradient_with_error(0.0), time, 1e-3)[0] - true)
    bound = size / LIPSCHITZ * np.expm1(LIPSCHITZ * time)
    distance = np.linalg.norm(learned - true)
    assert distance <= bound + 2 * integration_error
    assert distance >= 1e-3 * bound  # the bound says something


@pytest.mark.parametrize("step_size", [0.05, 0.1, 0.2])
def test_global_error_of_leapfrog_is_within_its_bound(gradient_with_error, step_size):
    """Proposition 3: steps and gradient error together, by the recursion of one-step errors.

    One step of leapfrog under the true gradient is a matrix M; it misses the exact flow by at
    most τ = |M - exp(ε S)| |z|. Under a gradient that is off by δ it misses by a further
    c δ ε at most. Errors grow by |M| a step, so after n steps they add up to at most
    Σ |M|^k (τ + c δ ε).
    """
    size, num_steps = 0.1, 20
    kick = np.block([[np.eye(3), np.zeros((3, 3))], [-0.5 * step_size * PRECISION, np.eye(3)]])
    drift = np.block([[np.eye(3), step_size * np.eye(3)], [np.zeros((3, 3)), np.eye(3)]])
    step = kick @ drift @ kick
    flow = expm(SYSTEM * step_size)
    exact = [np.linalg.matrix_power(flow, n) @ START for n in range(num_steps + 1)]
    largest = max(np.linalg.norm(point) for point in exact)
    truncation = np.linalg.norm(step - flow, 2) * largest
    # The first half kick passes through drift and second kick, the second one does not.
    kicked = 0.5 * size * step_size * (1 + np.linalg.norm(kick @ drift, 2))
    growth = np.linalg.norm(step, 2)
    bound = (truncation + kicked) * sum(growth**k for k in range(num_steps))
    end, _ = run(gradient_with_error(size), num_steps * step_size, step_size)
    assert np.linalg.norm(end - exact[-1]) <= bound


def test_energy_of_a_conservative_error_does_not_drift():
    """Why a conservative field is the better one: its energy error stays bounded."""

    def conservative(q):
        return PRECISION @ q + 0.1 * jnp.array([jnp.cos(q[0]), 0.0, 0.0])

    long = [abs(energy(run(conservative, t, 0.01)[0]) - energy(START)) for t in (5.0, 20.0, 50.0)]
    assert max(long) < 0.25
