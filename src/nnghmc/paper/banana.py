"""Samples the banana of section 4.1 by standard HMC and NNgHMC, for the demo and the experiment."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from nnghmc import HMC, Comparison, GradientMLP, NNgHMC, Run, TrainingSchedule, compare, plots
from nnghmc.paper.experiment import Result, Table, whole_run
from nnghmc.paper.targets import Banana, banana

CHAINS = 4
STEP_SIZE, NUM_STEPS = 0.1, 5
HIDDEN, EPOCHS = 100, 50
COLLECTED_DRAWS = 1000
SETTINGS = (
    "x₁ is normal with standard deviation 1; given x₁, x₂ is normal around 0.05 x₁² with standard "
    "deviation 0.0572. The paper does not print its constants; with these, standard HMC accepts "
    "close to the 0.58 that it reports. 4 chains of 5,000 draws; a network of 100 units learns for "
    "50 epochs from the gradients of 1,000 draws."
)
BOUNDS = ((-4.0, 4.0), (-0.3, 0.9))
TRAJECTORY: dict[str, Any] = {
    "start": ((2.0, 0.2), (1.0, 1.2)),
    "step_size": 0.02,
    "num_steps": 1000,
}


@dataclass(frozen=True)
class BananaExperiment:
    """The run of each method, and the table that compares them."""

    standard: Run
    learned: Run
    table: Comparison

    def moments(self) -> str:
        """Return a table of means, variances and the correlation of x₁² with x₂, with the truth."""
        lines = [f"{'':<14}{'mean':>16}{'variance':>20}{'corr(x₁², x₂)':>18}"]
        for run in (self.standard, self.learned):
            points = run.draws.reshape(-1, 2)
            correlation = float(np.corrcoef(points[:, 0] ** 2, points[:, 1])[0, 1])
            lines.append(
                _moments_line(run.title, points.mean(axis=0), points.var(axis=0), correlation)
            )
        truth = Banana()
        lines.append(_moments_line("truth", truth.mean, truth.variance, truth.correlation))
        return "\n".join(lines)


def run(full: bool = False, seed: int = 0, progress: bool = True) -> Result:
    """Compare acceptance, and draw gradient fields, draws and trajectories; quick equals full."""
    experiment = run_banana(seed=seed, progress=progress)
    runs = (experiment.standard, experiment.learned)
    rows = [
        (run.title, f"{run.acceptance:.2f}", paper, f"{row.ess_median:,.0f}")
        for run, paper, row in zip(runs, ("0.58", "0.57"), experiment.table.rows, strict=True)
    ]
    table = Table("The banana, ε = 0.1, L = 5", ("", "AP", "the paper's AP", "median ESS"), rows)
    return Result([SETTINGS, table], {"banana.png": banana_figure(experiment)})


def run_banana(draws: int = 5000, seed: int = 0, progress: bool = True) -> BananaExperiment:
    """Sample the banana by standard HMC, and by NNgHMC that learns from 1,000 draws."""
    posterior = banana()
    tuning: dict[str, Any] = {"step_size": STEP_SIZE, "num_steps": NUM_STEPS}
    standard = whole_run(posterior, draws, CHAINS, seed, HMC(**tuning), progress=progress)
    learning = NNgHMC(
        network=GradientMLP(HIDDEN),
        epochs=EPOCHS,
        schedule=TrainingSchedule.once(COLLECTED_DRAWS // CHAINS),
        **tuning,
    )
    learned = whole_run(posterior, draws, CHAINS, seed, learning, progress=progress)
    return BananaExperiment(standard, learned, compare(standard, learned))


def banana_figure(experiment: BananaExperiment) -> Figure:
    """Draw field, draws and a trajectory of the true gradient above those of the learned one."""
    figure, axes = plt.subplots(2, 3, figsize=(12, 6.4), sharex=True, sharey=True)
    posterior = banana()
    assert experiment.learned.surrogate is not None  # a complete run has been trained
    gradients = [
        ("true", posterior.gradient, experiment.standard),
        ("learned", experiment.learned.surrogate.gradient, experiment.learned),
    ]
    for row, (name, gradient, run) in zip(axes, gradients, strict=True):
        colour = plots.COLOURS[name == "learned"]
        plots.draw_gradient_field(row[0], gradient, BOUNDS)
        row[0].set_title(f"{name} gradient, downhill")
        plots.draw_points(row[1], run.draws, colour)
        row[1].set_title(f"{run.title}: acceptance {run.acceptance:.2f}")
        plots.draw_trajectory(row[2], gradient, colour=colour, **TRAJECTORY)
        row[2].set_title(f"{TRAJECTORY['num_steps']:,} steps of the {name} gradient")
        for axis in row:
            plots.draw_contours(axis, posterior.potential, BOUNDS)
        row[0].set_ylabel("x₂")
    for axis in axes[1]:
        axis.set_xlabel("x₁")
    axes[0, 0].set(xlim=BOUNDS[0], ylim=BOUNDS[1], xticks=(-3, -1, 1, 3))
    figure.tight_layout()
    return figure


def write_figures(experiment: BananaExperiment, folder: Path) -> list[Path]:
    """Write the banana figure, the marginals of both runs and a trace of each; return the files."""
    figures = {
        "banana.png": banana_figure(experiment),
        "marginals.png": plots.marginals(experiment.standard, experiment.learned),
        "hmc-trace.png": plots.trace(experiment.standard),
        "nnghmc-trace.png": plots.trace(experiment.learned),
    }
    for name, figure in figures.items():
        plots.save(figure, folder / name)
    return [folder / name for name in figures]


def _moments_line(title: str, mean: np.ndarray, variance: np.ndarray, correlation: float) -> str:
    means = ", ".join(f"{value:.3f}" for value in mean)
    variances = ", ".join(f"{value:.4f}" for value in variance)
    return f"{title:<14}{means:>16}{variances:>20}{correlation:>18.3f}"
