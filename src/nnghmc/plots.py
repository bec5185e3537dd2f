"""Figures of a run, and of gradients in two dimensions."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from nnghmc.diagnostics import quiet_arviz
from nnghmc.kernels import simulate
from nnghmc.run import Run

MOST_SCALARS = 12
COLOURS = ("#3b6fb6", "#d1701f", "#4a9a5b", "#8a5aa8")

Bounds = tuple[tuple[float, float], tuple[float, float]]
"""((left, right), (bottom, top)) of a plane."""


def trace(run: Run) -> Figure:
    """Densities and traces of the first variables, by ArviZ."""
    scalars = labelled_scalars(run)
    shown = _first(scalars)
    with quiet_arviz() as arviz:
        axes = arviz.plot_trace(
            shown, chain_prop="color", figsize=(10, 1 + 1.8 * len(shown)), legend=False
        )
    axes[-1, 1].set_xlabel("draw")
    figure = axes.flat[0].figure
    which = f", first {len(shown)} of {len(scalars)}" if len(shown) < len(scalars) else ""
    figure.suptitle(f"{run.title}: densities and traces, a colour a chain{which}")
    figure.tight_layout()
    return figure


def marginals(*runs: Run) -> Figure:
    """Marginal densities of the first variables, the runs over each other, by ArviZ."""
    scalars = [_first(labelled_scalars(run)) for run in runs]
    count = len(scalars[0])
    columns = min(count, 4)
    rows = -(-count // columns)
    colours = [COLOURS[i % len(COLOURS)] for i in range(len(runs))]
    with quiet_arviz() as arviz:
        axes = arviz.plot_density(
            scalars,
            data_labels=[run.title for run in runs],
            colors=colours,
            grid=(rows, columns),
            hdi_prob=0.999,
            point_estimate=None,
            hdi_markers="",
            figsize=(3.2 * columns, 2.6 * rows),
        )
    for axis in axes.flat:
        if axis.get_legend() is not None:
            axis.get_legend().remove()
        axis.set_yticks([])
        axis.set_ylabel("density")
    figure = axes.flat[0].figure
    handles = [Patch(color=c, label=run.title) for c, run in zip(colours, runs, strict=True)]
    figure.tight_layout(rect=(0, 0, 1, 1 - 0.3 / figure.get_figheight()))
    figure.legend(handles=handles, loc="upper center", ncols=len(runs), frameon=False)
    return figure


def _first(scalars: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return dict(list(scalars.items())[:MOST_SCALARS])


def labelled_scalars(run: Run) -> dict[str, np.ndarray]:
    """The reported variables of a run taken apart, (chains, draws) each."""
    return scalars_of(run.to_arviz().posterior)


def scalars_of(variables: Any) -> dict[str, np.ndarray]:
    """Variables of an xarray Dataset taken apart, (chains, draws) each, named as ArviZ's tables."""
    scalars = {}
    for name, values in variables.items():
        axes = values.dims[2:]
        labels = [[str(label) for label in values[axis].values] for axis in axes]
        array = values.values
        for index in np.ndindex(array.shape[2:]):
            place = ", ".join(labels[axis][i] for axis, i in enumerate(index))
            scalars[f"{name}[{place}]" if axes else str(name)] = array[(..., *index)]
    return scalars


def draw_gradient_field(
    axis: Axes, gradient: Callable[[Any], Any], bounds: Bounds, resolution: int = 21
) -> None:
    """Arrows downhill, along -gradient, over a plane; colour tells the length on a log scale."""
    horizontal, vertical = (np.linspace(*bound, resolution) for bound in bounds)
    grid = np.stack(np.meshgrid(horizontal, vertical), axis=-1)
    arrows = -np.asarray(jax.vmap(jax.vmap(gradient))(jnp.asarray(grid)))
    length = np.linalg.norm(arrows, axis=-1)
    length = np.clip(length, 1e-3 * length.max(), None)
    # In units of the plot, so that directions look right on axes of different scale.
    shown = arrows / np.array([bound[1] - bound[0] for bound in bounds])
    span = np.linalg.norm(shown, axis=-1, keepdims=True)
    shown = np.divide(shown, span, out=np.zeros_like(shown), where=span > 0)
    axis.quiver(
        grid[..., 0],
        grid[..., 1],
        shown[..., 0],
        shown[..., 1],
        np.log10(length),
        cmap="viridis",
        angles="uv",
        pivot="mid",
        scale=1.3 * resolution,
        width=0.005,
    )


def draw_contours(axis: Axes, potential: Callable[[Any], Any], bounds: Bounds) -> None:
    """Density contours at half, one, two and three units of standard deviation of a Gaussian."""
    grid = np.stack(np.meshgrid(*(np.linspace(*bound, 200) for bound in bounds)), axis=-1)
    height = np.asarray(jax.vmap(jax.vmap(potential))(jnp.asarray(grid)))
    levels = height.min() + 0.5 * np.array([0.5, 1.0, 2.0, 3.0]) ** 2
    axis.contour(grid[..., 0], grid[..., 1], height, levels=levels, colors="0.55", linewidths=0.8)


def draw_points(axis: Axes, draws: np.ndarray, colour: str, most: int = 4000) -> None:
    """Draws (chains, draws, 2) as points, thinned evenly to at most so many."""
    points = draws.reshape(-1, 2)
    points = points[:: max(1, len(points) // most)]
    axis.plot(*points.T, ".", markersize=1.6, alpha=0.45, color=colour)


def draw_trajectory(
    axis: Axes,
    gradient: Callable[[Any], Any],
    start: tuple[Any, Any],
    step_size: float,
    num_steps: int,
    colour: str,
) -> None:
    """One leapfrog trajectory from (position, momentum)."""
    position, momentum = (jnp.asarray(part, float) for part in start)
    _, _, path = simulate(gradient, position, momentum, step_size, num_steps)
    points = np.asarray(path.positions)
    axis.plot(*points.T, "-", linewidth=0.9, color=colour)
    axis.plot(*points[0], "o", color="black", markersize=5, label="start")
    axis.plot(*points[-1], "X", color="black", markersize=7, label="end")
    axis.legend(loc="upper center", ncols=2, frameon=False)


def save(figure: Figure, path: Any) -> None:
    """Write a figure and let go of it."""
    figure.savefig(path, dpi=150)
    plt.close(figure)
