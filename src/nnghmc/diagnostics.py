"""Effective sample sizes, built on ArviZ; the paper's own formula beside it."""

import warnings
from types import ModuleType

import numpy as np

LONGEST_LAG_OF_THE_PAPER = 200


def load_arviz() -> ModuleType:
    """ArviZ, loaded when first needed: it takes seconds, and announces its 1.0 once a day."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"\nArviZ is undergoing", category=FutureWarning)
        import arviz

    return arviz


def bulk_ess(draws: np.ndarray) -> np.ndarray:
    """ArviZ's bulk effective sample size of each coordinate of draws (chains, draws, dim)."""
    return _each_coordinate("ess", draws)


def rhat(draws: np.ndarray) -> np.ndarray:
    """ArviZ's R-hat of each coordinate of draws (chains, draws, dim)."""
    return _each_coordinate("rhat", draws)


def mcse_mean(draws: np.ndarray) -> np.ndarray:
    """ArviZ's Monte Carlo standard error of the mean of each coordinate."""
    return _each_coordinate("mcse", draws)


def _each_coordinate(statistic: str, draws: np.ndarray) -> np.ndarray:
    arviz = load_arviz()
    dataset = arviz.convert_to_dataset({"x": draws})
    with np.errstate(invalid="ignore", divide="ignore"):  # chains that never moved: NaN says it
        return np.asarray(getattr(arviz, statistic)(dataset)["x"])


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
    return (length / (1 + 2 * (lagged * counted).sum(axis=0))).sum(axis=0)
