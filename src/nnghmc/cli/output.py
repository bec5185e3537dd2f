"""Prints and writes the results of the command line."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pandas as pd
from rich.console import Console

from nnghmc.errors import SettingsError
from nnghmc.platform.text import printable
from nnghmc.run.comparison import Comparison, compare
from nnghmc.run.run import Run

MOST_ROWS = 20
"""Largest number of variables in a printed summary."""
File = tuple[str, Callable[[Path], None]]
"""The name of a file in the folder of results, and a function that writes it."""

output = Console(highlight=False)


def say(text: str) -> None:
    """Print plain text without wrapping, markup or control characters."""
    output.print(printable(text), soft_wrap=True, markup=False)


def present(runs: dict[str, Run], ess: str, folder: Path | None) -> None:
    """Print runs by the names of their methods, and write everything to a folder if there is one.

    The draws are written first, so that no later error can lose them.
    """
    if folder is not None:
        write(folder, [(f"{name}.nc", _netcdf(run)) for name, run in runs.items()])
        learned = {name: run.surrogate for name, run in runs.items() if run.surrogate is not None}
        write(folder, [(f"{name}.surrogate", part.save) for name, part in learned.items()])
    for run in runs.values():
        say(str(run))
    judged = {name: run for name, run in runs.items() if run.convergence is not None}
    summaries = {name: run.summary() for name, run in judged.items()}
    for summary in summaries.values():
        say(_first_rows(summary))
    table = compare(*judged.values(), ess=ess) if len(judged) > 1 else None
    if table is not None:
        output.print(table)
    if folder is not None:
        write(folder, [*_tables(summaries, table), *_figures(judged)])


def _first_rows(summary: pd.DataFrame) -> str:
    shown = summary.head(MOST_ROWS).to_string()
    hidden = len(summary) - MOST_ROWS
    return f"{shown}\n... and {hidden:,} more variables" if hidden > 0 else shown


def _tables(summaries: dict[str, pd.DataFrame], table: Comparison | None) -> list[File]:
    files: list[File] = [(f"{name}-summary.csv", part.to_csv) for name, part in summaries.items()]
    if table is not None:
        files.append(("comparison.csv", partial(table.to_frame().to_csv, index=False)))
    return files


def _figures(runs: dict[str, Run]) -> list[File]:
    from nnghmc.run import plots  # Matplotlib takes a second to load

    files: list[File] = [
        (f"{name}-trace.png", partial(plots.save, plots.trace(run))) for name, run in runs.items()
    ]
    if runs:
        files.append(("marginals.png", partial(plots.save, plots.marginals(*runs.values()))))
    return files


def _netcdf(run: Run) -> Callable[[Path], None]:
    return lambda path: run.to_arviz().to_netcdf(str(path))


def write(folder: Path, files: list[File]) -> None:
    """Write files to a folder, and print their names."""
    for name, write_to in files:
        try:
            write_to(folder / name)
        except OSError as error:
            raise SettingsError(f"{folder / name} could not be written: {error}") from None
        say(f"wrote {folder / name}")


def checked_folder(folder: Path | None) -> Path | None:
    """Create the folder of results before the work, so that an error does not come hours later."""
    if folder is not None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SettingsError(
                f"--out must be a folder that can be written to; {folder}: {error.strerror}."
            ) from None
    return folder
