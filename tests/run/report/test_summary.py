import numpy as np
import pandas as pd

from nnghmc.engine.statistics import rhat, tail_ess
from nnghmc.run.arviz import load_arviz
from nnghmc.run.report.summary import is_doubtful, largest_rhat, lowest_ess, summarised, worst_first


def scalars(*columns):
    return {f"x{number}": column for number, column in enumerate(columns)}


def noise(seed, chains=2, draws=100):
    return np.random.default_rng(seed).normal(size=(chains, draws))


def test_numbers_are_arviz_own_and_not_rounded():
    columns = scalars(noise(0), 1e-6 * noise(1))
    found = summarised(columns)
    arviz = load_arviz()
    expected = arviz.summary(arviz.convert_to_dataset(columns), round_to="none")
    shared = ["mean", "sd", "mcse_mean", "ess_bulk", "r_hat"]
    pd.testing.assert_frame_equal(found[shared], expected[shared].astype(float))
    np.testing.assert_allclose(found["mcse_sd"], expected["mcse_sd"], rtol=0.01)
    draws = np.stack(list(columns.values()), axis=-1)
    np.testing.assert_array_equal(found["ess_tail"], tail_ess(draws))
    np.testing.assert_array_equal(found[["5%", "95%"]].T, np.quantile(draws, [0.05, 0.95], (0, 1)))


def test_what_disagrees_comes_first_and_constants_last():
    apart = noise(1) + np.array([[0.0], [4.0]])
    table = summarised(scalars(np.ones((2, 100)), noise(0), apart))
    assert worst_first(table) == ["x2", "x1", "x0"]
    assert np.isnan(table.loc["x0", "ess_bulk"])
    assert largest_rhat(table) == table.loc["x2", "r_hat"] > 1.5
    assert lowest_ess(table) == min(table.loc["x2", ["ess_bulk", "ess_tail"]])


def test_equal_rhat_is_ordered_by_the_size_of_the_sample():
    table = summarised(scalars(noise(0), noise(1)))
    table["r_hat"] = 1.0
    table["ess_bulk"] = [50.0, 40.0]
    table["ess_tail"] = [30.0, 90.0]
    assert worst_first(table) == ["x0", "x1"]


def test_a_single_chain_is_compared_with_itself():
    drifting = noise(0, chains=1) + np.linspace(0, 5, 100)
    table = summarised(scalars(drifting))
    np.testing.assert_allclose(table["r_hat"], rhat(drifting[..., np.newaxis]))
    assert table.loc["x0", "r_hat"] > 1.5


def test_few_draws_have_no_statistics_of_convergence():
    table = summarised(scalars(noise(0, draws=3)))
    assert list(table.columns) == ["mean", "sd"]
    assert worst_first(table) == ["x0"]
    assert np.isnan([largest_rhat(table), lowest_ess(table)]).all()


def test_doubts_are_those_of_the_notes():
    assert is_doubtful("r_hat", 1.011, chains=4)
    assert not is_doubtful("r_hat", 1.009, chains=4)
    assert is_doubtful("ess_tail", 399, chains=4)
    assert not is_doubtful("ess_bulk", 401, chains=4)
    assert not is_doubtful("mean", 1e9, chains=4)
    assert not is_doubtful("ess_bulk", np.nan, chains=4)
