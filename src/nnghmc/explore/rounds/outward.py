"""Follows the true gradient outward from the edge of what was explored.

A surrogate that is wrong where none of its draws go cannot be found out by its draws, not even by
hot ones: along a curved ridge it may rise far too steeply. The true dynamics follow such a ridge.
Trajectories start from the outermost draws of the surrogate posterior, and the truth along them
tells whether the surrogate would keep the chains out of places where there is mass.
"""

from collections.abc import Callable

import numpy as np

from nnghmc.explore.nuts_warmup import coloured
from nnghmc.explore.rounds.truth import BATCH, Evaluated, Truth

MOST_STARTS, STARTS_PER_DIMENSION = 32, 2
"""Largest number of trajectories, and how many there are per dimension, in full batches."""
LENGTH = 1.6
"""Length of the trajectories; a standard normal has then forgotten its start."""
MOST_STEPS = 8
"""Largest number of leapfrog steps per trajectory."""
ENERGY = 4.0
"""Energy of the momenta that lead straight outward."""
RISE_THAT_MATTERS = 6.0
"""Rise of the potential above the typical set beyond which a place has too little mass to matter,
besides one standard deviation of the potential, by which the other coordinates make it vary."""
HIGH_RISE, TOLERATED_SHARE = 8.0, 0.2
"""Rise above the typical set from which on a surrogate may be wrong by more, and by which share of
the further rise. A surrogate that closes off a place is wrong by more than the rise itself. In many
dimensions, all potentials vary by so much that small relative errors come to more than a constant
tolerance."""
ENOUGH_TO_LEARN = 8
"""Number of points where the surrogate is too high after which there is no need to go on."""


def number_of_starts(dim: int) -> int:
    """Return how many trajectories there are in so many dimensions."""
    return min(MOST_STARTS, BATCH * int(np.ceil(STARTS_PER_DIMENSION * dim / BATCH)))


def outermost(coordinates: np.ndarray, number: int) -> np.ndarray:
    """Return rows that are far from the middle and from each other."""
    distances = np.linalg.norm(coordinates - np.median(coordinates, axis=0), axis=1)
    chosen: list[int] = []
    for _ in range(min(number, len(coordinates))):
        chosen.append(int(np.argmax(distances)))
        away = np.linalg.norm(coordinates - coordinates[chosen[-1]], axis=1)
        distances = np.minimum(distances, away)
    return np.array(chosen)


def outward_noise(
    generator: np.random.Generator, away: np.ndarray, temperature: float
) -> np.ndarray:
    """Return noise for momenta that point outward.

    Half of the momenta are random, at a temperature. The others lead away from the middle with the
    energy that it takes to go where hardly any mass is left. Across this direction they are random
    at a temperature of 1, so that the other coordinates stay where they are typical.

    Args:
        generator: random generator.
        away: whitened positions relative to the middle.
        temperature: temperature of the random momenta.
    """
    noise = generator.normal(size=away.shape)
    distances = np.maximum(np.linalg.norm(away, axis=1, keepdims=True), np.finfo(float).tiny)
    outward = away / distances
    along = np.sum(noise * outward, axis=1, keepdims=True)
    hot = np.sqrt(temperature) * (noise + (np.abs(along) - along) * outward)
    straight = noise + (np.sqrt(2 * ENERGY) - along) * outward
    return np.where(np.arange(len(away))[:, np.newaxis] % 2 == 0, hot, straight)


def follow_outward(
    truth: Truth,
    positions: np.ndarray,
    noise: np.ndarray,
    covariance: np.ndarray,
    step_size: float,
    is_enough: Callable[[Evaluated], bool] = lambda found: False,
) -> Evaluated:
    """Follow the true gradient from some positions, and return all points on the way.

    Args:
        truth: the truth, which keeps all points.
        positions: starts of the trajectories.
        noise: standard normal noise for their momenta, of the same shape.
        covariance: estimate of the posterior covariance, the inverse mass matrix, or its diagonal.
        step_size: leapfrog step size.
        is_enough: says of all points so far whether the trajectories may end early.
    """
    steps = int(np.clip(np.ceil(LENGTH / step_size), 1, MOST_STEPS))
    matrix = covariance if covariance.ndim == 2 else np.diag(covariance)
    velocities = coloured(noise, covariance)  # momenta have the inverse covariance
    found = truth.at(positions)
    points = [found]
    forces = truth.gradients_of_potential(found) @ matrix
    for _ in range(steps):
        velocities = velocities - 0.5 * step_size * forces
        positions = positions + step_size * velocities
        going_on = np.isfinite(positions).all(axis=1)
        positions = np.where(going_on[:, np.newaxis], positions, points[-1].positions)
        found = truth.at(positions)
        points.append(found)
        if truth.session.stopped or is_enough(Evaluated.concatenate(points)):
            break
        forces = np.nan_to_num(truth.gradients_of_potential(found)) @ matrix
        velocities = velocities - 0.5 * step_size * forces
    return Evaluated.concatenate(points)


def matters(potentials: np.ndarray, typical: float, dim: int) -> np.ndarray:
    """Return where potentials are low enough for a place to hold mass that matters.

    `typical` is the potential in the typical set.
    """
    return np.asarray(potentials < typical + np.sqrt(0.5 * dim) + RISE_THAT_MATTERS)


def are_closed_off(
    found: Evaluated, excess: np.ndarray, level: float, typical: float, tolerance: float
) -> np.ndarray:
    """Return which points the surrogate would close off although they have mass that matters.

    Args:
        found: what the truth says at the points.
        excess: true minus learned function at the points.
        level: excess in the typical set.
        typical: potential in the typical set.
        tolerance: error of the surrogate above which it counts as too high, up to `HIGH_RISE`.
    """
    potentials = np.where(found.is_finite, found.potentials, np.inf)
    have_mass = matters(potentials, typical, found.positions.shape[1])
    further = np.maximum(potentials - typical - HIGH_RISE, 0.0)
    return np.asarray(have_mass & (level - excess > tolerance + TOLERATED_SHARE * further))
