"""The command line: arguments -> the public API."""

import sys
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar
from zipfile import BadZipFile

import numpy as np
import pandas as pd
import typer
from rich.console import Console
from rich.markup import escape

from nnghmc.comparison import ESS_FORMULAS, Comparison, compare
from nnghmc.errors import NnghmcError, SettingsError
from nnghmc.loading import load_target
from nnghmc.methods import METHODS, MiniBatches
from nnghmc.provenance import provenance
from nnghmc.resuming import resume
from nnghmc.run import Run
from nnghmc.sampler import estimate, sample
from nnghmc.schedule import TrainingSchedule
from nnghmc.surrogates import MODELS, GradientModel, load_surrogate

EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 130
MOST_ROWS = 20

app = typer.Typer(
    name="nnghmc",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="Exact Bayesian sampling when the gradient is expensive.",
)
output = Console(highlight=False)


Method = StrEnum("Method", [(name.replace("-", "_"), name) for name in ("auto", *METHODS)])  # type: ignore[misc]
EssFormula = StrEnum("EssFormula", list(ESS_FORMULAS))  # type: ignore[misc]
Network = StrEnum("Network", list(MODELS))  # type: ignore[misc]
AUTO, NNGHMC, NUTS = Method("auto"), Method("nnghmc"), Method("nuts")
UNTUNED: dict[str, Any] = {}
"""NUTS finds its tuning itself; what is given is for the methods beside it."""
BULK, DEFAULT = EssFormula("bulk"), Network("default")

Done = TypeVar("Done")
File = tuple[str, Callable[[Path], None]]
"""A name in the folder of results, and what writes it."""

OutFolder = Annotated[
    Path | None, typer.Option("--out", help="Write draws (netCDF), surrogate, tables and figures.")
]
Target = Annotated[
    str,
    typer.Argument(
        metavar="TARGET",
        help="**banana** or **gaussian** (built in), or **file.py:name** or "
        "**package.module:name** of a Posterior, of a PyMC or NumPyro model, or of a function "
        "that returns one.",
    ),
]
StoreFolder = Annotated[
    Path, typer.Argument(metavar="DIR", help="The folder that `sample --store` has made.")
]
Seed = Annotated[int, typer.Option(help="The same seed gives the same draws.")]
ShowProgress = Annotated[
    bool, typer.Option("--progress/--no-progress", help="Show a progress bar on a terminal.")
]


@app.command("sample")
def sample_command(
    target: Target,
    method: Annotated[
        list[Method],
        typer.Option(help="Repeat it (--method hmc --method nnghmc) to compare methods."),
    ] = [AUTO],  # noqa: B006 (Typer asks for a list)
    draws: Annotated[int, typer.Option(help="Draws to keep in each chain.")] = 1000,
    chains: Annotated[int, typer.Option(help="Chains, advanced together.")] = 4,
    seed: Seed = 0,
    step_size: Annotated[
        str | None,
        typer.Option(
            help="Leapfrog step size; LOW:HIGH draws it uniformly, each time. Given a tuning, "
            "auto means nnghmc with its fixed schedule."
        ),
    ] = None,
    num_steps: Annotated[
        str | None,
        typer.Option(help="Leapfrog steps a draw; LOW:HIGH draws it uniformly, each time."),
    ] = None,
    inverse_mass_matrix: Annotated[
        Path | None,
        typer.Option("--inverse-mass", help="A .npy file: inverse mass matrix or its diagonal."),
    ] = None,
    warmup: Annotated[
        int | None, typer.Option(help="Draws a chain before anything is collected or kept.")
    ] = None,
    network: Annotated[
        Network, typer.Option(help="What learns the gradient; mlp is the paper's network.")
    ] = DEFAULT,
    hidden: Annotated[
        str | None,
        typer.Option(help="Hidden units of mlp, blocks, potential or bases; 50,50 is two layers."),
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(help="The most passes over the gradient data.")
    ] = None,
    surrogate: Annotated[
        Path | None,
        typer.Option(help="A file that --out wrote: use what was learned, learn nothing anew."),
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(help="Rows a mini-batch of the stochastic-gradient methods.")
    ] = None,
    friction: Annotated[float | None, typer.Option(help="Friction of sghmc.")] = None,
    start: Annotated[
        int | None, typer.Option(help="Schedule: draws before the first training.")
    ] = None,
    stop: Annotated[
        int | None, typer.Option(help="Schedule: draws before the last training.")
    ] = None,
    every: Annotated[int | None, typer.Option(help="Schedule: draws between trainings.")] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(help="Schedule: hand over if acceptance is at most so far below HMC's."),
    ] = None,
    ess: Annotated[EssFormula, typer.Option(help="ESS of the table.")] = BULK,
    out: OutFolder = None,
    store: Annotated[
        Path | None,
        typer.Option(help="A new folder to write the run to as it goes; **resume** goes on there."),
    ] = None,
    progress: ShowProgress = True,
) -> None:
    """Sample TARGET, print what happened, and optionally save everything.

    For example: `nnghmc sample banana --method hmc --method nnghmc --num-steps 5 --out results`
    """
    folder = _checked_folder(out)
    if store is not None and len(set(method)) > 1:
        raise SettingsError("--store holds one run; give one --method, or leave --store out.")
    posterior = load_target(target)
    settings: dict[str, Any] = {
        "step_size": step_size and _number_or_range("--step-size", step_size, float),
        "num_steps": num_steps and _number_or_range("--num-steps", num_steps, int),
        "inverse_mass_matrix": _loaded_matrix(inverse_mass_matrix),
        "warmup": warmup,
        "network": _model(network, hidden),
        "mini_batches": _of_those_given(MiniBatches, size=batch_size, friction=friction),
        "epochs": epochs,
        "schedule": _of_those_given(
            TrainingSchedule, start=start, stop=stop, every=every, tolerance=tolerance
        ),
    }
    runs: list[Run] = []
    learned = None if surrogate is None else load_surrogate(surrogate)
    for name in dict.fromkeys(method):
        reused = learned if name in (AUTO, NNGHMC) else None
        used = UNTUNED if name is NUTS else settings
        runs.append(
            sample(
                posterior,
                draws,
                chains,
                seed,
                name.value,
                surrogate=reused,
                store=store,
                progress=progress,
                **used,
            )
        )
        if not runs[-1].complete:
            break
    _end(runs, ess.value, folder)


@app.command("resume")
def resume_command(
    store: StoreFolder,
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="[TARGET]",
            help="What is sampled, for a run that was not begun from the command line.",
        ),
    ] = None,
    out: OutFolder = None,
    progress: ShowProgress = True,
) -> None:
    """Go on with the run in a folder that `sample --store` has made, whatever has stopped it.

    The draws are bit for bit those of a run that was never stopped.
    """
    folder = _checked_folder(out)
    posterior = None if target is None else load_target(target)
    _end([resume(store, posterior, progress=progress)], BULK.value, folder)


@app.command()
def report(
    store: StoreFolder,
    out: Annotated[
        Path | None, typer.Option("--out", help="The file to write; DIR/report.html if not given.")
    ] = None,
) -> None:
    """Write one HTML page about the run in a folder, also while it runs. It needs nothing else."""
    from nnghmc.report import contents_of_store, write_report

    path = store / "report.html" if out is None else out
    write_report(contents_of_store(store), path)
    _say(f"wrote {path}")


def _end(runs: list[Run], ess: str, folder: Path | None) -> None:
    """Tell of the runs, and of how to go on with one that was interrupted."""
    _report(runs, ess, folder)
    if not runs[-1].complete:
        if runs[-1].store is not None:
            _say(f"interrupted; go on with: nnghmc resume {runs[-1].store}")
        raise typer.Exit(EXIT_INTERRUPTED)


@app.command("estimate")
def estimate_command(
    target: Target,
    draws: Annotated[int, typer.Option(help="Draws to keep in each chain.")] = 1000,
    chains: Annotated[int, typer.Option(help="Chains, advanced together.")] = 4,
    seed: Seed = 0,
) -> None:
    """Will it pay? Time TARGET on this machine, and say what a run would take; sample nothing."""
    found = str(estimate(load_target(target), draws, chains, seed))
    _say(found[0].upper() + found[1:] + ".")


@app.command()
def demo(
    out: Annotated[Path | None, typer.Option("--out", help="Write the figures here.")] = None,
    draws: Annotated[int, typer.Option(help="Draws to keep in each of the 4 chains.")] = 5000,
    seed: Seed = 0,
    payoff: Annotated[
        bool, typer.Option("--payoff/--no-payoff", help="Also the regression where learning pays.")
    ] = True,
    progress: ShowProgress = True,
) -> None:
    """Sample the banana of the paper by standard HMC and by NNgHMC, then show where it pays."""
    from nnghmc.paper.banana import run_banana, write_figures

    folder = _checked_folder(out)
    experiment = _unless_interrupted(partial(run_banana, draws, seed, progress))
    _say("The banana of the paper, by the true gradient and by a learned one")
    output.print(experiment.table)
    _say(f"{experiment.moments()}\n\n{experiment.learned}\n")
    _say(
        "This gradient costs next to nothing and most of the time went into compiling, so all\n"
        "there is to gain here is the proof that the draws agree. What pays where gradients are\n"
        "expensive is the line `sample` above: one true potential and no true gradient a draw."
    )
    if payoff:
        _show_payoff(seed, progress)
    if folder is not None:
        for path in write_figures(experiment, folder):
            _say(f"wrote {path}")


def _show_payoff(seed: int, progress: bool) -> None:
    """One expensive posterior by NUTS and by the automatic run."""
    from nnghmc.showcase import CHAINS, COLUMNS, ROWS, run_showcase

    by_nuts, automatic = _unless_interrupted(partial(run_showcase, seed=seed, progress=progress))
    _say(
        f"\nA logistic regression of {ROWS:,} rows and {COLUMNS} columns, {CHAINS} chains, by NUTS "
        "and with no tuning,\nwhole runs from the first compilation to the last draw"
    )
    output.print(compare(by_nuts, automatic))
    _say(f"\n{automatic}\n")


@app.command()
def reproduce(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="An experiment, or **all** of them.")
    ] = None,
    full: Annotated[
        bool, typer.Option("--full/--quick", help="The paper's own numbers of draws, or fewer.")
    ] = False,
    listed: Annotated[
        bool, typer.Option("--list", help="What there is, how long it takes, what it needs.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", help="Write figures and a page, reproduction.md, here.")
    ] = None,
    seed: Seed = 0,
    progress: ShowProgress = True,
) -> None:
    """Run experiments of the paper, and print ours beside the paper's figures."""
    from nnghmc.paper.experiments import EXPERIMENTS

    if listed or name is None:
        for known, experiment in EXPERIMENTS.items():
            _say(f"{known:<12}{experiment.words}")
        return
    if name not in (*EXPERIMENTS, "all"):
        raise SettingsError(f"NAME must be one of {', '.join(EXPERIMENTS)}, all; got {name!r}.")
    folder = _checked_folder(out)
    for chosen in EXPERIMENTS if name == "all" else (name,):
        _reproduce(chosen, full, seed, progress, folder)


def _reproduce(name: str, full: bool, seed: int, progress: bool, folder: Path | None) -> None:
    from nnghmc.paper.experiments import EXPERIMENTS
    from nnghmc.paper.page import PAGE, PARTS, files_of, write_page

    experiment = EXPERIMENTS[name]
    result = _unless_interrupted(partial(experiment.run, full, seed, progress))
    _say(f"{name}: {experiment.shows}\n\n{result}\n\n{provenance()}\n")
    if folder is not None:
        command = f"nnghmc reproduce {name} {'--full' if full else '--quick'}"
        _checked_folder(folder / PARTS)
        files = files_of(name, experiment.shows, command, result)
        _write(folder, [*files, (PAGE, partial(write_page, EXPERIMENTS))])


def _unless_interrupted(work: Callable[[], Done]) -> Done:
    """What the work gives; Ctrl-C is a word and an exit code."""
    try:
        return work()
    except KeyboardInterrupt:
        _say("interrupted")
        raise typer.Exit(EXIT_INTERRUPTED) from None


def _say(text: str) -> None:
    """Plain text as it is: not wrapped, no markup read into it."""
    output.print(text, soft_wrap=True, markup=False)


def _report(runs: list[Run], ess: str, folder: Path | None) -> None:
    if folder is not None:  # first of all, so that nothing that follows can lose the draws
        _write(folder, [(f"{run.method}.nc", _netcdf(run)) for run in runs])
        _write(folder, [(f"{r.method}.surrogate", r.surrogate.save) for r in runs if r.surrogate])
    for run in runs:
        _say(str(run))
    judged = [run for run in runs if run.convergence is not None]
    summaries = {run.method: run.summary() for run in judged}
    for summary in summaries.values():
        _say(_first_rows(summary))
    table = compare(*judged, ess=ess) if len(judged) > 1 else None
    if table is not None:
        output.print(table)
    if folder is not None:
        _write(folder, [*_tables(summaries, table), *_figures(judged)])


def _first_rows(summary: pd.DataFrame) -> str:
    shown = summary.head(MOST_ROWS).to_string()
    hidden = len(summary) - MOST_ROWS
    return f"{shown}\n... and {hidden:,} more variables" if hidden > 0 else shown


def _tables(summaries: dict[str, pd.DataFrame], table: Comparison | None) -> list[File]:
    files: list[File] = [(f"{name}-summary.csv", part.to_csv) for name, part in summaries.items()]
    if table is not None:
        files.append(("comparison.csv", partial(table.to_frame().to_csv, index=False)))
    return files


def _figures(runs: list[Run]) -> list[File]:
    from nnghmc import plots

    files: list[File] = [
        (f"{run.method}-trace.png", partial(plots.save, plots.trace(run))) for run in runs
    ]
    if runs:
        files.append(("marginals.png", partial(plots.save, plots.marginals(*runs))))
    return files


def _netcdf(run: Run) -> Callable[[Path], None]:
    return lambda path: run.to_arviz().to_netcdf(str(path))


def _write(folder: Path, files: list[File]) -> None:
    for name, write in files:
        try:
            write(folder / name)
        except OSError as error:
            raise SettingsError(f"{folder / name} could not be written: {error}") from None
        _say(f"wrote {folder / name}")


def _of_those_given(kind: Callable[..., Done], **options: Any) -> Done | None:
    """The settings with what was given in the place of their defaults; None if nothing was."""
    given = {name: value for name, value in options.items() if value is not None}
    return kind(**given) if given else None


def _checked_folder(folder: Path | None) -> Path | None:
    """Make the folder before any work is done, not after hours of it."""
    if folder is not None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SettingsError(
                f"--out must be a folder that can be written to; {folder}: {error.strerror}."
            ) from None
    return folder


def _model(network: Network, hidden: str | None) -> GradientModel:
    kind = MODELS[network.value]
    if hidden is None:
        return kind()
    if "hidden" not in kind.__dataclass_fields__:  # type: ignore[attr-defined]
        raise SettingsError(
            f"--hidden is not a setting of --network {network.value}; leave it out."
        )
    try:
        widths = tuple(int(part) for part in hidden.split(","))
    except ValueError:
        raise SettingsError(
            f"--hidden must be a number of units, or several as 50,50; got {hidden!r}."
        ) from None
    return kind(hidden=widths[0] if len(widths) == 1 else widths)


def _number_or_range(option: str, text: str, kind: type) -> Any:
    try:
        numbers = tuple(kind(part) for part in text.split(":"))
    except ValueError:
        raise SettingsError(
            f"{option} must be a number or LOW:HIGH ({kind.__name__}), got {text!r}."
        ) from None
    return numbers[0] if len(numbers) == 1 else numbers


def _loaded_matrix(path: Path | None) -> np.ndarray | None:
    if path is None:
        return None
    try:
        return np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError, BadZipFile) as error:
        raise SettingsError(
            f"--inverse-mass must be a .npy file of numbers; {path}: {error}"
        ) from None


def main() -> None:
    """Run the command line; an error of ours is a message and an exit code, not a traceback."""
    try:
        app()
    except NnghmcError as error:
        message = f"[red]error:[/red] {escape(str(error))}"
        Console(stderr=True, highlight=False).print(message, soft_wrap=True)
        sys.exit(EXIT_BAD_INPUT)
