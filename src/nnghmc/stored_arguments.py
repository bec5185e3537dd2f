"""The arguments of `sample` in a store: settings of the package's own kinds, arrays, surrogates."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nnghmc.automatic import Automatic
from nnghmc.description import Kinds
from nnghmc.methods import MiniBatches
from nnghmc.posterior import Posterior
from nnghmc.schedule import TrainingSchedule
from nnghmc.store import Store
from nnghmc.surrogates import MODELS, Surrogate, Training

SETTINGS = (Automatic, MiniBatches, Training, TrainingSchedule, *MODELS.values())
KINDS: Kinds = {kind.__name__: kind for kind in SETTINGS}


def create_store(folder: str | Path, posterior: Posterior, arguments: Mapping[str, Any]) -> Store:
    """A new store for a call of `sample` with these arguments."""
    written = dict(arguments)
    if isinstance(written["surrogate"], Surrogate):
        packed = written["surrogate"].as_arrays()
        written["surrogate"] = tuple(part for named in packed.items() for part in named)
    return Store.create(Path(folder), posterior, written, KINDS)


def stored_arguments(store: Store) -> dict[str, Any]:
    """Those that a store was made with."""
    arguments = store.arguments(KINDS)
    packed = arguments["surrogate"]
    if packed is not None:
        arrays = dict(zip(packed[::2], packed[1::2], strict=True))
        arguments["surrogate"] = Surrogate.from_arrays(arrays, store.folder)
    return arguments
