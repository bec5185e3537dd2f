import numpy as np
import pytest

from nnghmc.chains import Draws, HistoryInMemory
from nnghmc.kernels import HMCInfo


def chunk(length, chains=3, dim=2, seed=0):
    generator = np.random.default_rng(seed)
    info = {name: generator.random((length, chains)) for name in HMCInfo._fields}
    positions = generator.normal(size=(length, chains, dim))
    return Draws(positions, generator.random((length, chains)), HMCInfo(**info))


def test_history_puts_chunks_behind_each_other():
    first, second = chunk(4, seed=1), chunk(1, seed=2)
    history = HistoryInMemory(3, 10, 2)
    assert np.isnan(history.acceptance)
    assert np.isnan(history.worst_acceptance)
    for part in (first, second):
        history.add(part, None)
    assert history.draws.shape == (3, 5, 2)
    np.testing.assert_array_equal(history.draws[:, :4], np.swapaxes(first.positions, 0, 1))
    np.testing.assert_array_equal(history.draws[:, 4], second.positions[0])
    np.testing.assert_array_equal(history.stats["lp"][:, 4], -second.potentials[0])


def test_acceptance_is_that_of_all_chunks_so_far():
    history = HistoryInMemory(3, 10, 2)
    for seed, length in enumerate((4, 1, 3)):
        history.add(chunk(length, seed=seed), None)
        rates = history.stats["acceptance_rate"]
        assert history.acceptance == pytest.approx(rates.mean())
        assert history.worst_acceptance == pytest.approx(rates.mean(axis=1).min())
