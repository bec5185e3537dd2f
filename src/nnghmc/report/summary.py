"""The table of the reported variables, and which of them need looking at first."""

import numpy as np
import pandas as pd

from nnghmc.diagnostics import (
    LARGEST_RHAT,
    LEAST_DRAWS,
    LEAST_ESS_A_CHAIN,
    TAILS,
    Convergence,
    standard_errors,
)

MOST_ROWS = 2000


def summarised(scalars: dict[str, np.ndarray]) -> pd.DataFrame:
    """Summarise (chains, draws) each in a row of its own, not rounded.

    Effective sample sizes and R-hat are those of the notes of a run: R-hat of a single chain
    compares its halves, and what never moved has no effective sample size.
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
    """The names by R-hat from the largest down, then by ESS from the smallest up.

    What is not known comes last: constants are mostly meant.
    """
    if "r_hat" not in table:
        return list(table.index)
    keys = pd.DataFrame({"r_hat": -table["r_hat"], "ess": _smaller_ess(table)})
    return list(keys.sort_values(["r_hat", "ess"], na_position="last", kind="stable").index)


def _smaller_ess(table: pd.DataFrame) -> pd.Series:
    return table[["ess_bulk", "ess_tail"]].min(axis=1)


def is_doubtful(column: str, value: float, chains: int) -> bool:
    """Whether a number of the table is outside what the notes of a run hold to."""
    if column == "r_hat":
        return value > LARGEST_RHAT
    return column in ("ess_bulk", "ess_tail") and value < LEAST_ESS_A_CHAIN * chains


def largest_rhat(table: pd.DataFrame) -> float:
    """Of all rows; NaN where it is not known."""
    return float(table["r_hat"].max()) if "r_hat" in table else float("nan")


def lowest_ess(table: pd.DataFrame) -> float:
    """Of all rows, bulk and tails; NaN where it is not known."""
    return float(_smaller_ess(table).min()) if "ess_bulk" in table else float("nan")
