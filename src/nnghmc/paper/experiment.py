"""What all experiments share: whole runs, and results as paragraphs, tables and figures."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from nnghmc import Method, Posterior, Run, diagnostics, sample


def whole_run(
    posterior: Posterior,
    draws: int,
    chains: int,
    seed: int = 0,
    method: Method | str = "auto",
    **arguments: Any,
) -> Run:
    """Sample, and raise KeyboardInterrupt if the run was interrupted: half a run is no use here."""
    run = sample(posterior, draws, chains, seed, method, **arguments)
    if not run.complete:
        raise KeyboardInterrupt
    return run


def variables_of(run: Run) -> dict[str, np.ndarray]:
    """Return the kept draws of a run by name, on the natural scale of its parameters."""
    assert run.posterior is not None  # only a loaded run has none
    return run.posterior.variables(run.draws)


@dataclass(frozen=True)
class Table:
    """A table whose first column holds words; it prints with aligned columns, or as Markdown."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]

    def __str__(self) -> str:
        lines = [self.header, *self.rows]
        widths = [max(len(line[column]) for line in lines) for column in range(len(self.header))]
        aligned = [
            "  ".join(
                [line[0].ljust(widths[0])]
                + [part.rjust(width) for part, width in zip(line[1:], widths[1:], strict=True)]
            ).rstrip()
            for line in lines
        ]
        return "\n".join([self.title, "", *aligned])

    @property
    def markdown(self) -> str:
        """The table in Markdown."""
        return "\n".join([f"**{self.title}**", "", *markdown_table(self.header, self.rows)])


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a Markdown table; all columns but the first are aligned to the right."""
    sides = ["---"] + ["---:"] * (len(header) - 1)
    lines = ([part.replace("|", r"\|") for part in line] for line in (header, sides, *rows))
    return ["| " + " | ".join(line) + " |" for line in lines]


def z_of_spreads(draws: np.ndarray, spreads: np.ndarray) -> np.ndarray:
    """Return how far standard deviations are from the true ones, in units of Monte Carlo error."""
    errors = diagnostics.standard_errors(draws, "std")
    return np.asarray((draws.std(axis=(0, 1)) - spreads) / errors)


@dataclass(frozen=True)
class Result:
    """The paragraphs and tables of an experiment, in order, and its figures by file name."""

    parts: Sequence[str | Table]
    figures: dict[str, Figure] = field(default_factory=dict)

    def __str__(self) -> str:
        return "\n\n".join(str(part) for part in self.parts)

    @property
    def markdown(self) -> str:
        """The paragraphs and tables as Markdown, without the figures."""
        parts = [part.markdown if isinstance(part, Table) else part for part in self.parts]
        return "\n\n".join(parts)
