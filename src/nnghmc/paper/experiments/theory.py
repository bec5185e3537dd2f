"""Section 3 in numbers: what a learned gradient does to energy, paths, volume and reversibility.

The target is the banana, and networks learn from more and more points. A larger error of the
gradient makes the true energy drift more along a learned trajectory (Propositions 1 and 2). The
learned path leaves the true one within Grönwall's bound (the lemma and the theorem). For any
network the map preserves volume and can be reversed (Proposition 3), which is all that the
Metropolis test needs.
"""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from nnghmc import GradientData, GradientMLP, Posterior, Training, fit, plots, simulate
from nnghmc.paper.experiment import Result, Table
from nnghmc.paper.targets import Banana, banana

GradientFn = Callable[[jax.Array], jax.Array]
POINTS = (50, 500, 5000)
STEP_SIZE, NUM_STEPS, STARTS = 0.0025, 600, 40
"""Steps so small that the integrator's own error is far below that of any learned gradient."""
SETTINGS = (
    "Networks of 100 units learn the gradient of the banana for 200 epochs, at independent draws "
    f"of it. Each is followed along {STARTS} trajectories of {NUM_STEPS} steps of {STEP_SIZE}. The "
    "gradient error is the largest one along a learned trajectory. The bound is Grönwall's: if the "
    "gradient error is at most δ and the gradient changes by at most K per unit of distance, a "
    "learned path is at most δ/K (cosh(√K t) - 1) away from the true one after the time t."
)


@dataclass(frozen=True)
class Measurement:
    """Errors of trajectories along one learned gradient.

    Attributes:
        points: the number of points it learned from; 0 is an untrained network.
        errors: the largest error of the gradient along each trajectory.
        drifts: the largest change of the true energy along each trajectory.
        distances: the distance from the true path, by trajectory and step.
        bounds: Grönwall's bound on that distance.
        determinant: the largest distance of the Jacobian's determinant from 1.
        reversal: the largest distance from the start after going back.
    """

    points: int
    errors: np.ndarray
    drifts: np.ndarray
    distances: np.ndarray
    bounds: np.ndarray
    determinant: float
    reversal: float


def run(full: bool = False, seed: int = 0, progress: bool = True) -> Result:
    """Measure all errors for each network; `full` changes nothing."""
    measurements = [measure(points, seed) for points in (0, *POINTS)]
    return Result([SETTINGS, table(measurements)], {"theory.png": figure(measurements)})


def learned_gradient(posterior: Posterior, points: int, seed: int) -> GradientFn:
    """Return the gradient of a network that learned from draws; with 0 it is barely trained."""
    positions = Banana().exact_draws(max(points, 4), seed + 1)
    potentials, gradients = jax.jit(jax.vmap(posterior.potential_and_gradient))(
        jnp.asarray(positions)
    )
    data = GradientData.of_points(positions, np.array(gradients), np.array(potentials))
    training = Training(epochs=200 if points else 1, held_out=0.0)
    return fit(GradientMLP(100), data, jax.random.key(seed), training).gradient


def measure(points: int, seed: int = 0) -> Measurement:
    """Follow true and learned trajectories from the same starts."""
    posterior = banana()
    gradient = learned_gradient(posterior, points, seed)
    generator = np.random.default_rng(seed)
    starts = jnp.asarray(Banana().exact_draws(STARTS, seed + 2))
    momenta = jnp.asarray(generator.normal(size=starts.shape))

    def one(position: jax.Array, momentum: jax.Array) -> tuple[jax.Array, ...]:
        end, last, path = simulate(gradient, position, momentum, STEP_SIZE, NUM_STEPS)
        _, _, truth = simulate(posterior.gradient, position, momentum, STEP_SIZE, NUM_STEPS)
        error = jax.vmap(lambda q: gradient(q) - posterior.gradient(q))(path.positions)
        distance = jnp.linalg.norm(path.positions - truth.positions, axis=1)
        bend = jax.vmap(jax.hessian(posterior.potential))(
            jnp.concatenate([path.positions, truth.positions])
        )
        back, _, _ = simulate(gradient, end, -last, STEP_SIZE, NUM_STEPS)
        return (
            jnp.linalg.norm(error, axis=1).max(),
            _drift(posterior, path.positions),
            distance,
            jnp.linalg.norm(bend, ord=2, axis=(1, 2)).max(),
            jnp.abs(_determinant(gradient, position, momentum) - 1),
            jnp.linalg.norm(back - position),
        )

    errors, drifts, distances, bends, determinants, reversals = map(
        np.asarray, jax.jit(jax.vmap(one))(starts, momenta)
    )
    times = STEP_SIZE * np.arange(distances.shape[1])
    grown = np.cosh(np.sqrt(bends)[:, np.newaxis] * times) - 1
    bounds = (errors / bends)[:, np.newaxis] * grown
    return Measurement(
        points, errors, drifts, distances, bounds, determinants.max(), reversals.max()
    )


def _drift(posterior: Posterior, positions: jax.Array) -> jax.Array:
    """Return the largest change of the true energy along a path.

    Leapfrog's momentum in the middle of a path is the central difference of its positions.
    """
    momenta = (positions[2:] - positions[:-2]) / (2 * STEP_SIZE)
    potentials = jax.vmap(posterior.potential)(positions[1:-1])
    energies = potentials + 0.5 * jnp.sum(momenta**2, axis=1)
    return jnp.abs(energies - energies[0]).max()


def _determinant(gradient: GradientFn, position: jax.Array, momentum: jax.Array) -> jax.Array:
    """Return the Jacobian determinant of the map from the start of a trajectory to its end."""

    def flow(state: jax.Array) -> jax.Array:
        start, push = jnp.split(state, 2)
        return jnp.concatenate(simulate(gradient, start, push, STEP_SIZE, NUM_STEPS)[:2])

    return jnp.linalg.det(jax.jacfwd(flow)(jnp.concatenate([position, momentum])))


def table(measurements: list[Measurement]) -> Table:
    """Return a table with a row per network."""
    rows = [
        (
            f"{one.points:,} points" if one.points else "untrained",
            f"{np.median(one.errors):.3g}",
            f"{np.median(one.drifts):.3g}",
            f"{np.median(one.distances[:, -1]):.3g}",
            f"{np.max(one.distances[:, 1:] / one.bounds[:, 1:]):.2f}",
            f"{one.determinant:.0e}",
            f"{one.reversal:.0e}",
        )
        for one in measurements
    ]
    header = (
        "learned from", "gradient error", "energy drift", "distance", "distance / bound",
        "|det - 1|", "reversal",
    )  # fmt: skip
    return Table("Medians over trajectories; the last three columns are maxima", header, rows)


def figure(measurements: list[Measurement]) -> Figure:
    """Draw drift against gradient error, and distance with its bound."""
    drawing, (left, right) = plt.subplots(1, 2, figsize=(11, 4))
    for one, colour in zip(measurements, plots.COLOURS, strict=False):
        name = f"{one.points:,} points" if one.points else "untrained"
        left.plot(one.errors, one.drifts, ".", color=colour, label=name)
        times = STEP_SIZE * np.arange(one.distances.shape[1])
        right.plot(times[1:], np.median(one.distances, axis=0)[1:], color=colour, label=name)
        right.plot(times[1:], np.median(one.bounds, axis=0)[1:], ":", color=colour)
    left.set(xscale="log", yscale="log", xlabel="largest gradient error", ylabel="energy drift")
    right.set(yscale="log", xlabel="time", ylabel="distance from the true path; bound dotted")
    right.set_ylim(1e-6, 1e3)
    left.legend(frameon=False)
    drawing.tight_layout()
    return drawing
