import numpy as np
import pytest

from nnghmc.engine.history import Draws, HistoryInMemory

STATISTICS = ("lp", "acceptance_rate", "energy", "diverging")


def chunk(length, chains=3, dim=2, seed=0):
    generator = np.random.default_rng(seed)
    statistics = {name: generator.random((length, chains)) for name in STATISTICS}
    return Draws(generator.normal(size=(length, chains, dim)), statistics)


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
    assert set(history.stats) == set(STATISTICS)
    for name in STATISTICS:
        np.testing.assert_array_equal(history.stats[name][:, :4], first.statistics[name].T)
        np.testing.assert_array_equal(history.stats[name][:, 4], second.statistics[name][0])


def test_acceptance_is_that_of_all_chunks_so_far():
    history = HistoryInMemory(3, 10, 2)
    for seed, length in enumerate((4, 1, 3)):
        history.add(chunk(length, seed=seed), None)
        rates = history.stats["acceptance_rate"]
        assert history.acceptance == pytest.approx(rates.mean())
        assert history.worst_acceptance == pytest.approx(rates.mean(axis=1).min())


def test_a_longer_history_is_a_copy_that_can_grow():
    history = HistoryInMemory(3, 4, 2)
    history.add(chunk(4, seed=1), None)
    before = history.draws.copy()
    longer = history.longer(2)
    longer.add(chunk(2, seed=2), None)
    assert longer.draws.shape == (3, 6, 2)
    np.testing.assert_array_equal(longer.draws[:, :4], before)
    np.testing.assert_array_equal(history.draws, before)
    assert longer.acceptance == pytest.approx(longer.stats["acceptance_rate"].mean())


def test_without_a_metropolis_test_there_is_no_acceptance():
    history = HistoryInMemory(3, 4, 2)
    plain = chunk(4)
    del plain.statistics["acceptance_rate"]
    history.add(plain, None)
    assert history.length == 4
    assert np.isnan(history.acceptance)
