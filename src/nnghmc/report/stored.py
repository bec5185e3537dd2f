"""The contents of a report from a store, complete or not, without the functions of the model."""

from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import xarray

from nnghmc.cost import Cost
from nnghmc.diagnostics import Convergence, judgements, remedies_for
from nnghmc.journal import damaged
from nnghmc.report.contents import Contents, Fit
from nnghmc.store import Store
from nnghmc.stored_arguments import stored_arguments
from nnghmc.stored_draws import DRAWS, POSITION, POSITIONS

GOES_ON = "this run is not complete: it goes on, or was stopped; nnghmc resume goes on with it"


def contents_of_store(folder: str | Path) -> Contents:
    """What a store tells about its run so far."""
    store = Store.open(Path(folder))
    status, arguments = store.status, stored_arguments(store)
    mark = store.header["fingerprint"]
    complete = bool(status.get("complete", False))
    learned = store.surrogate
    coordinates = tuple(store.header["coordinates"])
    return Contents(
        model=store.header["posterior"],
        dim=sum(prod(shape) for shape in mark["shapes"]),
        chains=arguments["chains"],
        method=status.get("title", arguments["method"]),
        exact=bool(status.get("exact", True)),
        complete=complete,
        seed=arguments["seed"],
        made=status.get("made", ""),
        data=(data := _draws(store)),
        cost=Cost.from_dict(status.get("cost", {})),
        notes=(*(() if complete else (GOES_ON,)), *_notes(status, data, coordinates)),
        story=(*status.get("story", ()), *status.get("decisions", ())),
        fit=None if learned is None else Fit.of(learned, coordinates),
    )


def _draws(store: Store) -> xarray.DataTree:
    """All draws so far, in ArviZ's groups."""
    path = store.folder / DRAWS
    if not (path / ".zmetadata").exists():
        return xarray.DataTree()
    try:
        return xarray.open_datatree(path, engine="zarr").load()
    except Exception as error:  # whatever a torn file leads Zarr to
        raise damaged(store.folder, f"{DRAWS}: {error}") from None


def _notes(
    status: dict[str, Any], data: xarray.DataTree, coordinates: tuple[str, ...]
) -> list[str]:
    """What was remarked, and what the draws so far say."""
    remarks = list(status.get("remarks", ()))
    if POSITIONS not in data:
        return remarks
    draws = np.asarray(data[POSITIONS][POSITION])
    stats = {
        str(name): np.asarray(values) for name, values in data["sample_stats"].data_vars.items()
    }
    remedies = remedies_for(
        automatic=bool(status.get("story")), learned=bool(status.get("handed_over"))
    )
    return [
        *remarks,
        *judgements(draws, stats, Convergence.if_enough(draws), list(coordinates), remedies),
    ]
