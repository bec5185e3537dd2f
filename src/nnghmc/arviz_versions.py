"""What differs between ArviZ 0.23, the newest for Python 3.11, and ArviZ 1, for all later ones.

Everything else here uses `arviz_base` and `arviz_stats`, which are the same for both. Only what a
user takes into their own ArviZ has to be made for the one they have.
"""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from xarray import DataTree


def load_arviz() -> ModuleType:
    """Import the user's ArviZ; version 0.23 announces its successor once a day, which is muted."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"\nArviZ is undergoing", category=FutureWarning)
        import arviz

    return arviz


def tree_of(groups: dict[str, dict[str, Any]], **labels: Any) -> "DataTree":
    """Return arrays by group and name as a tree in ArviZ's form, with dims, coords and attrs.

    ArviZ would warn of more chains than draws, which is what some runs are.
    """
    from arviz_base import from_dict

    return from_dict(groups, save_warmup=True, check_conventions=False, **labels)


def for_users_arviz(tree: "DataTree") -> Any:
    """Return what the user's ArviZ works with: the tree itself, or the InferenceData of 0.23."""
    arviz = load_arviz()
    if not _works_with_trees(arviz):
        return arviz.InferenceData.from_datatree(tree)
    return tree


def summary(tree: "DataTree") -> pd.DataFrame:
    """Return the table that the user's ArviZ makes of these draws."""
    arviz = load_arviz()
    if _works_with_trees(arviz):
        with np.errstate(all="ignore"):
            return arviz.summary(tree)
    with _legacy_precautions(arviz):
        return arviz.summary(for_users_arviz(tree))


def _works_with_trees(arviz: ModuleType) -> bool:
    return int(arviz.__version__.split(".")[0]) >= 1


@contextmanager
def _legacy_precautions(arviz: ModuleType) -> Iterator[None]:
    """Keep ArviZ 0.23 quiet about few chains and few draws, and away from Numba.

    The notes of a run say what there is to say about its draws. With Numba, which PyMC installs,
    ArviZ 0.23 fails on the Monte Carlo error of a standard deviation.
    """
    logger = arviz._log  # not the one of its name: ArviZ makes its own, past the registry
    level, with_numba = logger.level, arviz.Numba.numba_flag
    logger.setLevel(logging.ERROR)
    arviz.Numba.numba_flag = False
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.filterwarnings("ignore", module=r"arviz\.", category=UserWarning)
            yield
    finally:
        logger.setLevel(level)
        arviz.Numba.numba_flag = with_numba
