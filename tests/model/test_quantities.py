import jax.numpy as jnp
import numpy as np
import pytest

from nnghmc.model.blackbox.callbacks import called_back, like
from nnghmc.model.quantities import over_draws


def of_one(position, number):
    return {"sum": jnp.sum(position), "scaled": number * position}


@pytest.mark.parametrize("batch_bytes", [1, 100, 10**9])
def test_batches_of_any_size_give_the_same(batch_bytes):
    positions, numbers = np.arange(21.0).reshape(7, 3), np.arange(7)
    found = over_draws(of_one, (positions, numbers), batch_bytes=batch_bytes)
    np.testing.assert_array_equal(found["sum"], positions.sum(axis=1))
    np.testing.assert_array_equal(found["scaled"], numbers[:, np.newaxis] * positions)


def test_a_batch_holds_no_more_than_it_may():
    sizes = []

    def watched(positions):
        sizes.append(len(positions))
        return np.zeros((len(positions), 50))

    def large(position):
        return {"large": called_back(watched, like(position, (50,)), position)}

    over_draws(large, (np.zeros((10, 2)),), batch_bytes=4 * 400)
    assert sizes == [4, 4, 4]


def test_no_draws_give_nothing():
    found = over_draws(of_one, (np.empty((0, 3)), np.empty(0, int)))
    assert found["scaled"].shape == (0, 3)
