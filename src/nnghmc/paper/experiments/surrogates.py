"""Section 4.5, table 4: surrogates of a standard normal, by dimension and training points.

The paper does not say where its training points are, nor its step size and number of steps. With
independent draws of the target as training points, ε = 0.1 and L = 10, our network accepts at least
as much as the paper's in every cell; points along trajectories, which resemble each other, do
worse.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from nnghmc import (
    HMC,
    GaussianProcess,
    GradientData,
    GradientMLP,
    GradientModel,
    Method,
    NNgHMC,
    Posterior,
    QuadraticPlus,
    Surrogate,
    Training,
    TrainingSchedule,
    fit,
)
from nnghmc.paper.experiment import Result, Table, whole_run
from nnghmc.paper.targets import standard_normal

DIMENSIONS = (10, 20, 40)
POINTS = (500, 1000, 2000)
STEP_SIZE, NUM_STEPS = 0.1, 10
CHAINS, DRAWS = 40, 50
PAPER = {10: (0.95, 0.96, 0.97), 20: (0.82, 0.87, 0.91), 40: (0.61, 0.75, 0.87)}
"""The paper's acceptance of its network, by dimension, for 500, 1,000 and 2,000 points."""

AS_THE_PAPER = Training(epochs=10, held_out=0.0)
MODELS: dict[str, tuple[GradientModel, Training | None]] = {
    "network": (GradientMLP(100), AS_THE_PAPER),
    "Gaussian process": (GaussianProcess(points=None), AS_THE_PAPER),
    "default": (QuadraticPlus(), None),
}


class Cell(NamedTuple):
    """One acceptance of the table; an entry for the true gradient has 0 points."""

    dim: int
    points: int
    model: str
    acceptance: float


def run(full: bool = False, seed: int = 0, progress: bool = True) -> Result:
    """Make the table of our acceptances and the paper's; quick equals full."""
    return Result([table(measure_cells(seed, progress)), REMARK])


def measure_cells(
    seed: int,
    progress: bool,
    dimensions: tuple[int, ...] = DIMENSIONS,
    points: tuple[int, ...] = POINTS,
) -> list[Cell]:
    """Measure the acceptance of the true gradient and of each model, for every dimension."""
    cells = []
    for dim in dimensions:
        posterior = standard_normal(dim)
        cells.append(Cell(dim, 0, "true gradient", _acceptance(posterior, None, seed, progress)))
        for number in points:
            data = independent_points(posterior, number, seed)
            for name, (model, training) in MODELS.items():
                surrogate = fit(model, data, jax.random.key(seed), training)
                acceptance = _acceptance(posterior, surrogate, seed, progress)
                cells.append(Cell(dim, number, name, acceptance))
    return cells


def independent_points(posterior: Posterior, number: int, seed: int) -> GradientData:
    """Return gradients and potentials at independent draws of the standard normal."""
    positions = np.random.default_rng((seed, number)).normal(size=(number, posterior.dim))
    evaluate = jax.jit(jax.vmap(posterior.potential_and_gradient))
    potentials, gradients = evaluate(jnp.asarray(positions))
    return GradientData.of_points(positions, np.array(gradients), np.array(potentials))


def _acceptance(
    posterior: Posterior, surrogate: Surrogate | None, seed: int, progress: bool
) -> float:
    """Return the acceptance of chains that start at draws of the target."""
    starts = np.random.default_rng((seed, 1)).normal(size=(CHAINS, posterior.dim))
    method: Method = HMC(STEP_SIZE, NUM_STEPS, warmup=0)
    if surrogate is not None:
        schedule = TrainingSchedule.once(1, tolerance=1.0, least_acceptance=0.0, probe_draws=1)
        method = NNgHMC(STEP_SIZE, NUM_STEPS, warmup=0, schedule=schedule, surrogate=surrogate)
    run = whole_run(
        posterior, DRAWS, CHAINS, seed, method, initial_positions=starts, progress=progress
    )
    return run.acceptance


def table(cells: list[Cell]) -> Table:
    """Return a table with a row per dimension and model and a column per number of points."""
    numbers = sorted({cell.points for cell in cells} - {0})
    values = {(cell.dim, cell.points, cell.model): cell.acceptance for cell in cells}
    rows = []
    for dim in sorted({cell.dim for cell in cells}):
        true = f"{values[dim, 0, 'true gradient']:.2f}"
        rows.append((f"{dim}, true gradient", *[true] * len(numbers)))
        if dim in PAPER:
            shown = dict(zip(POINTS, PAPER[dim], strict=True))
            known = (f"{shown[number]:.2f}" if number in shown else "" for number in numbers)
            rows.append((f"{dim}, network, the paper", *known))
        for model in MODELS:
            ours = (f"{values[dim, number, model]:.2f}" for number in numbers)
            rows.append((f"{dim}, {model}", *ours))
    title = (
        f"Acceptance on a standard normal, ε = {STEP_SIZE}, L = {NUM_STEPS}, by training points, "
        "which are independent draws"
    )
    return Table(title, ("dimension, gradient", *(f"{n:,}" for n in numbers)), rows)


REMARK = """\
The network has 100 units and learns for 10 epochs, as in the paper. The Gaussian process has a
squared exponential kernel on the potentials; its length scale and noise maximise the marginal
likelihood."""
