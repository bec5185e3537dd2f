import jax.numpy as jnp
import numpy as np
import pytest

from nnghmc import quantities
from nnghmc.quantities import over_draws


def of_one(position, number):
    return {"sum": jnp.sum(position), "scaled": number * position}


@pytest.mark.parametrize("batch_bytes", [1, 100, 10**9])
def test_batches_of_any_size_give_the_same(monkeypatch, batch_bytes):
    monkeypatch.setattr(quantities, "BATCH_BYTES", batch_bytes)
    positions, numbers = np.arange(21.0).reshape(7, 3), np.arange(7)
    found = over_draws(of_one, (positions, numbers))
    np.testing.assert_array_equal(found["sum"], positions.sum(axis=1))
    np.testing.assert_array_equal(found["scaled"], numbers[:, np.newaxis] * positions)


def test_a_batch_holds_no_more_than_it_may(monkeypatch):
    sizes = []

    def watched(function, draws, rest):
        sizes.append(len(draws[0]))
        return {"large": np.zeros((len(draws[0]), 50))}

    monkeypatch.setattr(quantities, "BATCH_BYTES", 4 * 400)
    monkeypatch.setattr(quantities, "_batch", watched)
    over_draws(lambda position: {"large": jnp.zeros(50)}, (np.zeros((10, 2)),))
    assert sizes == [4, 4, 4]


def test_no_draws_give_nothing():
    found = over_draws(of_one, (np.empty((0, 3)), np.empty(0, int)))
    assert found["scaled"].shape == (0, 3)
