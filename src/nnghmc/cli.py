"""The command line: arguments -> the public API."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer
from rich.console import Console

from nnghmc.comparison import compare
from nnghmc.errors import NnghmcError, SettingsError
from nnghmc.loading import load_target
from nnghmc.run import Run
from nnghmc.sampler import sample
from nnghmc.schedule import TrainingSchedule
from nnghmc.surrogates import GradientMLP

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


class Method(StrEnum):
    """What to sample with."""

    hmc = "hmc"
    nnghmc = "nnghmc"


class EssFormula(StrEnum):
    """How the effective sample size of the table is computed."""

    bulk = "bulk"
    paper = "paper"


OutFolder = Annotated[
    Path | None, typer.Option("--out", help="Write draws (netCDF), tables and figures here.")
]
Seed = Annotated[int, typer.Option(help="The same seed gives the same draws.")]
ShowProgress = Annotated[
    bool, typer.Option("--progress/--no-progress", help="Show a progress bar on a terminal.")
]


@app.command("sample")
def sample_command(
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            help="**banana** or **gaussian** (built in), or **file.py:name** or "
            "**package.module:name** of a Posterior, or of a function that returns one.",
        ),
    ],
    method: Annotated[
        list[Method],
        typer.Option(help="Repeat it (--method hmc --method nnghmc) to compare methods."),
    ] = [Method.nnghmc],  # noqa: B006 (Typer asks for a list)
    draws: Annotated[int, typer.Option(help="Draws to keep in each chain.")] = 1000,
    chains: Annotated[int, typer.Option(help="Chains, advanced together.")] = 4,
    seed: Seed = 0,
    step_size: Annotated[
        str, typer.Option(help="Leapfrog step size; LOW:HIGH draws it uniformly, each time.")
    ] = "0.1",
    num_steps: Annotated[
        str, typer.Option(help="Leapfrog steps a draw; LOW:HIGH draws it uniformly, each time.")
    ] = "10",
    inverse_mass_matrix: Annotated[
        Path | None, typer.Option(help="A .npy file with its diagonal or the whole matrix.")
    ] = None,
    warmup: Annotated[
        int, typer.Option(help="Draws of standard HMC a chain before anything is collected.")
    ] = 200,
    hidden: Annotated[int, typer.Option(help="Hidden units of the network.")] = 100,
    epochs: Annotated[int, typer.Option(help="Passes over the gradient data.")] = 50,
    start: Annotated[int, typer.Option(help="Schedule: draws before the first training.")] = 200,
    stop: Annotated[int, typer.Option(help="Schedule: draws before the last training.")] = 1000,
    every: Annotated[int, typer.Option(help="Schedule: draws between trainings.")] = 200,
    tolerance: Annotated[
        float, typer.Option(help="Schedule: hand over if acceptance is at most so far below HMC's.")
    ] = 0.25,
    ess: Annotated[EssFormula, typer.Option(help="ESS of the table.")] = EssFormula.bulk,
    out: OutFolder = None,
    progress: ShowProgress = True,
) -> None:
    """Sample TARGET, print what happened, and optionally save everything.

    For example: `nnghmc sample banana --method hmc --method nnghmc --num-steps 5 --out results`
    """
    folder = _checked_folder(out)
    posterior = load_target(target)
    settings: dict[str, Any] = {
        "step_size": _number_or_range("--step-size", step_size, float),
        "num_steps": _number_or_range("--num-steps", num_steps, int),
        "inverse_mass_matrix": _loaded_matrix(inverse_mass_matrix),
        "warmup": warmup,
        "network": GradientMLP(hidden),
        "epochs": epochs,
        "schedule": TrainingSchedule(start, stop, every, tolerance=tolerance),
        "progress": progress,
    }
    runs: list[Run] = []
    for name in dict.fromkeys(method):
        runs.append(sample(posterior, draws, chains, seed, name.value, **settings))
        if not runs[-1].complete:
            break
    _report(runs, ess.value, folder)
    if not runs[-1].complete:
        raise typer.Exit(EXIT_INTERRUPTED)


@app.command()
def demo(
    out: OutFolder = None,
    draws: Annotated[int, typer.Option(help="Draws to keep in each of the 4 chains.")] = 5000,
    seed: Seed = 0,
    progress: ShowProgress = True,
) -> None:
    """Sample the banana of the paper by standard HMC and by NNgHMC, side by side."""
    from nnghmc.paper.banana import run_banana, write_figures

    folder = _checked_folder(out)
    experiment = run_banana(draws, seed, progress)
    _say("The banana of the paper, by the true gradient and by a learned one")
    output.print(experiment.table)
    _say(f"{experiment.moments()}\n\n{experiment.learned}\n")
    _say(
        "This gradient costs next to nothing, so all there is to gain here is the proof that the\n"
        "draws agree. What pays where gradients are expensive is the line `sample` above: one\n"
        "true potential and no true gradient for each kept draw."
    )
    if folder is not None:
        for path in write_figures(experiment, folder):
            _say(f"wrote {path}")


def _say(text: str) -> None:
    """Plain text as it is: not wrapped, no markup read into it."""
    output.print(text, soft_wrap=True, markup=False)


def _report(runs: list[Run], ess: str, folder: Path | None) -> None:
    for run in runs:
        _say(str(run))
        if run.draws.shape[1] >= 4:
            _say(_first_rows(run.summary()))
    comparable = [run for run in runs if run.draws.shape[1] >= 4]
    if len(comparable) > 1:
        output.print(compare(*comparable, ess=ess))
    if folder is not None:
        for path in _write(runs, comparable, ess, folder):
            _say(f"wrote {path}")


def _first_rows(summary: pd.DataFrame) -> str:
    shown = summary.head(MOST_ROWS).to_string()
    hidden = len(summary) - MOST_ROWS
    return f"{shown}\n... and {hidden:,} more variables" if hidden > 0 else shown


def _write(runs: list[Run], comparable: list[Run], ess: str, folder: Path) -> list[Path]:
    from nnghmc import plots

    written = []
    for run in runs:
        written.append(folder / f"{run.method}.nc")
        run.to_arviz().to_netcdf(str(written[-1]))
    for run in comparable:
        written += [folder / f"{run.method}-{what}" for what in ("summary.csv", "trace.png")]
        run.summary().to_csv(written[-2])
        plots.save(plots.trace(run), written[-1])
    if comparable:
        written.append(folder / "marginals.png")
        plots.save(plots.marginals(*comparable), written[-1])
    if len(comparable) > 1:
        written.append(folder / "comparison.csv")
        compare(*comparable, ess=ess).to_frame().to_csv(written[-1], index=False)
    return written


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
    except (OSError, ValueError) as error:
        raise SettingsError(
            f"--inverse-mass-matrix must be a .npy file of numbers; {path}: {error}"
        ) from None


def main() -> None:
    """Run the command line; an error of ours is a message and an exit code, not a traceback."""
    try:
        app()
    except NnghmcError as error:
        Console(stderr=True).print(f"[red]error:[/red] {error}", highlight=False, soft_wrap=True)
        sys.exit(EXIT_BAD_INPUT)
