"""Draws figures of runs, and of gradients in two dimensions."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from nnghmc.engine.statistics import density
from nnghmc.errors import SettingsError
from nnghmc.kernels import simulate
from nnghmc.run.run import Run

MOST_SCALARS = 12
"""Largest number of scalars in a figure."""
POINTS_OF_A_DENSITY = 150
"""Number of grid points of a density estimate."""
COLOURS = ("#3b6fb6", "#d1701f", "#4a9a5b", "#8a5aa8")

Bounds = tuple[tuple[float, float], tuple[float, float]]
"""The limits of a plane: ((left, right), (bottom, top))."""


def trace(run: Run) -> Figure:
    """Draw densities and traces of the first variables, with one colour per chain."""
    scalars = labelled_scalars(run)
    shown = _first(scalars)
    figure, axes = plt.subplots(
        len(shown), 2, figsize=(10, 1 + 1.8 * len(shown)), squeeze=False, layout="constrained"
    )
    for (left, right), (name, draws) in zip(axes, shown.items(), strict=True):
        for chain, values in enumerate(draws):
            colour = COLOURS[chain % len(COLOURS)]
            draw_density(left, values, colour)
            right.plot(values, color=colour, linewidth=0.5, alpha=0.6)
        for axis in (left, right):
            axis.set_title(name)
            axis.margins(x=0)
        left.set_yticks([])
        left.set_ylabel("density")
    axes[-1, 1].set_xlabel("draw")
    which = f", first {len(shown)} of {len(scalars)}" if len(shown) < len(scalars) else ""
    figure.suptitle(f"{run.title}: densities and traces, one colour per chain{which}")
    return figure


def marginals(*runs: Run) -> Figure:
    """Draw the marginal densities of the first variables, all runs in the same axes."""
    scalars = [_first(labelled_scalars(run)) for run in runs]
    names = list(scalars[0])
    columns = min(len(names), 4)
    rows = -(-len(names) // columns)
    figure, axes = plt.subplots(
        rows,
        columns,
        figsize=(3.2 * columns, 0.4 + 2.6 * rows),
        squeeze=False,
        layout="constrained",
    )
    for axis in axes.flat[len(names) :]:
        axis.remove()
    for axis, name in zip(axes.flat, names, strict=False):
        for number, values in enumerate(part[name] for part in scalars):
            draw_density(axis, values.ravel(), COLOURS[number % len(COLOURS)])
        axis.set_title(name)
        axis.set_yticks([])
        axis.set_ylabel("density")
    handles = [
        Line2D([], [], color=COLOURS[number % len(COLOURS)], label=run.title)
        for number, run in enumerate(runs)
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=len(runs), frameon=False)
    return figure


def draw_density(axis: Axes, values: np.ndarray, colour: str, sideways: bool = False) -> None:
    """Draw a density estimate of the finite values, unless they are all equal."""
    finite = values[np.isfinite(values)]
    if finite.size < 2 or np.ptp(finite) == 0:
        return
    grid, heights = density(finite, POINTS_OF_A_DENSITY)
    places = (heights, grid) if sideways else (grid, heights)
    axis.plot(*places, color=colour, linewidth=1)


def _first(scalars: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the first `MOST_SCALARS` scalars."""
    return dict(list(scalars.items())[:MOST_SCALARS])


def labelled_scalars(run: Run) -> dict[str, np.ndarray]:
    """Return the kept draws of every reported scalar, each of shape (chains, draws)."""
    if not run.kept.size:
        raise SettingsError(
            "a figure of draws needs draws, and this run was stopped before the first one; go on "
            "with it by nnghmc.resume if it has a store, or sample again."
        )
    return scalars_of(run.to_tree()["posterior"])


def scalars_of(variables: Any) -> dict[str, np.ndarray]:
    """Split the variables of a group into scalars (chains, draws), named as in ArviZ's tables."""
    scalars = {}
    for name, values in variables.data_vars.items():
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
    """Draw arrows along -gradient over a plane; colour shows their length on a log scale."""
    horizontal, vertical = (np.linspace(*bound, resolution) for bound in bounds)
    grid = np.stack(np.meshgrid(horizontal, vertical), axis=-1)
    arrows = -np.asarray(jax.vmap(jax.vmap(gradient))(jnp.asarray(grid)))
    length = np.linalg.norm(arrows, axis=-1)
    length = np.clip(length, 1e-3 * length.max(), None)
    # In units of the plot, directions look right even if the axes have different scales.
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
    """Draw contours of the density, at the levels of a Gaussian at 0.5, 1, 2 and 3 sd."""
    grid = np.stack(np.meshgrid(*(np.linspace(*bound, 200) for bound in bounds)), axis=-1)
    height = np.asarray(jax.vmap(jax.vmap(potential))(jnp.asarray(grid)))
    levels = height.min() + 0.5 * np.array([0.5, 1.0, 2.0, 3.0]) ** 2
    axis.contour(grid[..., 0], grid[..., 1], height, levels=levels, colors="0.55", linewidths=0.8)


def draw_points(axis: Axes, draws: np.ndarray, colour: str, most: int = 4000) -> None:
    """Draw points for draws (chains, draws, 2), thinned evenly to about `most` of them."""
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
    """Draw one leapfrog trajectory from a start (position, momentum)."""
    position, momentum = (jnp.asarray(part, float) for part in start)
    _, _, path = simulate(gradient, position, momentum, step_size, num_steps)
    points = np.asarray(path.positions)
    axis.plot(*points.T, "-", linewidth=0.9, color=colour)
    axis.plot(*points[0], "o", color="black", markersize=5, label="start")
    axis.plot(*points[-1], "X", color="black", markersize=7, label="end")
    axis.legend(loc="upper center", ncols=2, frameon=False)


def save(figure: Figure, path: Any) -> None:
    """Write a figure to a file and close it."""
    figure.savefig(path, dpi=150)
    plt.close(figure)
