"""Converts runs for the user's ArviZ: 0.23 on Python 3.11, and ArviZ 1 on later versions.

The rest of the package uses `arviz_base` and `arviz_stats`, which are the same for both. Only data
for the user's own ArviZ must suit the installed version.
"""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from nnghmc.errors import SettingsError
from nnghmc.model.posterior import Posterior
from nnghmc.store.draws import DRAWS, POSITIONS
from nnghmc.store.journal import damaged

if TYPE_CHECKING:
    from xarray import DataTree

    from nnghmc.run.run import Run


def load_arviz() -> ModuleType:
    """Import the user's ArviZ, without the warning of version 0.23 about its successor."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"\nArviZ is undergoing", category=FutureWarning)
        import arviz

    return arviz


def tree_of(groups: dict[str, dict[str, Any]], **labels: Any) -> "DataTree":
    """Return arrays by group and name as a tree in ArviZ's form, with dims, coords and attrs.

    ArviZ's check is off: it would warn about runs with more chains than draws.
    """
    from arviz_base import from_dict

    return from_dict(groups, save_warmup=True, check_conventions=False, **labels)


def for_users_arviz(tree: "DataTree") -> Any:
    """Return the tree itself for ArviZ 1, or as InferenceData for ArviZ 0.23."""
    arviz = load_arviz()
    if not _works_with_trees(arviz):
        return arviz.InferenceData.from_datatree(tree)
    return tree


def summary(tree: "DataTree") -> pd.DataFrame:
    """Return the summary table of the user's ArviZ."""
    arviz = load_arviz()
    if _works_with_trees(arviz):
        with np.errstate(all="ignore"):
            return arviz.summary(tree)
    with _legacy_precautions(arviz):
        return arviz.summary(for_users_arviz(tree))


def _works_with_trees(arviz: ModuleType) -> bool:
    """Return whether this is ArviZ 1 or later."""
    return int(arviz.__version__.split(".")[0]) >= 1


@contextmanager
def _legacy_precautions(arviz: ModuleType) -> Iterator[None]:
    """Suppress warnings of ArviZ 0.23 about few chains and few draws, and switch Numba off.

    The notes of a run cover its draws. With Numba, which PyMC installs, ArviZ 0.23 fails on the
    Monte Carlo error of a standard deviation.
    """
    logger = arviz._log  # ArviZ creates its own logger, which logging.getLogger does not return
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


def tree_of_run(run: "Run", log_likelihood: bool, posterior_predictive: bool) -> "DataTree":
    """Return the draws, statistics and data of a run in ArviZ's groups."""
    attributes = {
        "inference_library": "nnghmc",
        "method": run.title,
        "seed": run.seed,
        "complete": int(run.complete),
        "exact": int(run.exact),
        "sampling_time": run.cost.total.seconds,
    }
    if run.posterior is None:
        if log_likelihood or posterior_predictive:
            raise SettingsError(
                "log likelihoods and simulated data need the model, and this run was loaded "
                "without one; use nnghmc.resume(store, model)."
            )
        return _stored_tree(run, attributes)
    groups = _groups(run, run.posterior)
    if run.kept.size and log_likelihood:
        groups["log_likelihood"] = run.posterior.log_likelihoods(run.draws)
    if run.kept.size and posterior_predictive:
        groups["posterior_predictive"] = run.posterior.predictions(run.draws, run.seed)
    labels = {"coords": run.posterior.coords, "dims": run.posterior.dims}
    return tree_of(groups, attrs=dict.fromkeys(groups, attributes), **labels)


def _groups(run: "Run", posterior: Posterior) -> dict[str, Any]:
    """Return the arrays of a run by ArviZ's groups and by name."""
    groups: dict[str, Any] = {}
    if run.kept.size:
        groups["posterior"] = posterior.variables(run.draws)
        groups["sample_stats"] = run.stats
    if run.warmup_draws.size:
        groups["warmup_posterior"] = posterior.variables(run.warmup_draws)
        groups["warmup_sample_stats"] = run.warmup_stats
    known = {"observed_data": posterior.observed, "constant_data": posterior.constants}
    return groups | {group: values for group, values in known.items() if values}


def _stored_tree(run: "Run", attributes: dict[str, Any]) -> "DataTree":
    """Return the Zarr arrays of a store, up to the last draw that the journal mentions."""
    import xarray

    if run.store is None or not run.kept.length:
        return xarray.DataTree()
    try:
        stored = xarray.open_datatree(run.store / DRAWS, engine="zarr", consolidated=False).load()
    except Exception as error:  # Zarr raises many kinds of errors for a damaged file
        raise damaged(run.store, f"{DRAWS}: {error}") from None
    groups = {}
    for name, group in stored.children.items():
        if name == POSITIONS:
            continue
        dataset = group.to_dataset()
        if name in ("posterior", "sample_stats"):
            dataset = dataset.isel(draw=slice(0, run.kept.length))
        groups[name] = dataset.assign_attrs(attributes)
    return xarray.DataTree.from_dict(groups)
