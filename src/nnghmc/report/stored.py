"""The contents of a report from a store, complete or not, without the functions of the model."""

from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import xarray

from nnghmc.cost import Cost
from nnghmc.diagnostics import Convergence, judgements, quiet_arviz, remedies_for
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
        data=(data := _inference_data(store)),
        cost=Cost.from_dict(status.get("cost", {})),
        notes=(*(() if complete else (GOES_ON,)), *_notes(status, data, coordinates)),
        story=(*status.get("story", ()), *status.get("decisions", ())),
        fit=None if learned is None else Fit.of(learned, coordinates),
    )


def _inference_data(store: Store) -> Any:
    """All draws so far, as ArviZ takes them."""
    path = store.folder / DRAWS
    with quiet_arviz() as arviz:
        if not (path / ".zmetadata").exists():
            return arviz.InferenceData()
        try:
            tree = xarray.open_datatree(path, engine="zarr").load()
        except Exception as error:  # whatever a torn file leads Zarr to
            raise damaged(store.folder, f"{DRAWS}: {error}") from None
        return arviz.InferenceData.from_datatree(tree)


def _notes(status: dict[str, Any], data: Any, coordinates: tuple[str, ...]) -> list[str]:
    """What was remarked, and what the draws so far say."""
    remarks = list(status.get("remarks", ()))
    if POSITIONS not in data.groups():
        return remarks
    draws = data[POSITIONS][POSITION].values
    stats = {str(name): np.asarray(values) for name, values in data.sample_stats.items()}
    remedies = remedies_for(
        automatic=bool(status.get("story")), learned=bool(status.get("handed_over"))
    )
    return [
        *remarks,
        *judgements(draws, stats, Convergence.if_enough(draws), list(coordinates), remedies),
    ]
