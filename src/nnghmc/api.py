"""The public functions `sample`, `resume`, `load` and `estimate`."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from nnghmc.engine.method import LARGEST_SEED, Method, Request
from nnghmc.engine.session import Session
from nnghmc.errors import PosteriorError, StoreError, natural_number, positive_integer
from nnghmc.explore.starts import ChainStarts
from nnghmc.methods import METHODS, as_method
from nnghmc.methods.payoff import Estimate, estimate_run
from nnghmc.methods.policy import Policy
from nnghmc.model.frontends import as_posterior
from nnghmc.model.posterior import Posterior
from nnghmc.model.targets import load_target
from nnghmc.platform.precision import position_dtype
from nnghmc.run.corridor import Surroundings, begin
from nnghmc.run.loading import load_run
from nnghmc.run.run import Run
from nnghmc.store.kinds import known_kinds
from nnghmc.store.store import Store


def sample(
    model: Posterior | Any,
    draws: int = 1000,
    chains: int = 4,
    seed: int = 0,
    method: Method | str = "auto",
    *,
    initial_positions: Any = None,
    store: str | Path | None = None,
    chunk_size: int | None = None,
    progress: bool = True,
    model_args: Sequence[Any] = (),
    model_kwargs: Mapping[str, Any] | None = None,
    **misplaced: Any,
) -> Run:
    """Sample a model. By default there is nothing to tune: the run finds out whether learning pays.

    Args:
        model: `Posterior`, or a model of PyMC, Bambi or NumPyro.
        draws: number of draws to keep per chain.
        chains: number of chains, all advanced together.
        seed: seed of the run; the same seed gives the same draws, for any chunk size.
        method: method of sampling. "auto" learns the gradient if that pays, and samples by NUTS if
            it does not. Other methods, with settings of your own, are values: `NUTS()`,
            `NNgHMC(step_size=0.1)`, `HMC(...)`, `Auto(way="learn")`. A name stands for a method
            with its defaults. The methods "sgld", "sghmc", "naive-sghmc" and "metropolis-sghmc"
            use mini-batches, for comparison; only the last of them is exact.
        initial_positions: unconstrained starts, shape (chains, dim); None lets the method choose.
        store: new folder that the run is written to as it goes. Draws are written in Zarr as soon
            as they are made, and are not kept in memory. `nnghmc.resume` goes on after any stop,
            and `nnghmc.load` reads the run.
        chunk_size: largest number of draws in one compiled call; None lets memory and time decide.
        progress: whether to show a progress bar if the output is a terminal or a notebook.
        model_args: arguments of a NumPyro model.
        model_kwargs: arguments of a NumPyro model by name.
        **misplaced: settings of methods, which raise an error that names the method to use.

    Returns:
        A `Run`. Ctrl-C returns the draws made so far, marked incomplete.
    """
    if misplaced:
        raise TypeError(_where_it_goes(misplaced))
    posterior = as_posterior(model, model_args, model_kwargs)
    _check_precision(posterior)
    request = Request(draws, chains, seed, as_method(method), initial_positions, chunk_size)
    request.method.check(posterior)
    starts = ChainStarts(posterior, request.chains, initial_positions)
    starts.check()
    where = None if store is None else Store.create(store, posterior, request, known_kinds())
    return begin(posterior, request, starts, where, Surroundings(progress))


def resume(
    store: str | Path,
    model: Posterior | Any = None,
    *,
    model_args: Sequence[Any] = (),
    model_kwargs: Mapping[str, Any] | None = None,
    progress: bool = True,
) -> Run:
    """Go on with a run that `sample(..., store=...)` began, whatever stopped it.

    The draws are bit for bit those of a run that was never stopped. A crash loses at most the last
    second, the last chunk, or one fit. A complete run is returned as it is, and can be extended. To
    read a run without its model, use `load`.

    Args:
        store: folder of the run.
        model: model of the run; it is checked that it is the same as before. It can be left out if
            the command line began the run from a file or a module. The code that the store names is
            then imported and run, so do that only with your own stores.
        model_args: arguments of a NumPyro model.
        model_kwargs: arguments of a NumPyro model by name.
        progress: whether to show a progress bar if the output is a terminal or a notebook.
    """
    opened = Store.open(store)
    if model is None:
        model = load_target(_origin(opened))
    posterior = as_posterior(model, model_args, model_kwargs)
    _check_precision(posterior)
    opened.check_same(posterior)
    request = opened.request(known_kinds())
    starts = ChainStarts(posterior, request.chains, request.initial_positions)
    return begin(posterior, request, starts, opened, Surroundings(progress))


def load(store: str | Path) -> Run:
    """Read a stored run, complete or not, without its model.

    Another version of the package may have written it. The run can be summarised, compared and
    reported. To extend it, use `resume`.
    """
    return load_run(store)


def estimate(
    model: Posterior | Any,
    draws: int = 1000,
    chains: int = 4,
    seed: int = 0,
    *,
    model_args: Sequence[Any] = (),
    model_kwargs: Mapping[str, Any] | None = None,
) -> Estimate:
    """Estimate how long a run would take by NUTS and by learning, without sampling.

    The automatic run makes the same estimate before it decides.
    """
    posterior = as_posterior(model, model_args, model_kwargs)
    draws, chains = positive_integer("draws", draws), positive_integer("chains", chains)
    session = Session(natural_number("seed", seed, largest=LARGEST_SEED), "estimate")
    posterior.monitor.begin()
    states = ChainStarts(posterior, chains).spread(session)
    return estimate_run(posterior, states.position, draws, Policy())


def _check_precision(posterior: Posterior) -> None:
    """Raise an error if JAX's precision has changed since the posterior was made."""
    if posterior.initial.dtype != position_dtype():
        raise PosteriorError(
            f"the posterior was made in {posterior.initial.dtype} and JAX now computes in "
            f"{position_dtype()}; make it again after changing jax_enable_x64."
        )


def _origin(store: Store) -> str:
    """Return the TARGET that a stored run began from, or raise an error if there is none."""
    origin = store.header["origin"]
    if origin is None or ":" not in origin:
        raise StoreError(
            f"the store {store.folder} does not hold the functions of its model; give the model "
            "that it was begun with: nnghmc.resume(store, model)."
        )
    return str(origin)


def _where_it_goes(misplaced: Mapping[str, Any]) -> str:
    """Return a message that names the methods that have a setting."""
    name, value = next(iter(misplaced.items()))
    owners = [
        kind.__name__ for kind in METHODS.values() if name in {part.name for part in fields(kind)}
    ]
    if not owners:
        return (
            f"sample() has no argument {name!r}; its arguments are model, draws, chains, seed, "
            "method, initial_positions, store, chunk_size and progress, and settings go into a "
            "method, as in method=nnghmc.NNgHMC(step_size=0.1)."
        )
    shown = repr(value) if isinstance(value, int | float | str | tuple) else "..."
    owners.sort(key=lambda owner: owner != "NNgHMC")
    first, *others = owners
    also = f" (or {', '.join(others)})" if others else ""
    return (
        f"sample() has no argument {name!r}: it is a setting of a method, "
        f"method=nnghmc.{first}({name}={shown}){also}."
    )
