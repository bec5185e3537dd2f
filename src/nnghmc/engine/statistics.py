"""Statistics of draws: ArviZ's effective sample sizes and R-hat, and the paper's own ESS."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

LONGEST_LAG_OF_THE_PAPER = 200
"""Longest lag of the autocorrelations in the paper's effective sample size."""
LEAST_DRAWS = 4
"""Number of draws per chain that ArviZ's statistics of convergence need."""
LEAST_DRAWS_FOR_TAILS = 200
"""Number of draws of all chains together that a look at the tails needs."""
TAILS = (0.05, 0.95)
"""Quantiles whose effective sample size is the tail ESS, as in Stan."""


@contextmanager
def _array_statistics() -> Iterator[Any]:
    """Yield ArviZ's statistics of plain arrays, with its warnings suppressed.

    They are imported when first needed, which takes a second. ArviZ warns about few draws and about
    chains that never moved; the notes of a run cover both.
    """
    from arviz_stats.base import array_stats

    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"arviz_stats\.", category=UserWarning)
        yield array_stats


def bulk_ess(draws: np.ndarray) -> np.ndarray:
    """Return ArviZ's bulk effective sample size of each coordinate of (chains, draws, dim)."""
    return _where_moving(draws, _each_coordinate("ess", draws))


def tail_ess(draws: np.ndarray) -> np.ndarray:
    """Return ArviZ's tail effective sample size of each coordinate, the lower one of `TAILS`."""
    return _where_moving(draws, _each_coordinate("ess", draws, method="tail", prob=TAILS))


def rhat(draws: np.ndarray) -> np.ndarray:
    """Return ArviZ's R-hat of each coordinate of draws (chains, draws, dim).

    A single chain is split into halves, which at least shows whether it drifts.
    """
    if len(draws) == 1:
        half = draws.shape[1] // 2
        draws = draws[0, : 2 * half].reshape(2, half, -1)
    return _each_coordinate("rhat", draws)


def split_rhat(draws: np.ndarray) -> np.ndarray:
    """Return split R-hat of each coordinate, without rank normalisation, for warm-up decisions.

    ArviZ's R-hat is used only for kept draws, because importing ArviZ takes longer than many
    warm-ups.
    """
    half = draws.shape[1] // 2
    halves = np.concatenate([draws[:, :half], draws[:, half : 2 * half]])
    within = halves.var(axis=1, ddof=1).mean(axis=0)
    between = halves.mean(axis=1).var(axis=0, ddof=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.sqrt((half - 1) / half + between / within))


def standard_errors(draws: np.ndarray, of: str = "mean") -> np.ndarray:
    """Return ArviZ's Monte Carlo standard errors of the "mean" or the "std" of each coordinate.

    The error of a standard deviation follows from that of the mean square, because the version of
    ArviZ for Python 3.11 uses the autocorrelation of the draws instead of that of their squares.
    """
    if of == "mean":
        return _each_coordinate("mcse", draws, method="mean")
    squares = (draws - draws.mean(axis=(0, 1))) ** 2
    with np.errstate(all="ignore"):
        return standard_errors(squares) / (2 * np.sqrt(squares.mean(axis=(0, 1))))


def _each_coordinate(statistic: str, draws: np.ndarray, **options: Any) -> np.ndarray:
    """Return one of ArviZ's statistics for each coordinate of draws (chains, draws, dim)."""
    with _array_statistics() as statistics:
        function = getattr(statistics, statistic)
        return np.asarray(function(draws, chain_axis=0, draw_axis=1, **options))


def density(values: np.ndarray, points: int) -> tuple[np.ndarray, np.ndarray]:
    """Return ArviZ's kernel density estimate of a one-dimensional array: grid and heights."""
    with _array_statistics() as statistics:
        grid, heights, _ = statistics.kde(values, grid_len=points)
    return grid, heights


def _where_moving(draws: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Replace the sizes of coordinates in which no chain ever moved by NaN."""
    return np.where(np.ptp(draws, axis=1).max(axis=0) > 0, sizes, np.nan)


def tail_shapes(draws: np.ndarray) -> np.ndarray:
    """Return the Pareto k of the tails of each coordinate, fitted by ArviZ.

    Moments of order 1/k and above do not exist, so there is no variance from k = 0.5 on. The k is
    NaN where all draws in the tail are equal, as those of a chain that stayed there.
    """
    flat = draws.reshape(-1, draws.shape[2])
    away = np.abs(flat - np.median(flat, axis=0))
    logarithms = np.log(np.maximum(away, np.finfo(float).tiny))
    return np.array([_tail_shape(column) for column in logarithms.T])


def _tail_shape(logarithms: np.ndarray) -> float:
    with _array_statistics() as statistics:
        try:
            return float(statistics.psislw(-logarithms, axis=0)[1])  # takes minus log weights
        except ValueError:  # ArviZ refuses a tail whose values are all the same
            return float("nan")


def longest_stay(log_densities: np.ndarray) -> int:
    """Return the largest number of consecutive draws of a chain with the same log density."""
    longest = 0
    for chain in log_densities:
        moves = np.flatnonzero(np.diff(chain) != 0)
        stays = np.diff(np.concatenate([[-1], moves, [len(chain) - 1]]))
        longest = max(longest, int(stays.max()))
    return longest


def bfmi(energies: np.ndarray) -> np.ndarray:
    """Return ArviZ's E-BFMI of each chain, from its energies."""
    with _array_statistics() as statistics:
        return np.asarray(statistics.bfmi(energies, chain_axis=0, draw_axis=1))


class Convergence(NamedTuple):
    """Effective sample sizes and R-hat of each coordinate, by ArviZ."""

    bulk_ess: np.ndarray
    tail_ess: np.ndarray
    rhat: np.ndarray

    @classmethod
    def of(cls, draws: np.ndarray) -> "Convergence":
        """Return ESS and R-hat of draws of shape (chains, draws, dim).

        `draws` must have at least `LEAST_DRAWS` draws per chain.
        """
        return cls(bulk_ess(draws), tail_ess(draws), rhat(draws))

    @classmethod
    def if_enough(cls, draws: np.ndarray) -> "Convergence | None":
        """Return ESS and R-hat, or None if there are fewer than `LEAST_DRAWS` draws per chain."""
        return cls.of(draws) if draws.shape[1] >= LEAST_DRAWS else None


def paper_ess(draws: np.ndarray) -> np.ndarray:
    """Return the paper's ESS, N / (1 + 2 Σ ρ_k), of each coordinate.

    The sum ends before the first negative ρ, and at lag 200. The sizes of the chains are added up,
    so chains that disagree go unnoticed; `bulk_ess` notices them.
    """
    chains, length, dim = draws.shape
    centred = draws - draws.mean(axis=1, keepdims=True)
    most = min(LONGEST_LAG_OF_THE_PAPER, length - 1)
    variance = np.maximum((centred**2).mean(axis=1), np.finfo(float).tiny)
    lagged = np.empty((most, chains, dim))
    for lag in range(1, most + 1):
        products = (centred[:, lag:] * centred[:, :-lag]).sum(axis=1)
        lagged[lag - 1] = products / length / variance
    counted = np.cumprod(lagged > 0, axis=0)
    sizes = (length / (1 + 2 * (lagged * counted).sum(axis=0))).sum(axis=0)
    return _where_moving(draws, sizes)
