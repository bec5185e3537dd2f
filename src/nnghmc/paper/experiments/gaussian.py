"""Section 4.1: a Gaussian of 30 dimensions with variances from 0.1 to 1000."""

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from scipy import stats

from nnghmc import HMC, GradientMLP, NNgHMC, Run, Training, TrainingSchedule, plots
from nnghmc.paper.experiment import Result, Table, whole_run, z_of_spreads
from nnghmc.paper.targets import gaussian, gaussian_variances

CHAINS, COLLECTED = 2, 50
TUNING: dict[str, Any] = {"step_size": 0.5, "num_steps": (1, 100)}
FULL, QUICK = 4000, 1000
EXTREMES = {0: "variance 0.1", 1: "variance 1000"}
SETTINGS = (
    "ε = 0.5, and L is drawn uniformly between 1 and 100 for each draw, as in the authors' code: "
    "with L fixed, some directions return to where they began. A network of 100 units learns for "
    "10 epochs from the gradients of 50 draws."
)


def run(full: bool = False, seed: int = 0, progress: bool = True) -> Result:
    """Compare acceptance and variances of both methods, and draw the two extreme dimensions."""
    runs = run_both(FULL if full else QUICK, seed, progress)
    return Result([SETTINGS, table(runs)], {"gaussian.png": figure(runs)})


def run_both(draws: int, seed: int = 0, progress: bool = True) -> dict[str, Run]:
    """Sample by standard HMC, and by NNgHMC with the paper's settings."""
    learning = NNgHMC(
        network=GradientMLP(100),
        training=Training(epochs=10, held_out=0.0),  # the paper learns from all gradients
        schedule=TrainingSchedule.once(COLLECTED // CHAINS, tolerance=0.5),
        **TUNING,
    )
    return {
        name: whole_run(gaussian(), draws, CHAINS, seed, method, progress=progress)
        for name, method in {"standard HMC": HMC(**TUNING), "NNgHMC": learning}.items()
    }


def table(runs: dict[str, Run]) -> Table:
    """Return a table of our acceptance and the paper's, two variances and the largest z-score."""
    rows = [
        (
            name,
            f"{run.acceptance:.2f}",
            paper,
            *(f"{run.draws[:, :, coordinate].var():.3g}" for coordinate in EXTREMES),
            f"{np.abs(z_of_spreads(run.draws, np.sqrt(gaussian_variances()))).max():.2f}",
        )
        for (name, run), paper in zip(runs.items(), ("0.70", "0.50"), strict=True)
    ]
    header = ("", "AP", "the paper's AP", "variance, 0.1", "variance, 1000", "largest z of 30 sds")
    return Table("A Gaussian of 30 dimensions", header, rows)


def figure(runs: dict[str, Run]) -> Figure:
    """Draw histograms of the two extreme dimensions, with their true densities."""
    drawing, axes = plt.subplots(1, 2, figsize=(10, 3.6))
    for axis, (coordinate, name) in zip(axes, EXTREMES.items(), strict=True):
        spread = np.sqrt(gaussian_variances()[coordinate])
        grid = np.linspace(-4 * spread, 4 * spread, 300)
        density = stats.norm.pdf(grid, scale=spread)
        axis.fill_between(grid, density, color="0.85", label="the truth")
        for (title, run), colour in zip(runs.items(), plots.COLOURS, strict=False):
            values = run.draws[:, :, coordinate].ravel()
            axis.hist(values, 60, density=True, histtype="step", color=colour, label=title)
        axis.set(title=name, yticks=[], xlabel=f"x{coordinate + 1}")
    axes[0].set_ylabel("density")
    axes[0].legend(frameon=False)
    drawing.tight_layout()
    return drawing
