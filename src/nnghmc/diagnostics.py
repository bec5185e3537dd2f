"""Effective sample sizes and R-hat by ArviZ, the paper's formula, and what to say of them."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

LONGEST_LAG_OF_THE_PAPER = 200
LEAST_DRAWS = 4
"""ArviZ's statistics of convergence need so many a chain."""
LARGEST_RHAT = 1.01
LEAST_ESS_A_CHAIN = 100
LEAST_ACCEPTANCE = 0.2
LEAST_DRAWS_FOR_TAILS = 200
TAILS = (0.05, 0.95)
"""The quantiles whose effective sample size is that of the tails, as in Stan."""
LEAST_BFMI, LEAST_DRAWS_FOR_BFMI = 0.6, 100
"""Stan's users know 0.3 for a single chain; the mean over chains can be judged more closely."""
LONGEST_STAY = 100
"""Draws in a row in one place; where a fifth is accepted, chance alone never does that."""


@contextmanager
def _array_statistics() -> Iterator[Any]:
    """ArviZ's statistics of plain arrays, without its remarks on chains that never moved.

    They are loaded when first needed, which takes a second. What there is to say about few chains
    or few draws, the notes of a run say.
    """
    from arviz_stats.base import array_stats

    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"arviz_stats\.", category=UserWarning)
        yield array_stats


def bulk_ess(draws: np.ndarray) -> np.ndarray:
    """ArviZ's bulk effective sample size of each coordinate of draws (chains, draws, dim)."""
    return _where_moving(draws, _each_coordinate("ess", draws))


def tail_ess(draws: np.ndarray) -> np.ndarray:
    """ArviZ's effective sample size of the less certain of two tail quantiles, `TAILS`."""
    return _where_moving(draws, _each_coordinate("ess", draws, method="tail", prob=TAILS))


def rhat(draws: np.ndarray) -> np.ndarray:
    """ArviZ's R-hat of each coordinate of draws (chains, draws, dim).

    A single chain is taken as its two halves: they can at least show that it drifts.
    """
    if len(draws) == 1:
        half = draws.shape[1] // 2
        draws = draws[0, : 2 * half].reshape(2, half, -1)
    return _each_coordinate("rhat", draws)


def split_rhat(draws: np.ndarray) -> np.ndarray:
    """R-hat of half chains, without ranks: for decisions on the way, in no time.

    ArviZ takes longer to load than many a run takes to warm up; it has the last word all the same.
    """
    half = draws.shape[1] // 2
    halves = np.concatenate([draws[:, :half], draws[:, half : 2 * half]])
    within = halves.var(axis=1, ddof=1).mean(axis=0)
    between = halves.mean(axis=1).var(axis=0, ddof=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.sqrt((half - 1) / half + between / within))


def standard_errors(draws: np.ndarray, of: str = "mean") -> np.ndarray:
    """ArviZ's Monte Carlo standard errors of the "mean" or the "std" of each coordinate.

    That of a standard deviation follows from that of the mean square: the version of ArviZ for
    Python 3.11 takes the autocorrelation of the draws for that of their squares.
    """
    if of == "mean":
        return _each_coordinate("mcse", draws, method="mean")
    squares = (draws - draws.mean(axis=(0, 1))) ** 2
    with np.errstate(all="ignore"):
        return standard_errors(squares) / (2 * np.sqrt(squares.mean(axis=(0, 1))))


def _each_coordinate(statistic: str, draws: np.ndarray, **options: Any) -> np.ndarray:
    with _array_statistics() as statistics:
        function = getattr(statistics, statistic)
        return np.asarray(function(draws, chain_axis=0, draw_axis=1, **options))


def density(values: np.ndarray, points: int) -> tuple[np.ndarray, np.ndarray]:
    """ArviZ's kernel density estimate of a one-dimensional array, on a grid of so many points."""
    with _array_statistics() as statistics:
        grid, heights, _ = statistics.kde(values, grid_len=points)
    return grid, heights


def _where_moving(draws: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """NaN for coordinates in which no chain ever moved: they say nothing about the posterior."""
    return np.where(np.ptp(draws, axis=1).max(axis=0) > 0, sizes, np.nan)


def tail_shapes(draws: np.ndarray) -> np.ndarray:
    """The shape k of the tails of each coordinate, by ArviZ's fit of a Pareto distribution.

    Moments of order 1/k and above do not exist: from 0.5 on there is no variance.
    """
    flat = draws.reshape(-1, draws.shape[2])
    away = np.abs(flat - np.median(flat, axis=0))
    logarithms = np.log(np.maximum(away, np.finfo(float).tiny))
    with _array_statistics() as statistics:
        return np.asarray(statistics.psislw(-logarithms, axis=0)[1])  # it takes minus log weights


def longest_stay(log_densities: np.ndarray) -> int:
    """The most draws in a row, in any chain, whose log density (chains, draws) did not change."""
    longest = 0
    for chain in log_densities:
        moves = np.flatnonzero(np.diff(chain) != 0)
        stays = np.diff(np.concatenate([[-1], moves, [len(chain) - 1]]))
        longest = max(longest, int(stays.max()))
    return longest


def bfmi(energies: np.ndarray) -> np.ndarray:
    """ArviZ's Bayesian fraction of missing information by chain, of energies (chains, draws)."""
    with _array_statistics() as statistics:
        return np.asarray(statistics.bfmi(energies, chain_axis=0, draw_axis=1))


class Convergence(NamedTuple):
    """What ArviZ finds of each coordinate."""

    bulk_ess: np.ndarray
    tail_ess: np.ndarray
    rhat: np.ndarray

    @classmethod
    def of(cls, draws: np.ndarray) -> "Convergence":
        """Of draws (chains, draws, dim), at least `LEAST_DRAWS` a chain."""
        return cls(bulk_ess(draws), tail_ess(draws), rhat(draws))

    @classmethod
    def if_enough(cls, draws: np.ndarray) -> "Convergence | None":
        """The same, or None for fewer draws a chain than that."""
        return cls.of(draws) if draws.shape[1] >= LEAST_DRAWS else None


class Remedies(NamedTuple):
    """What to do about what may be wrong with draws."""

    rejected: str
    stayed: str
    diverged: str
    disagree: str


OWN_TUNING = Remedies(
    rejected="use a smaller step_size",
    stayed='it cannot get away from there; use a smaller step_size, or method="hmc"',
    diverged="use a smaller step_size",
    disagree="make more draws, warm up longer, or give num_steps as a pair",
)
TOO_BENT = (
    "the posterior is too sharply bent there for the steps taken, and draws may be missing from "
    "it; write the model in other coordinates"
)
SEVERAL_MODES = "make more draws; if that does not help, the posterior may have several modes"
BY_NUTS = Remedies(rejected=TOO_BENT, stayed=TOO_BENT, diverged=TOO_BENT, disagree=SEVERAL_MODES)
LEARNED = Remedies(
    stayed="the gradient was not learned there; the draws are exact, but more are needed, or "
    'method="nuts"',
    rejected='these chains cannot be used; run again with another seed, or with method="nuts"',
    diverged=TOO_BENT,
    disagree=SEVERAL_MODES,
)


def remedies_for(*, automatic: bool, learned: bool) -> Remedies:
    """What to do in a run that found its tuning itself or was given one, by what it followed."""
    if not automatic:
        return OWN_TUNING
    return LEARNED if learned else BY_NUTS


def judgements(
    draws: np.ndarray,
    stats: dict[str, np.ndarray],
    convergence: Convergence | None,
    coordinate_names: list[str],
    remedies: Remedies = OWN_TUNING,
) -> list[str]:
    """What a person should know before using these draws, each with what to do about it."""
    notes = []
    chains = len(draws)
    stuck = int(np.sum(np.ptp(draws, axis=1).max(axis=1) == 0))
    if stuck:
        notes.append(f"{stuck} of {chains} chains never moved; {remedies.rejected}")
    elif (acceptance := stats["acceptance_rate"].mean()) < LEAST_ACCEPTANCE:
        notes.append(f"acceptance is only {acceptance:.2f}; {remedies.rejected}")
    elif (lowest := stats["acceptance_rate"].mean(axis=1).min()) < LEAST_ACCEPTANCE:
        notes.append(f"acceptance is only {lowest:.2f} in one chain; {remedies.rejected}")
    elif (stay := longest_stay(stats["lp"])) > LONGEST_STAY:
        notes.append(f"a chain stayed in one place for {stay} draws; {remedies.stayed}")
    if diverged := int(stats["diverging"].sum()):
        trajectories = "trajectory" if diverged == 1 else "trajectories"
        notes.append(f"{diverged} {trajectories} diverged; {remedies.diverged}")
    if convergence is None:
        return [*notes, "so few draws cannot be judged; make more"]
    if stuck == chains:
        return notes
    notes += _heavy_tails(draws, coordinate_names)
    notes += _slow_energies(stats["energy"])
    values = convergence.rhat
    if not np.isnan(stats["lp"]).all():  # stochastic gradients do not know it
        values = np.append(values, rhat(stats["lp"][..., np.newaxis]))
    if not values.max() <= LARGEST_RHAT:
        worst = int(np.argmax(np.nan_to_num(values, nan=np.inf)))
        name = [*coordinate_names, "the log density"][worst]
        notes.append(
            f"R-hat is {values[worst]:.3f} for {name}, so the chains disagree; {remedies.disagree}"
        )
    sizes = np.minimum(convergence.bulk_ess, convergence.tail_ess)
    if not sizes.min() >= LEAST_ESS_A_CHAIN * chains:
        worst = int(np.argmin(np.nan_to_num(sizes, nan=0.0)))
        notes.append(
            f"the effective sample size is {sizes[worst]:.0f} for {coordinate_names[worst]}, below "
            f"{LEAST_ESS_A_CHAIN} a chain; make more draws"
        )
    return notes


def _heavy_tails(draws: np.ndarray, coordinate_names: list[str]) -> list[str]:
    number = draws.shape[0] * draws.shape[1]
    if number < LEAST_DRAWS_FOR_TAILS:
        return []
    shapes = tail_shapes(draws)
    worst = int(np.argmax(shapes))
    in_tails = min(number / 5, 3 * np.sqrt(number))  # as many as the fit looks at
    if not shapes[worst] > 0.5 + 2 / np.sqrt(in_tails):
        return []
    return [
        f"the tails of {coordinate_names[worst]} are so heavy (Pareto k {shapes[worst]:.2f}) that "
        "it may have no variance; do not trust its mean and standard deviation, use quantiles"
    ]


def _slow_energies(energies: np.ndarray) -> list[str]:
    if energies.size < LEAST_DRAWS_FOR_BFMI or not (found := bfmi(energies).mean()) < LEAST_BFMI:
        return []
    return [
        f"E-BFMI is {found:.2f}, below {LEAST_BFMI}: from draw to draw the energy changes too "
        "little, as in a funnel, and narrow or far places may be missing; write the model in other "
        "coordinates"
    ]


def paper_ess(draws: np.ndarray) -> np.ndarray:
    """The paper's N / (1 + 2 Σ ρ_k), the sum cut at the first negative ρ and at lag 200.

    The chains' values are added up. It knows nothing of chains that sit apart; `bulk_ess` does.
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
