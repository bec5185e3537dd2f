"""resume(): go on with a stored run after any stop."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nnghmc.errors import StoreError
from nnghmc.frontends import as_posterior
from nnghmc.loading import load_target
from nnghmc.posterior import Posterior
from nnghmc.run import Run
from nnghmc.sampler import go_on
from nnghmc.store import Store


def resume(
    store: str | Path,
    posterior: Posterior | Any = None,
    *,
    model_args: Sequence[Any] = (),
    model_kwargs: Mapping[str, Any] | None = None,
    progress: bool = True,
) -> Run:
    """Go on with a run that `sample(..., store=...)` began, whatever has stopped it.

    The draws are bit for bit those of a run that was never stopped; what a crash takes away is what
    was made in the second or the chunk before it. A run that was complete comes back as it ended,
    and can be extended.

    Args:
        store: the folder.
        posterior: what is sampled: the same as before, which is checked. It can be left out where
            the command line began the run, whose TARGET is loaded again.
        model_args: the arguments of a NumPyro model.
        model_kwargs: its arguments by name.
        progress: show a progress bar, where the output is a terminal or a notebook.
    """
    opened = Store.open(Path(store))
    if posterior is None:
        origin = opened.header["origin"]
        if origin is None:
            raise StoreError(
                f"the store {store} does not hold the posterior's functions; give the posterior "
                "that it was begun with: nnghmc.resume(store, posterior)."
            )
        posterior = load_target(origin)
    same = as_posterior(posterior, model_args, model_kwargs)
    return go_on(opened, same, progress=progress)
