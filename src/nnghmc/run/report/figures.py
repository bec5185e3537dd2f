"""The pictures of a report: small panels of one size, so that they are legible on a phone.

Names of variables are in captions, never in pictures: Matplotlib cannot typeset every name that a
user may choose.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from itertools import pairwise

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from scipy.stats import rankdata

from nnghmc.engine.statistics import density
from nnghmc.platform.text import counted
from nnghmc.run.plots import COLOURS, POINTS_OF_A_DENSITY, draw_density
from nnghmc.run.report.contents import HeldOutGradients, Phase, Probe

SIZE = (3.9, 2.5)
STYLE = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#555555",
    "axes.linewidth": 0.7,
    "axes.formatter.limits": (-3, 4),
    "legend.frameon": False,
    "legend.fontsize": 8,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "svg.hashsalt": "nnghmc",
}
PIXELS_PER_INCH = 160
"""Resolution of the parts that are too dense to be drawn as lines."""
MOST_POINTS_OF_A_TRACE = 40_000
MOST_CHAINS_APART = 8
MOST_BINS = 20
MOST_STRETCHES = 100


@dataclass(frozen=True)
class Picture:
    """An SVG, a description for those who do not see it, and the caption below it."""

    svg: bytes
    alt: str
    caption: str


class _Panel:
    """A figure to draw on, and its SVG once it is finished."""

    def __init__(self, figure: Figure):
        self.figure = figure
        self.svg = b""

    def axis(self) -> Axes:
        return self.figure.add_subplot()


@contextmanager
def _panel() -> Iterator[_Panel]:
    """Provide a figure in the report's style, whatever style the user has set."""
    with mpl.style.context(["default", STYLE], after_reset=True):
        panel = _Panel(Figure(SIZE, layout="constrained"))
        yield panel
        buffer = BytesIO()
        none = {"Date": None, "Creator": None}  # the same draws give the same bytes
        panel.figure.savefig(buffer, format="svg", dpi=PIXELS_PER_INCH, metadata=none)
        panel.svg = buffer.getvalue()


def _colour(number: int) -> str:
    return COLOURS[number % len(COLOURS)]


def trace(name: str, draws: np.ndarray) -> Picture:
    """Draw one variable's draws (chains, draws) in order, and their densities beside them."""
    chains, number = draws.shape
    stride = trace_stride(draws)
    with _panel() as panel:
        left, right = panel.figure.subplots(1, 2, sharey=True, width_ratios=(3, 1))
        for chain, values in enumerate(draws):
            places = np.arange(0, number, stride)
            left.plot(
                places,
                values[::stride],
                "." if number == 1 else "-",
                color=_colour(chain),
                linewidth=0.5,
                alpha=0.8,
                rasterized=True,
            )
        parts = draws if chains <= MOST_CHAINS_APART else draws.reshape(1, -1)
        for chain, values in enumerate(parts):
            draw_density(right, values, _colour(chain), sideways=True)
        left.set_xlabel("draw")
        right.set_xticks([])
        right.set_xlabel("density")
        right.spines["left"].set_visible(False)
        right.tick_params(left=False)
    alt = f"Trace of {name}: {counted(chains, 'chain')} over {counted(number, 'draw')}"
    return Picture(panel.svg, f"{alt}, with the density of each chain beside it.", name)


def trace_stride(draws: np.ndarray) -> int:
    """Return n if every n-th draw is shown."""
    return max(1, -(-draws.size // MOST_POINTS_OF_A_TRACE))


def ranks(name: str, draws: np.ndarray) -> Picture | None:
    """Draw histograms of the ranks of each chain's draws among all; they are even if chains agree.

    Return None where there is nothing to rank: a single chain, one draw, or values that are not
    finite or all equal.
    """
    chains, number = draws.shape
    if chains < 2 or number < 2 or not np.isfinite(draws).all() or not np.ptp(draws):
        return None
    counts = _rank_counts(draws)
    even = number / counts.shape[1]
    uneven = np.sum((counts - even) ** 2, axis=1)
    shown = np.sort(np.argsort(-uneven, kind="stable")[:MOST_CHAINS_APART])
    with _panel() as panel:
        axis = panel.axis()
        height = 1.15 * max(counts[shown].max(), 1.5 * even)
        places = np.arange(counts.shape[1])
        for row, chain in enumerate(shown):
            base = -row * height
            axis.bar(places, counts[chain], 0.92, bottom=base, color=_colour(chain), alpha=0.85)
            axis.axhline(base + even, color="#333333", linewidth=0.8, linestyle="--")
        axis.set_ylim(-(len(shown) - 0.9) * height, height)
        axis.set_yticks([-row * height + even for row in range(len(shown))])
        axis.set_yticklabels([str(chain) for chain in shown])
        axis.set_ylabel("chain")
        axis.set_xticks([])
        axis.set_xlabel("rank among all draws, low to high")
    alt = f"Ranks of the draws of {name} by chain; bars of equal height mean that the chains agree."
    return Picture(panel.svg, alt, name)


def _rank_counts(draws: np.ndarray) -> np.ndarray:
    """Count each chain's draws by ranges of their rank; return shape (chains, ranges)."""
    chains, number = draws.shape
    ordered = rankdata(draws, method="average").reshape(draws.shape)
    bins = int(np.clip(number // 10, 2, MOST_BINS))
    edges = np.linspace(0.5, chains * number + 0.5, bins + 1)
    return np.stack([np.histogram(row, edges)[0] for row in ordered])


def energy(energies: np.ndarray) -> Picture | None:
    """Draw the densities of energies and of their changes; return None where they are not known."""
    if energies.shape[1] < 2 or not np.isfinite(energies).all() or not np.ptp(energies):
        return None
    changes = np.diff(energies, axis=1).ravel()
    if not np.ptp(changes):
        return None
    with _panel() as panel:
        axis = panel.axis()
        shown = {"energy minus its mean": energies.ravel() - energies.mean(), "change": changes}
        for number, (label, values) in enumerate(shown.items()):
            grid, heights = density(values, POINTS_OF_A_DENSITY)
            axis.fill_between(grid, heights, color=_colour(number), alpha=0.35, linewidth=0)
            axis.plot(grid, heights, color=_colour(number), linewidth=1.2, label=label)
        axis.set_yticks([])
        axis.set_ylabel("density")
        axis.set_xlabel("energy")
        axis.set_ylim(0, 1.3 * axis.get_ylim()[1])
        axis.legend(loc="upper right", ncols=1)
    alt = (
        "Densities of the energy of the draws and of its change from draw to draw; the two should "
        "be about equally wide."
    )
    return Picture(panel.svg, alt, "Energy, and its change from one draw to the next")


def gradient(held_out: HeldOutGradients, coordinate: int) -> Picture:
    """Draw the learned against the true gradient of one coordinate, with the line of equality."""
    true, learned = held_out.true[:, coordinate], held_out.learned[:, coordinate]
    name, error = held_out.coordinates[coordinate], held_out.errors[coordinate]
    with _panel() as panel:
        axis = panel.axis()
        ends = [true.min(), true.max()]
        axis.plot(ends, ends, color="#999999", linewidth=0.9, label="equal")
        axis.plot(true, learned, ".", color=COLOURS[0], markersize=4, alpha=0.6, rasterized=True)
        axis.set_xlabel("true gradient")
        axis.set_ylabel("learned gradient")
        axis.legend(loc="upper left")
    alt = f"Learned against true gradient along {name} at {len(true):,} held-out points."
    return Picture(panel.svg, f"{alt} Relative error {error:.2g}.", f"{name}: error {error:.2g}")


def gradient_errors(held_out: HeldOutGradients) -> Picture:
    """Draw the relative error of every coordinate, the largest first."""
    errors = np.sort(held_out.errors)[::-1]
    with _panel() as panel:
        axis = panel.axis()
        places = np.arange(1, 1 + len(errors))
        axis.plot(places, errors, ".", color=COLOURS[1], markersize=5)
        axis.set_ylim(bottom=0)
        axis.set_xlabel("coordinate, by falling error")
        axis.set_ylabel("relative error")
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    which = f"the learned gradient in {counted(len(errors), 'coordinate')}"
    alt = f"Relative errors of {which}, from {errors[-1]:.2g} to {errors[0]:.2g}."
    return Picture(panel.svg, alt, "Relative error of every coordinate")


def acceptance(
    rates: np.ndarray,
    diverged: np.ndarray,
    phases: tuple[Phase, ...],
    probes: tuple[Probe, ...],
) -> Picture | None:
    """Draw acceptance rates (chains, draws) over the run; return None where nothing was tested."""
    if not np.isfinite(rates).any():
        return None
    edges = np.cumsum([0, *(phase.draws for phase in phases)])
    with _panel() as panel:
        axis = panel.axis()
        for number, (phase, (first, end)) in enumerate(zip(phases, pairwise(edges), strict=True)):
            most = max(1, round(MOST_STRETCHES * (end - first) / edges[-1]))
            places, means = _stretches(rates[:, first:end], most)
            _draw_rates(axis, first + places, means, labelled=number == 0)
            shaded = (len(phases) - number) % 2 == 0  # the last never, the one before it always
            _mark_phase(axis, phase.name, first, end, edges[-1], shaded)
        _mark_probes_and_divergences(axis, probes, diverged)
        axis.set_xlim(0, edges[-1])
        axis.set_ylim(-0.03, 1.45)
        axis.set_yticks([0, 0.5, 1])
        axis.set_xlabel("draw, counted from the start of the run")
        axis.set_ylabel("acceptance")
        axis.legend(loc="upper left", ncols=2)
    last = float(np.mean(rates[:, edges[-2] :]))
    alt = "Acceptance over the whole run"
    alt += f"; the mean of the last phase is {last:.2f}." if np.isfinite(last) else "."
    sizes = ", ".join(f"{phase.name} {phase.draws:,}" for phase in phases)
    return Picture(panel.svg, alt, f"Means over short ranges of draws. Draws per chain: {sizes}")


def _mark_probes_and_divergences(
    axis: Axes, probes: tuple[Probe, ...], diverged: np.ndarray
) -> None:
    if probes:
        at = [probe.after for probe in probes], [probe.acceptance for probe in probes]
        axis.plot(*at, "D", color=COLOURS[1], markersize=5, label="probe", zorder=4)
    places = np.flatnonzero(diverged.any(axis=0))
    if len(places):
        low = np.zeros(len(places))
        axis.plot(places, low, "|", color="#b3261e", label="divergence", rasterized=True)


def _draw_rates(axis: Axes, places: np.ndarray, means: np.ndarray, labelled: bool) -> None:
    """Draw the rates of each chain in grey, and their mean in blue."""
    marker = "." if len(places) == 1 else "-"
    for row in means[:100] if len(means) > 1 else ():
        axis.plot(places, row, marker, color="#888888", linewidth=0.5, alpha=0.5, rasterized=True)
    label = "all chains" if labelled else None
    axis.plot(places, means.mean(axis=0), marker, color=COLOURS[0], linewidth=1.4, label=label)


def _mark_phase(axis: Axes, name: str, first: int, end: int, whole: int, shaded: bool) -> None:
    """Shade a phase, and name it where there is room."""
    if shaded:
        axis.axvspan(first, end, color="#000000", alpha=0.05, linewidth=0)
    if end - first > 0.15 * whole:
        axis.text((first + end) / 2, 1.04, name, ha="center", va="bottom", fontsize=8)


def _stretches(rates: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the middles of at most `most` ranges of draws, and each chain's mean over them."""
    number = rates.shape[1]
    edges = np.unique(np.linspace(0, number, min(most, number) + 1).round().astype(int))
    means = np.add.reduceat(rates, edges[:-1], axis=1) / np.diff(edges)
    return (edges[:-1] + edges[1:]) / 2, means


def losses(training: np.ndarray, held_out: np.ndarray) -> Picture | None:
    """Draw the loss of each epoch; return None where there were no epochs."""
    if not len(training):
        return None
    with _panel() as panel:
        axis = panel.axis()
        shown = {"training": training, "held out": held_out}
        for number, (label, values) in enumerate(shown.items()):
            if len(values):
                epochs = np.arange(1, 1 + len(values))
                marker = "." if len(values) == 1 else "-"
                axis.plot(epochs, values, marker, color=_colour(number), label=label)
        if np.nanmin(training) > 0:
            axis.set_yscale("log")
        axis.set_xlabel("epoch")
        axis.set_ylabel("loss")
        axis.legend(loc="upper right")
    first, last = training[0], training[-1]
    alt = f"Training loss over {counted(len(training), 'epoch')}: {first:.3g} to {last:.3g}."
    where = ", on training and on held-out points" if len(held_out) else ""
    return Picture(panel.svg, alt, f"Loss of each epoch{where}")
