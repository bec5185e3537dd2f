"""Follows the true gradient outward from the edge of what was explored.

A surrogate that is wrong where none of its draws go cannot be found out by its draws, not even by
hot ones: along a curved ridge it may rise far too steeply. Walks start from the outermost draws of
the surrogate posterior, and follow the true dynamics, or the ridge. The truth along them tells
whether the surrogate would keep the chains out of places where there is mass.
"""

from collections.abc import Callable, Sequence

import numpy as np

from nnghmc.explore.nuts_warmup import coloured, coloured_transposed
from nnghmc.explore.rounds.truth import BATCH, Evaluated, Truth
from nnghmc.explore.rounds.walks import Ridges, Trajectories, Walks, covariances_around

MOST_STARTS, STARTS_PER_DIMENSION = 32, 2
"""Largest number of trajectories, and how many there are per dimension, in full batches."""
LENGTH = 1.6
"""Length of the trajectories; a standard normal has then forgotten its start."""
MOST_STEPS = 8
"""Largest number of steps per walk."""
MOST_DIMENSIONS_OF_RIDGES = 20
"""Number of dimensions up to which every other walk follows a ridge. In more of them, the way along
a ridge leads far below the typical set, where there is hardly any mass."""
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


def walks_outward(
    generator: np.random.Generator,
    draws: np.ndarray,
    starts: np.ndarray,
    step_size: float,
    temperature: float,
) -> tuple[Walks, ...]:
    """Return walks that lead outward from some of the draws, all in whitened coordinates.

    Every other walk follows the dynamics from a random momentum. The others follow ridges. In many
    dimensions draws do not tell what the posterior is like around one of them, and the others
    follow the dynamics with much energy, straight outward.
    """
    noise = outward_noise(generator, starts, temperature)
    steps = int(np.clip(np.ceil(LENGTH / step_size), 1, MOST_STEPS))
    if draws.shape[1] > MOST_DIMENSIONS_OF_RIDGES:
        return (Trajectories(starts, noise, step_size, steps),)
    by_dynamics, others = starts[::2], starts[1::2]
    ridges = Ridges(others, covariances_around(others, draws))
    return Trajectories(by_dynamics, noise[::2], step_size, steps), ridges


def follow_outward(
    truth: Truth,
    walks: Sequence[Walks],
    middle: np.ndarray,
    covariance: np.ndarray,
    is_enough: Callable[[Evaluated], bool] = lambda found: False,
) -> Evaluated:
    """Follow the true gradient along some walks, and return all points on the way.

    Args:
        truth: the truth, which keeps all points.
        walks: the walks, in whitened coordinates.
        middle: the position where these coordinates are zero.
        covariance: covariance that whitens, or its diagonal.
        is_enough: says of all points so far whether the walks may end early.
    """
    points: list[Evaluated] = []
    ends = np.cumsum([len(walk.positions) for walk in walks])[:-1]
    for _ in range(1 + MOST_STEPS):
        are_going = np.concatenate([walk.are_going for walk in walks])
        if not are_going.any():
            break
        white = np.concatenate([walk.positions for walk in walks])
        found = truth.at(middle + coloured(white[are_going], covariance))
        points.append(found)
        if truth.session.stopped or is_enough(Evaluated.concatenate(points)):
            break
        gradients = np.zeros_like(white)
        slopes = np.nan_to_num(truth.gradients_of_potential(found))
        with np.errstate(over="ignore", invalid="ignore"):
            gradients[are_going] = coloured_transposed(slopes, covariance)
        potentials = np.where(found.is_finite, found.potentials, np.inf)
        have_mass = np.full(len(white), False)
        have_mass[are_going] = matters(potentials, truth.typical_potential, white.shape[1])
        parts = (np.split(part, ends) for part in (gradients, have_mass))
        for walk, *told in zip(walks, *parts, strict=True):
            walk.advance(*told)
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
