"""Compares two or more runs in the paper's table."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from io import StringIO

import numpy as np
import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.table import Table

from nnghmc.engine.cost import PHASES
from nnghmc.engine.statistics import LEAST_DRAWS, bulk_ess, paper_ess
from nnghmc.errors import SettingsError, instance_of, one_of
from nnghmc.run.run import Run

ESS_FORMULAS: dict[str, Callable[[np.ndarray], np.ndarray]] = {"bulk": bulk_ess, "paper": paper_ess}
"""The formulas of the effective sample size, by name."""

FORMULA_NAMES = {"bulk": "ArviZ's bulk ESS", "paper": "the paper's formula"}


@dataclass(frozen=True)
class Row:
    """One run in the table. Times are in seconds and include compilation."""

    method: str
    acceptance: float
    ess_min: float
    ess_median: float
    ess_max: float
    seconds: float
    warmup_seconds: float
    collect_seconds: float
    train_seconds: float
    sample_seconds: float
    compile_seconds: float
    ess_per_second: float
    speed_up: float


@dataclass(frozen=True)
class Comparison:
    """A table of runs, printed as in the paper. The speed-up is relative to the first run."""

    rows: tuple[Row, ...]
    ess: str

    def to_frame(self) -> pd.DataFrame:
        """Return the table as a data frame with one row per run."""
        return pd.DataFrame([asdict(row) for row in self.rows])

    def __rich__(self) -> Group:
        return Group(self._results(), self._seconds())

    def _results(self) -> Table:
        table = _table("AP", "ESS min", "median", "max", "seconds", "ESS/s", "speed-up")
        table.caption = (
            f"ESS: {FORMULA_NAMES[self.ess]}; ESS/s: median ESS per second of the whole run"
        )
        for row in self.rows:
            table.add_row(
                row.method,
                f"{row.acceptance:.2f}",
                *(f"{size:,.0f}" for size in (row.ess_min, row.ess_median, row.ess_max)),
                f"{row.seconds:.2f}",
                f"{row.ess_per_second:,.1f}",
                f"{row.speed_up:.2f}",
            )
        return table

    def _seconds(self) -> Table:
        table = _table("seconds", *PHASES, "(compiling)")
        for row in self.rows:
            phases = (getattr(row, f"{phase}_seconds") for phase in PHASES)
            seconds = (row.seconds, *phases, row.compile_seconds)
            table.add_row(row.method, *(f"{value:.2f}" for value in seconds))
        return table

    def __str__(self) -> str:
        text = StringIO()
        Console(file=text, width=100).print(self)
        return "\n".join(line.rstrip() for line in text.getvalue().splitlines())


def _table(*headings: str) -> Table:
    table = Table(box=SIMPLE_HEAD, caption_justify="left", pad_edge=False)
    table.add_column("method", no_wrap=True)
    for heading in headings:
        table.add_column(heading, justify="right")
    return table


def compare(*runs: Run, ess: str = "bulk") -> Comparison:
    """Compare runs of one posterior; the speed-up is relative to the first run.

    `ess` is the formula of the effective sample size: "bulk" is ArviZ's, "paper" is that of the
    paper.
    """
    one_of("ess", ess, tuple(ESS_FORMULAS))
    for run in runs:
        instance_of("each argument of compare", run, Run)
    if len(runs) < 2:
        raise SettingsError(
            f"a comparison needs at least 2 runs, got {len(runs)}; give one run per argument."
        )
    for run in runs:
        if run.kept.length < LEAST_DRAWS:
            raise SettingsError(
                f"a comparison needs at least {LEAST_DRAWS} draws per chain, got "
                f"{run.kept.length}; make more draws, for example with run.extend."
            )
    sizes = [ESS_FORMULAS[ess](run.draws) for run in runs]
    rates = [
        np.median(size) / run.cost.total.seconds for run, size in zip(runs, sizes, strict=True)
    ]
    rows = (
        _row(run, size, rate, rate / rates[0])
        for run, size, rate in zip(runs, sizes, rates, strict=True)
    )
    return Comparison(tuple(rows), ess)


def _row(run: Run, sizes: np.ndarray, rate: float, speed_up: float) -> Row:
    total = run.cost.total
    return Row(
        method=run.title,
        acceptance=run.acceptance,
        ess_min=float(sizes.min()),
        ess_median=float(np.median(sizes)),
        ess_max=float(sizes.max()),
        seconds=total.seconds,
        **{f"{phase}_seconds": getattr(run.cost, phase).seconds for phase in PHASES},
        compile_seconds=total.compile_seconds,
        ess_per_second=float(rate),
        speed_up=float(speed_up),
    )
