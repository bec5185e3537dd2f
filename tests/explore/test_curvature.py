"""The curvature that L-BFGS knows: secants, volume and draws of its normal approximation."""

import numpy as np
import pytest

from nnghmc.explore.curvature import MEMORY, Curvature

DIM = 6


@pytest.fixture
def hessian():
    root = np.random.default_rng(0).normal(size=(DIM, DIM))
    return root @ root.T + np.eye(DIM)


def along(hessian, number, seed=1):
    """The curvature after some random moves on a quadratic."""
    curvature = Curvature()
    for move in np.random.default_rng(seed).normal(size=(number, DIM)):
        curvature = curvature.after(move, hessian @ move)
    return curvature


def matrix(curvature):
    return curvature.covariance_times(np.eye(DIM))


def test_without_a_move_it_is_the_identity():
    np.testing.assert_array_equal(matrix(Curvature()), np.eye(DIM))
    assert Curvature().log_volume(DIM) == 0
    noise = np.random.default_rng(0).normal(size=(3, DIM))
    np.testing.assert_array_equal(Curvature().colour(noise), noise)


@pytest.mark.parametrize("number", [1, 3, 12])
def test_the_last_move_is_explained(hessian, number):
    curvature = along(hessian, number)
    np.testing.assert_allclose(
        curvature.covariance_times(curvature.changes[-1]), curvature.moves[-1], rtol=1e-8
    )


@pytest.mark.parametrize("number", [1, 2, 12])
def test_volume_and_draws_are_those_of_the_covariance(hessian, number):
    curvature = along(hessian, number)
    covariance = matrix(curvature)
    np.testing.assert_allclose(covariance, covariance.T, rtol=1e-8, atol=1e-12)
    expected = 0.5 * np.linalg.slogdet(covariance)[1]
    assert curvature.log_volume(DIM) == pytest.approx(expected, rel=1e-8)
    root = curvature.colour(np.eye(DIM))
    np.testing.assert_allclose(root.T @ root, covariance, rtol=1e-8, atol=1e-10)


def test_moves_along_negative_curvature_and_old_ones_are_forgotten(hessian):
    curvature = along(hessian, MEMORY + 5)
    assert len(curvature.moves) == len(curvature.changes) == MEMORY
    assert curvature.after(np.ones(DIM), -np.ones(DIM)) is curvature


def test_the_last_moves_alone_can_be_asked(hessian):
    curvature = along(hessian, 8)
    last = curvature.of_last(3)
    for few, all_ in ((last.moves, curvature.moves), (last.changes, curvature.changes)):
        np.testing.assert_array_equal(few, all_[-3:])
    assert curvature.of_last(20).moves == curvature.moves
