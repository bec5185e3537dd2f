"""Section 4.3: the hyperparameters of a Gaussian process with a Matérn 3/2 kernel, 500 × 4."""

from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Array, Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nnghmc import GradientMLP, Posterior, Run, plots
from nnghmc.paper.experiment import Result, variables_of
from nnghmc.paper.race import OUR_WAY, PAPER_TRAINING, STANDARD, Course, Draws, paper_row, race

POINTS, INPUTS = 500, 4
LENGTH_SCALE, VARIANCE, NOISE = 2.0, 1.0, 0.1
COURSE = Course(
    step_size=0.05,
    most_steps=20,
    draws=10_000,
    collected=400,
    network=GradientMLP(100),
    training=replace(PAPER_TRAINING, epochs=100),
    quick=Draws(true=40, collected=400, learned=500),
    warmup=5,
)
SPEED_UP = 39.3
"""The paper's speed-up of NNgHMC."""
PAPER = [paper_row("NNgHMC", speed_up=SPEED_UP)]
SETTINGS = (
    "500 standard normal points in 4 dimensions, and values of a process of length scale 2 and "
    "variance 1 with noise of variance 0.1, which is known; the paper does not print its true "
    "values. Both hyperparameters have standard lognormal priors and are sampled as logarithms, "
    "with the Jacobian. ε = 0.05 and L = 20, and the number of steps is uniform between 1 and L. "
    "The paper's way: a network of 100 units learns for 100 epochs from the gradients of 400 "
    "draws; the paper does not print how many draws it learns from."
)


class Observed(NamedTuple):
    """Noisy values of a function at some places."""

    places: np.ndarray
    values: np.ndarray


def matern(distances: Array, length_scale: Array | float, variance: Array | float) -> Array:
    """Return the Matérn 3/2 covariance of values at these distances."""
    scaled = jnp.sqrt(3.0) * distances / length_scale
    return variance * (1 + scaled) * jnp.exp(-scaled)


def distances(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the distances between all rows of one array and all rows of another."""
    return np.linalg.norm(first[:, np.newaxis] - second, axis=2)


def simulate_data(points: int = POINTS, seed: int = 0) -> Observed:
    """Simulate values of the process at random places."""
    generator = np.random.default_rng(seed)
    places = generator.normal(size=(points, INPUTS))
    covariance = matern(jnp.asarray(distances(places, places)), LENGTH_SCALE, VARIANCE)
    factor = np.linalg.cholesky(np.asarray(covariance) + NOISE * np.eye(points))
    return Observed(places, factor @ generator.normal(size=points))


def gaussian_process(seen: Observed) -> Posterior:
    """Return the posterior of the logarithms of length scale and variance."""
    data = {"distances": distances(seen.places, seen.places), "values": seen.values}

    def log_likelihood(p: dict[str, Array], data: dict[str, Array]) -> Array:
        covariance = matern(data["distances"], *(jnp.exp(p[name]) for name in p))
        factor = jnp.linalg.cholesky(covariance + NOISE * jnp.eye(len(covariance)))
        white = jax.scipy.linalg.solve_triangular(factor, data["values"], lower=True)
        return -0.5 * jnp.sum(white**2) - jnp.sum(jnp.log(jnp.diag(factor)))

    def log_prior(p: dict[str, Array]) -> Float[Array, ""]:
        return -0.5 * sum((part**2 for part in p.values()), jnp.zeros(()))

    initial = {"length_scale": np.log(LENGTH_SCALE), "variance": np.log(VARIANCE)}
    return Posterior(
        log_likelihood, log_prior, data, initial, constrain=lambda p: jax.tree.map(jnp.exp, p)
    )


def run(full: bool = False, seed: int = 0, progress: bool = True) -> Result:
    """Run the race, and draw the posteriors of both hyperparameters and prediction bands."""
    seen = simulate_data()
    result = race(gaussian_process(seen), COURSE, full, seed, progress)
    table = result.table("Gaussian process, 500 × 4, 10,000 draws (table 2)", PAPER)
    figures = {
        "gp-posterior.png": plots.marginals(*result.runs),
        "gp-prediction.png": prediction_figure(seen, result[STANDARD], result[OUR_WAY]),
    }
    return Result([SETTINGS, table, result.verdict(SPEED_UP), result.remarks], figures)


def prediction(
    seen: Observed, where: np.ndarray, run: Run, most: int = 100
) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and standard deviation of the function, over draws of the hyperparameters."""
    natural = variables_of(run)
    draws = np.stack([np.ravel(natural[name]) for name in ("length_scale", "variance")], axis=1)
    draws = draws[:: max(1, len(draws) // most)]
    apart, across = (distances(a, seen.places) for a in (seen.places, where))
    means, squares = [], []
    for length_scale, variance in draws:
        inner = np.asarray(matern(jnp.asarray(apart), length_scale, variance))
        outer = np.asarray(matern(jnp.asarray(across), length_scale, variance))
        solved = np.linalg.solve(inner + NOISE * np.eye(len(inner)), outer.T)
        mean = solved.T @ seen.values
        means.append(mean)
        squares.append(variance - np.sum(outer * solved.T, axis=1) + mean**2)
    centre = np.mean(means, axis=0)
    return centre, np.sqrt(np.maximum(np.mean(squares, axis=0) - centre**2, 0.0))


def prediction_figure(seen: Observed, *runs: Run) -> Figure:
    """Draw the function along the first axis, as each run predicts it."""
    along = np.linspace(-3, 3, 121)
    where = np.zeros((len(along), INPUTS))
    where[:, 0] = along
    drawing, axes = plt.subplots(1, len(runs), figsize=(10, 3.6), sharey=True)
    for axis, run, colour in zip(axes, runs, plots.COLOURS, strict=False):
        _draw_band(axis, along, *prediction(seen, where, run), colour)
        axis.set(title=run.title, xlabel="first coordinate, the others 0")
    axes[0].set_ylabel("function, mean and 95 % band")
    drawing.tight_layout()
    return drawing


def _draw_band(
    axis: Axes, along: np.ndarray, mean: np.ndarray, spread: np.ndarray, colour: str
) -> None:
    axis.fill_between(along, mean - 1.96 * spread, mean + 1.96 * spread, color=colour, alpha=0.25)
    axis.plot(along, mean, color=colour)
