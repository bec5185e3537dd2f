"""Measures how heavy the tails are, beyond the outermost draws.

Rays lead from the median of the draws through the outermost draws to twice that distance. Some rays
move along all coordinates. The others follow one coordinate, out of those with the most extreme
draws, and move the remaining ones as they move with it on average: one heavy tail would not show
beside the rise of the potential in all other coordinates. Along a ray the potential rises, while
the volume grows with a power of the distance: the dimension for rays along all coordinates, and 1
for the others. The difference is the logarithm of the factor by which the mass decays.
"""

from dataclasses import dataclass

import numpy as np

from nnghmc.engine.session import Session
from nnghmc.explore.collect import evaluate_in_batches
from nnghmc.model.posterior import PotentialAndGradientFn

MOST_RAYS = 32
"""Largest number of rays along all coordinates."""
MOST_COORDINATES = 8
"""Largest number of coordinates that have rays of their own."""
MOST_RAYS_PER_COORDINATE = 4
"""Largest number of rays along one coordinate."""
EXTENSION = 2.0
"""Distance from the median at which a ray ends, relative to the draw that it passes through."""
OUTLIER_DISTANCE = 5.0
"""Distance from the median, in median absolute deviations, beyond which a draw loses weight."""


@dataclass(frozen=True)
class Rays:
    """Rises of the true potential beyond the outermost draws.

    Attributes:
        outer: positions of the outermost draws that the rays pass through, shape (rays, dim).
        rises: rise of the potential along each ray, from the outermost draw to the end.
        groups: 0 for rays along all coordinates, and one positive number for each coordinate that
            has rays of its own.
        ends: the ends of the rays, of the same shape.
        evaluations: number of gradient evaluations.
    """

    outer: np.ndarray
    rises: np.ndarray
    groups: np.ndarray
    ends: np.ndarray
    evaluations: int

    @property
    def log_decay(self) -> np.ndarray:
        """Logarithm of the factor by which the mass decays along the rays of each group."""
        power = np.where(self.groups == 0, self.ends.shape[1], 1)  # of the growth of the volume
        return self._group_medians(self.rises - power * np.log(EXTENSION))

    @property
    def index(self) -> float:
        """Tail index: the ν of a Student's t with such tails, which has no variance if ν ≤ 2."""
        return float(self.log_decay.min() / np.log(EXTENSION))

    def _group_medians(self, values: np.ndarray) -> np.ndarray:
        """Return the median of each group of rays."""
        return np.array([np.median(values[self.groups == n]) for n in np.unique(self.groups)])


def follow_rays(
    potential_and_gradient: PotentialAndGradientFn,
    draws: np.ndarray,
    potentials: np.ndarray,
    session: Session,
) -> Rays:
    """Evaluate the true gradient at the ends of rays through the outermost draws.

    `draws` has the shape (chains, draws, dim), `potentials` the shape (chains, draws).
    """
    chains, _, dim = draws.shape
    flat, rows = np.unique(draws.reshape(-1, dim), axis=0, return_index=True)
    known = potentials.ravel()[rows]
    middle = np.median(flat, axis=0)
    chosen = [(np.argsort(known)[-_number_of_rays(MOST_RAYS, flat) :], flat - middle)]
    if dim > 1:
        chosen += _rays_of_coordinates(flat, middle)
    outer = np.concatenate([flat[rows] for rows, _ in chosen])
    ends = outer + (EXTENSION - 1) * np.concatenate([away[rows] for rows, away in chosen])
    sizes = [len(rows) for rows, _ in chosen]

    def evaluate(batch: np.ndarray) -> tuple[np.ndarray, ...]:
        return session.evaluate("ray", potential_and_gradient, batch)

    after, gradients, evaluations = evaluate_in_batches(evaluate, ends, chains)
    rises = after - np.concatenate([known[rows] for rows, _ in chosen])
    rises = np.where(np.isfinite(after) & np.isfinite(gradients).all(axis=1), rises, np.inf)
    return Rays(
        outer,
        rises,
        np.repeat(np.arange(len(chosen)), sizes),
        ends,
        evaluations,
    )


def _number_of_rays(most: int, draws: np.ndarray) -> int:
    """Return `most`, or a tenth of the draws if that is less: others are not outermost."""
    return int(np.clip(len(draws) // 10, min(2, len(draws)), most))


def _rays_of_coordinates(
    flat: np.ndarray, middle: np.ndarray
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return rays along single coordinates.

    Only the coordinates with the most extreme draws have rays. For each of them these are the rows
    of its outermost draws, and the vectors along the ray from the median to as far out as each draw
    is in this coordinate.
    """
    away = flat - middle
    spread = np.maximum(np.median(np.abs(away), axis=0), np.finfo(float).tiny)
    extreme = ((away / spread) ** 4).mean(axis=0)
    distance = np.abs(away / spread).max(axis=1) / OUTLIER_DISTANCE
    weights = 1 / np.maximum(distance, 1.0) ** 2  # so that no single draw decides the slopes
    rays = []
    for number in np.argsort(extreme)[-MOST_COORDINATES:]:
        weighted = weights * away[:, number]
        slopes = away.T @ weighted / (away[:, number] @ weighted)
        size = _number_of_rays(MOST_RAYS_PER_COORDINATE, flat)
        rows = np.argsort(np.abs(away[:, number]))[-size:]
        rays.append((rows, np.multiply.outer(away[:, number], slopes)))
    return rays
