"""Section 4.4: show the bias of stochastic gradients without a Metropolis test.

The target is a logistic regression of two coefficients, small enough to integrate on a grid. SGHMC
inflates the marginal standard deviations, and more so with larger steps, while standard HMC, NNgHMC
and SGHMC with a Metropolis test agree with the grid.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from scipy import stats

from nnghmc import HMC, SGHMC, Method, MetropolisSGHMC, NNgHMC, Posterior, Run, plots
from nnghmc.paper.experiment import Result, Table, whole_run, z_of_spreads
from nnghmc.paper.targets import logistic

ROWS, COLUMNS = 1000, 2
CHAINS, DRAWS = 4, 2000
STEP_SIZES = (0.001, 0.005, 0.02)
TRAJECTORY = 0.2
BATCH_SIZE, FRICTION = 100, 20.0


class Marginals(NamedTuple):
    """Exact marginal densities on a grid, and their standard deviations."""

    grid: np.ndarray
    densities: np.ndarray
    spreads: np.ndarray


def run(full: bool = False, seed: int = 0, progress: bool = True) -> Result:
    """Sample by every method, and compare with the grid; quick equals full."""
    posterior = small_regression()
    truth = exact_marginals(posterior)
    runs = all_runs(posterior, DRAWS, seed, progress)
    return Result([table(runs, truth)], {"bias.png": figure(runs, truth)})


def small_regression() -> Posterior:
    """Return a logistic regression of 1,000 rows and two coefficients."""
    return logistic(ROWS, COLUMNS, spread=1.0, seed=3)


def exact_marginals(posterior: Posterior, points: int = 301, width: float = 0.8) -> Marginals:
    """Integrate by the trapezium rule around the start, far into the tails."""
    centre = np.asarray(posterior.initial)
    offsets = np.linspace(-width, width, points)
    axes = [value + offsets for value in centre]
    plane = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    potential = jax.jit(lambda rows: jax.lax.map(posterior.potential, rows, batch_size=512))
    heights = -np.asarray(potential(jnp.asarray(plane))).reshape(points, points)
    density = np.exp(heights - heights.max())
    densities = np.stack([density.sum(axis=1), density.sum(axis=0)])
    densities /= np.trapezoid(densities, offsets, axis=1)[:, np.newaxis]
    grid = np.stack(axes)
    means = np.trapezoid(grid * densities, grid, axis=1)
    squares = np.trapezoid((grid - means[:, np.newaxis]) ** 2 * densities, grid, axis=1)
    return Marginals(grid, densities, np.sqrt(squares))


def all_runs(posterior: Posterior, draws: int, seed: int, progress: bool) -> dict[str, Run]:
    """Sample by each method, and by SGHMC at each step size with trajectories of equal length."""
    tuning: dict[str, Any] = {"step_size": 0.03, "num_steps": (2, 12)}
    methods: dict[str, Method] = {
        "standard HMC": HMC(**tuning),
        "NNgHMC": NNgHMC(**tuning),
        "SGHMC with Metropolis test": MetropolisSGHMC(
            step_size=0.01, num_steps=(5, 20), batch_size=BATCH_SIZE
        ),
    }
    for step_size in STEP_SIZES:
        methods[f"SGHMC, step {step_size:g}"] = SGHMC(
            step_size=step_size,
            num_steps=round(TRAJECTORY / step_size),
            batch_size=BATCH_SIZE,
            friction=FRICTION,
        )
    return {
        name: whole_run(posterior, draws, CHAINS, seed, method, progress=progress)
        for name, method in methods.items()
    }


def table(runs: dict[str, Run], truth: Marginals) -> Table:
    """Return a table of standard deviations and their distance from those of the grid."""
    rows = [("the grid", *_shown(truth.spreads, ".4f"), "", "", "")]
    for name, run in runs.items():
        spreads = _shown(run.draws.reshape(-1, 2).std(axis=0), ".4f")
        z = _shown(z_of_spreads(run.draws, truth.spreads), ".1f")
        rows.append((name, *spreads, *z, "yes" if run.exact else "no"))
    header = ("", "first sd", "second sd", "z", "z", "exact")
    return Table("Standard deviations of both coefficients, and z against the grid", header, rows)


def _shown(values: np.ndarray, form: str) -> tuple[str, ...]:
    return tuple(f"{value:{form}}" for value in values)


def figure(runs: dict[str, Run], truth: Marginals) -> Figure:
    """Draw marginal densities: exact methods on the left, SGHMC by step size on the right."""
    drawing, axes = plt.subplots(2, 2, figsize=(10, 6.4), sharex="row", sharey="row")
    columns = [
        {name: run for name, run in runs.items() if run.exact is exact} for exact in (True, False)
    ]
    for coefficient, row in enumerate(axes):
        for axis, shown in zip(row, columns, strict=True):
            grid, density = truth.grid[coefficient], truth.densities[coefficient]
            axis.fill_between(grid, density, color="0.85", label="exact, by a grid")
            for colour, (name, run) in zip(plots.COLOURS, shown.items(), strict=False):
                smooth = stats.gaussian_kde(run.draws[:, :, coefficient].ravel())
                axis.plot(grid, smooth(grid), color=colour, label=name)
            axis.set(yticks=[], xlabel=f"coefficient {coefficient}")
    axes[0, 0].set_title("with a Metropolis test")
    axes[0, 1].set_title("stochastic gradients without one")
    for axis in axes[0]:
        axis.legend(frameon=False, fontsize=8, loc="upper left")
        axis.set_ylim(top=1.35 * truth.densities[0].max())
    within = truth.densities > 1e-6 * truth.densities.max()
    for coefficient, row in enumerate(axes):
        shown_grid = truth.grid[coefficient][within[coefficient]]
        row[0].set_xlim(shown_grid.min(), shown_grid.max())
    drawing.tight_layout()
    return drawing
