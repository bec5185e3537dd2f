"""The tables of a report: variables, chains, cost."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pandas as pd

from nnghmc.engine.cost import PHASES, Cost, PhaseCost
from nnghmc.engine.statistics import bfmi
from nnghmc.run.report.contents import PHASE_NAMES, Contents
from nnghmc.run.report.markup import Html, element, joined
from nnghmc.run.report.summary import is_doubtful

UNKNOWN = "–"
DOUBTFUL = "doubtful"
WHOLE = ("ess_bulk", "ess_tail")
COUNTS = {
    "true_potentials": "true potentials",
    "true_gradients": "true gradients",
    "learned_gradients": "learned gradients",
    "batch_gradients": "mini-batch gradients",
}


def table(caption: str, header: Sequence[str], rows: Iterable[Html]) -> Html:
    """Return a table in a box that scrolls by itself, so that the page need not scroll sideways."""
    columns = [element("th", name, scope="col") for name in header]
    head = element("thead", element("tr", *columns))
    inner = element("table", element("caption", caption), head, element("tbody", *rows))
    return element("div", inner, class_="scroll", tabindex=0, role="region", aria_label=caption)


def row(name: str, cells: Sequence[str], class_: str | None = None) -> Html:
    """Return a row of a table; cells that are HTML already are taken as they are."""
    elements = [cell if isinstance(cell, Html) else element("td", cell) for cell in cells]
    return element("tr", element("th", name, scope="row"), *elements, class_=class_)


def number(value: float) -> str:
    """Return a number with four significant digits, or a dash for NaN."""
    if np.isnan(value):
        return UNKNOWN
    if value == 0 or np.isinf(value):
        return f"{value:g}"
    decimals = 3 - int(np.floor(np.log10(abs(value))))
    return f"{value:.3e}" if not 0 <= decimals <= 7 else f"{value:.{min(decimals, 6)}f}"


def short(value: float) -> str:
    """Return a number with three significant digits, and with all digits of its whole part."""
    return f"{value:.3g}" if abs(value) < 100 else count(value)


def count(value: float) -> str:
    """Return a number rounded to a whole one, or a dash where it is not finite."""
    return f"{value:,.0f}" if np.isfinite(value) else UNKNOWN


def of_variables(caption: str, summary: pd.DataFrame, names: list[str], chains: int) -> Html:
    """Return the summary of these variables, with a mark on what is doubtful."""
    columns = [str(column) for column in summary.columns]
    values = summary.loc[names].to_numpy(float)
    rows = (
        _variable(name, dict(zip(columns, line, strict=True)), chains)
        for name, line in zip(names, values, strict=True)
    )
    return table(caption, ["variable", *columns], rows)


def _variable(name: str, values: dict[str, float], chains: int) -> Html:
    """Return one row, with the decimals that the standard deviation calls for."""
    doubtful = {column for column, value in values.items() if is_doubtful(column, value, chains)}
    decimals = _decimals(values["sd"])
    cells = [
        element(
            "td", _text(column, value, decimals), class_=DOUBTFUL if column in doubtful else None
        )
        for column, value in values.items()
    ]
    heading = element("th", name, scope="row", class_=DOUBTFUL if doubtful else None)
    return element("tr", heading, *cells)


def _decimals(spread: float) -> int | None:
    """Return the decimals that show three digits of a spread; None where it needs an exponent."""
    if not 1e-6 < spread < 1e6:
        return None
    return max(0, 2 - int(np.floor(np.log10(spread))))


def _text(column: str, value: float, decimals: int | None) -> str:
    if not np.isfinite(value):
        return number(value)
    if column in WHOLE:
        return count(value)
    if column == "r_hat":
        return f"{value:.3f}"
    if column.startswith("mcse"):
        return f"{value:.2g}"
    return number(value) if decimals is None else f"{value:.{decimals}f}"


def of_chains(contents: Contents) -> Html:
    """Return acceptance, divergences, steps and E-BFMI of each chain."""
    measures: dict[str, Callable[[int], str]] = {
        "acceptance": lambda chain: short(_mean(contents, "acceptance_rate", chain)),
        "divergences": lambda chain: count(contents.statistic("diverging")[chain].sum()),
        "steps per draw": lambda chain: short(_mean(contents, "n_steps", chain)),
        "step size": lambda chain: short(_mean(contents, "step_size", chain)),
        "E-BFMI": lambda chain: short(fractions[chain]),
    }
    fractions = missing_information(contents.statistic("energy"), contents.chains)
    rows = (
        row(str(chain), [measure(chain) for measure in measures.values()])
        for chain in range(contents.chains)
    )
    return table("Kept draws by chain", ["chain", *measures], rows)


def _mean(contents: Contents, name: str, chain: int) -> float:
    values = contents.statistic(name)[chain]
    return float(values.mean()) if values.size else float("nan")


def missing_information(energies: np.ndarray, chains: int) -> np.ndarray:
    """Return ArviZ's E-BFMI of each chain; NaN where there are fewer than two energies."""
    if energies.shape[1] < 2:
        return np.full(chains, np.nan)
    return bfmi(energies)


def of_cost(cost: Cost) -> Html:
    """Return evaluations and seconds by phase; columns of zeros are left out."""
    total = cost.total
    counted = {name: title for name, title in COUNTS.items() if getattr(total, name)}
    parts: dict[str, PhaseCost] = {
        PHASE_NAMES.get(name, name): getattr(cost, name) for name in PHASES
    }
    rows = [row(name, _costs(part, counted)) for name, part in parts.items()]
    rows.append(row("all", _costs(total, counted), class_="total"))
    header = ["phase", "seconds", "compiling", *counted.values()]
    return table("Evaluations and seconds by phase", header, rows)


def _costs(part: PhaseCost, counted: Iterable[str]) -> list[str]:
    seconds = [f"{part.seconds:,.2f}", f"{part.compile_seconds:,.2f}"]
    return [*seconds, *(f"{getattr(part, name):,}" for name in counted)]


def bars_of_seconds(cost: Cost) -> Html:
    """Return a bar per phase for its seconds, the part for compiling in a colour of its own."""
    parts: dict[str, PhaseCost] = {
        PHASE_NAMES.get(name, name): getattr(cost, name) for name in PHASES
    }
    longest = max(part.seconds for part in parts.values())
    lines = []
    for name, part in parts.items():
        compiling = min(part.compile_seconds, part.seconds)
        shares = {"compiling": compiling, None: part.seconds - compiling}
        pieces = [
            element("span", class_=kind, style=f"width: {100 * share / longest:.2f}%")
            for kind, share in shares.items()
            if share > 0 and longest > 0
        ]
        bar = element("span", *pieces, class_="bar", aria_hidden="true")
        seconds = element("span", f"{part.seconds:,.2f} s")
        lines.append(element("li", element("span", name), bar, seconds))
    key = element(
        "p",
        element("span", "compiling", class_="key compiling"),
        element("span", "everything else", class_="key"),
        class_="faint",
    )
    return joined(element("ul", *lines, class_="bars"), key)
