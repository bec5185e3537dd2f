"""The table of the reported variables, and the order in which to look at them."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from nnghmc.engine.statistics import LEAST_DRAWS, TAILS, Convergence, standard_errors
from nnghmc.run.notes import LARGEST_RHAT, LEAST_ESS_PER_CHAIN

MOST_ROWS = 2000
"""Rows of the table: more would make the page too large for a browser."""


def summarised(scalars: Mapping[str, np.ndarray]) -> pd.DataFrame:
    """Return a table with one row per scalar, for at most `MOST_ROWS` scalars, without rounding.

    The draws of each scalar have shape (chains, draws). With too few draws for diagnostics, the
    table has only means and standard deviations. Effective sample sizes and R-hat are computed as
    for the notes of a run: R-hat of a single chain compares its halves, and a scalar that never
    moved has no effective sample size.
    """
    names = list(scalars)[:MOST_ROWS]
    draws = np.stack([scalars[name] for name in names], axis=-1).astype(float)
    if draws.shape[1] < LEAST_DRAWS:
        means, spreads = draws.mean(axis=(0, 1)), draws.std(axis=(0, 1))
        return pd.DataFrame({"mean": means, "sd": spreads}, index=names)
    convergence = Convergence.of(draws)
    low, high = np.quantile(draws, TAILS, axis=(0, 1))
    columns = {
        "mean": draws.mean(axis=(0, 1)),
        "sd": draws.std(axis=(0, 1), ddof=1),
        f"{TAILS[0]:.0%}": low,
        f"{TAILS[1]:.0%}": high,
        "mcse_mean": standard_errors(draws),
        "mcse_sd": standard_errors(draws, of="std"),
        "ess_bulk": convergence.bulk_ess,
        "ess_tail": convergence.tail_ess,
        "r_hat": convergence.rhat,
    }
    return pd.DataFrame(columns, index=names)


def worst_first(table: pd.DataFrame) -> list[str]:
    """Return the names by falling R-hat, and by rising ESS where R-hat is equal.

    Names without an R-hat come last: most of them are constants.
    """
    if "r_hat" not in table:
        return list(table.index)
    keys = pd.DataFrame({"r_hat": -table["r_hat"], "ess": _smaller_ess(table)})
    return list(keys.sort_values(["r_hat", "ess"], na_position="last", kind="stable").index)


def _smaller_ess(table: pd.DataFrame) -> pd.Series:
    return table[["ess_bulk", "ess_tail"]].min(axis=1)


def is_doubtful(column: str, value: float, chains: int) -> bool:
    """Return whether the notes of a run would object to a number of the table."""
    if column == "r_hat":
        return value > LARGEST_RHAT
    return column in ("ess_bulk", "ess_tail") and value < LEAST_ESS_PER_CHAIN * chains


def largest_rhat(table: pd.DataFrame) -> float:
    """Return the largest R-hat of all rows; NaN where it is not known."""
    return float(table["r_hat"].max()) if "r_hat" in table else float("nan")


def lowest_ess(table: pd.DataFrame) -> float:
    """Return the lowest ESS of all rows, bulk or tail; NaN where it is not known."""
    return float(_smaller_ess(table).min()) if "ess_bulk" in table else float("nan")
