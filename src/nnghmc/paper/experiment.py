"""What an experiment of the paper gives: settings, tables, remarks and figures."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from nnghmc.diagnostics import standard_errors
from nnghmc.run import Run
from nnghmc.sampler import sample


def whole_run(*arguments: Any, **settings: Any) -> Run:
    """What `sample` gives, unless it is interrupted: half a run is of no use here."""
    run = sample(*arguments, **settings)
    if not run.complete:
        raise KeyboardInterrupt
    return run


@dataclass(frozen=True)
class Table:
    """Words and numbers in columns, the first of them words; prints aligned, or as Markdown."""

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
        """The same for a page."""
        return "\n".join([f"**{self.title}**", "", *markdown_table(self.header, self.rows)])


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Its lines; the first column is words, the others are numbers."""
    sides = ["---"] + ["---:"] * (len(header) - 1)
    lines = ([part.replace("|", r"\|") for part in line] for line in (header, sides, *rows))
    return ["| " + " | ".join(line) + " |" for line in lines]


def z_of_spreads(draws: np.ndarray, spreads: np.ndarray) -> np.ndarray:
    """How far standard deviations are from the true ones, in units of Monte Carlo error."""
    return np.asarray((draws.std(axis=(0, 1)) - spreads) / standard_errors(draws, "std"))


@dataclass(frozen=True)
class Result:
    """What there is to tell, a paragraph or a table at a time, and figures by file name."""

    told: Sequence[str | Table]
    figures: dict[str, Figure] = field(default_factory=dict)

    def __str__(self) -> str:
        return "\n\n".join(str(part) for part in self.told)

    @property
    def markdown(self) -> str:
        """The same for a page, without the figures."""
        parts = [part.markdown if isinstance(part, Table) else part for part in self.told]
        return "\n\n".join(parts)
