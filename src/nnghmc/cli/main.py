"""Defines the commands, which pass their arguments to the public functions."""

import sys
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console
from rich.markup import escape

from nnghmc.api import estimate, load, resume, sample
from nnghmc.cli.options import chosen_methods, with_method_options
from nnghmc.cli.output import checked_folder, output, present, say, write
from nnghmc.errors import NnghmcError, SettingsError
from nnghmc.methods import METHODS
from nnghmc.model.posterior import Posterior
from nnghmc.model.targets import FORMS, load_target
from nnghmc.paper.targets import TARGETS
from nnghmc.platform.provenance import provenance
from nnghmc.platform.text import printable
from nnghmc.run.comparison import ESS_FORMULAS, compare
from nnghmc.run.run import Run
from nnghmc.store.store import Store

EXIT_BAD_INPUT = 2
"""Exit code for an argument that cannot be used."""
EXIT_INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells use it."""

app = typer.Typer(
    name="nnghmc",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="Exact Bayesian sampling when the gradient is expensive.",
)

MethodName = StrEnum("MethodName", [(name.replace("-", "_"), name) for name in METHODS])  # type: ignore[misc]
EssFormula = StrEnum("EssFormula", list(ESS_FORMULAS))  # type: ignore[misc]
AUTO, BULK = MethodName("auto"), EssFormula("bulk")

Done = TypeVar("Done")

OutFolder = Annotated[
    Path | None, typer.Option("--out", help="Write draws (netCDF), surrogate, tables and figures.")
]
Target = Annotated[
    str,
    typer.Argument(metavar="TARGET", help=f"A built-in name ({', '.join(TARGETS)}), or {FORMS}."),
]
StoreFolder = Annotated[
    Path, typer.Argument(metavar="DIR", help="The folder of a run by `sample --store`.")
]
Seed = Annotated[int, typer.Option(help="The same seed gives the same draws.")]
NumDraws = Annotated[int, typer.Option(help="Draws to keep per chain.")]
NumChains = Annotated[int, typer.Option(help="Number of chains, advanced together.")]
ShowProgress = Annotated[
    bool, typer.Option("--progress/--no-progress", help="Show a progress bar on a terminal.")
]


def _loaded(target: str) -> Posterior:
    """Return the posterior that a TARGET names."""
    return load_target(target, TARGETS)


@app.command("sample")
@with_method_options
def sample_command(
    target: Target,
    method: Annotated[
        list[MethodName],
        typer.Option(help="Repeat it (--method hmc --method nnghmc) to compare methods."),
    ] = [AUTO],  # noqa: B006 (Typer asks for a list)
    draws: NumDraws = 1000,
    chains: NumChains = 4,
    seed: Seed = 0,
    ess: Annotated[EssFormula, typer.Option(help="Formula of the ESS in the table.")] = BULK,
    out: OutFolder = None,
    store: Annotated[
        Path | None,
        typer.Option(help="A new folder to write the run to as it goes; **resume** goes on there."),
    ] = None,
    progress: ShowProgress = True,
    **settings: Any,
) -> None:
    """Sample TARGET, print what happened, and optionally save everything.

    For example: `nnghmc sample banana --method hmc --method nnghmc --num-steps 5 --out results`
    """
    folder = checked_folder(out)
    names = [name.value for name in dict.fromkeys(method)]
    if store is not None and len(names) > 1:
        raise SettingsError("--store holds one run; give one --method, or leave --store out.")
    methods = chosen_methods(names, settings)
    posterior = _loaded(target)
    runs: dict[str, Run] = {}
    for name, chosen in methods:
        run = sample(posterior, draws, chains, seed, chosen, store=store, progress=progress)
        runs[name] = run
        if not run.complete:
            break
    _end(runs, ess.value, folder)


@app.command("resume")
def resume_command(
    store: StoreFolder,
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="[TARGET]",
            help="The model, needed if the run was not begun from the command line.",
        ),
    ] = None,
    out: OutFolder = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Run the model's code that the store names; do not ask.")
    ] = False,
    progress: ShowProgress = True,
) -> None:
    """Go on with the run in a folder of `sample --store`, whatever stopped it.

    The draws are bit for bit those of a run that was never stopped.
    """
    folder = checked_folder(out)
    target = _named_by_store(store, yes) if target is None else target
    run = resume(store, None if target is None else _loaded(target), progress=progress)
    name = next((key for key, kind in METHODS.items() if type(run.method) is kind), "run")
    _end({name: run}, BULK.value, folder)


def _named_by_store(store: Path, yes: bool) -> str | None:
    """Return the TARGET that a store names, after telling the user that its code will be run.

    The author of the folder chose that code, so a user at a terminal is asked for consent.
    """
    origin = Store.open(store).header["origin"]
    if origin is None or origin in TARGETS:
        return origin
    say(f"The store names its model, {origin}, and going on runs that code.")
    if sys.stdin.isatty() and not yes and not typer.confirm("Go on?"):
        raise typer.Exit(EXIT_BAD_INPUT)
    return str(origin)


@app.command()
def report(
    store: StoreFolder,
    out: Annotated[
        Path | None, typer.Option("--out", help="The file to write; by default DIR/report.html.")
    ] = None,
) -> None:
    """Write one self-contained HTML page about the run in a folder, even while it runs."""
    path = store / "report.html" if out is None else out
    load(store).report(path)
    say(f"wrote {path}")


def _end(runs: dict[str, Run], ess: str, folder: Path | None) -> None:
    """Present the runs, and say how to go on with one that was interrupted."""
    present(runs, ess, folder)
    last = list(runs.values())[-1]
    if not last.complete:
        if last.store is not None:
            say(f"interrupted; go on with: nnghmc resume {last.store}")
        raise typer.Exit(EXIT_INTERRUPTED)


@app.command("estimate")
def estimate_command(
    target: Target, draws: NumDraws = 1000, chains: NumChains = 4, seed: Seed = 0
) -> None:
    """Time TARGET on this machine, and estimate how long a run would take, without sampling."""
    found = str(estimate(_loaded(target), draws, chains, seed))
    say(found[0].upper() + found[1:] + ".")


@app.command()
def demo(
    out: Annotated[Path | None, typer.Option("--out", help="Write the figures here.")] = None,
    draws: Annotated[int, typer.Option(help="Draws to keep in each of the 4 chains.")] = 5000,
    seed: Seed = 0,
    payoff: Annotated[
        bool,
        typer.Option("--payoff/--no-payoff", help="Also sample a regression where learning pays."),
    ] = True,
    progress: ShowProgress = True,
) -> None:
    """Sample the paper's banana by standard HMC and by NNgHMC, then show where learning pays."""
    from nnghmc.paper.banana import run_banana, write_figures

    folder = checked_folder(out)
    experiment = _unless_interrupted(partial(run_banana, draws, seed, progress))
    say("The banana of the paper, by the true gradient and by a learned one")
    output.print(experiment.table)
    say(f"{experiment.moments()}\n\n{experiment.learned}\n")
    say(
        "This gradient costs almost nothing and most of the time went into compiling, so this\n"
        "example only shows that the draws agree. If gradients are expensive, the line `sample`\n"
        "above is what pays: one true potential and no true gradient per draw."
    )
    if payoff:
        _show_payoff(seed, progress)
    if folder is not None:
        for path in write_figures(experiment, folder):
            say(f"wrote {path}")


def _show_payoff(seed: int, progress: bool) -> None:
    """Sample one expensive posterior by NUTS and by the automatic run."""
    from nnghmc.paper.showcase import CHAINS, COLUMNS, ROWS, run_showcase

    by_nuts, automatic = _unless_interrupted(partial(run_showcase, seed=seed, progress=progress))
    say(
        f"\nA logistic regression of {ROWS:,} rows and {COLUMNS} columns, {CHAINS} chains, by NUTS "
        "and with no tuning,\nwhole runs from the first compilation to the last draw"
    )
    output.print(compare(by_nuts, automatic))
    say(f"\n{automatic}\n")


@app.command()
def reproduce(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="An experiment, or **all** of them.")
    ] = None,
    full: Annotated[
        bool, typer.Option("--full/--quick", help="Use the paper's numbers of draws, or fewer.")
    ] = False,
    listed: Annotated[
        bool, typer.Option("--list", help="List the experiments, their times and their data.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", help="Write figures and a page, reproduction.md, here.")
    ] = None,
    seed: Seed = 0,
    progress: ShowProgress = True,
) -> None:
    """Run experiments of the paper, and print our results beside the paper's."""
    from nnghmc.paper.experiments import EXPERIMENTS

    if listed or name is None:
        for known, experiment in EXPERIMENTS.items():
            say(f"{known:<12}{experiment.words}")
        return
    if name not in (*EXPERIMENTS, "all"):
        raise SettingsError(f"NAME must be one of {', '.join(EXPERIMENTS)}, all; got {name!r}.")
    folder = checked_folder(out)
    for chosen in EXPERIMENTS if name == "all" else (name,):
        _reproduce(chosen, full, seed, progress, folder)


def _reproduce(name: str, full: bool, seed: int, progress: bool, folder: Path | None) -> None:
    """Run one experiment, print its result, and write it to a folder if there is one."""
    from nnghmc.paper.experiments import EXPERIMENTS
    from nnghmc.paper.page import PAGE, PARTS, files_of, write_page

    experiment = EXPERIMENTS[name]
    result = _unless_interrupted(partial(experiment.run, full, seed, progress))
    say(f"{name}: {experiment.shows}\n\n{result}\n\n{provenance()}\n")
    if folder is not None:
        command = f"nnghmc reproduce {name} {'--full' if full else '--quick'}"
        checked_folder(folder / PARTS)
        files = files_of(name, experiment.shows, command, result)
        write(folder, [*files, (PAGE, partial(write_page, EXPERIMENTS))])


def _unless_interrupted(work: Callable[[], Done]) -> Done:
    """Return the result of `work`; Ctrl-C prints "interrupted" and ends with an exit code."""
    try:
        return work()
    except KeyboardInterrupt:
        say("interrupted")
        raise typer.Exit(EXIT_INTERRUPTED) from None


def main() -> None:
    """Run the command line; our own errors give a message and an exit code, and no traceback."""
    try:
        app()
    except NnghmcError as error:
        message = f"[red]error:[/red] {escape(printable(str(error)))}"
        Console(stderr=True, highlight=False).print(message, soft_wrap=True)
        sys.exit(EXIT_BAD_INPUT)
