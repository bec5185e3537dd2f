"""Beyond the outermost draws: what mass is there, and would a learned gradient ever go there?

Rays lead from the middle of the draws through the outermost of them, and somewhat further. Some
take all coordinates along. Others take one coordinate of those with the most extreme draws, and the
rest as it goes with that one on average: a single heavy tail is nothing beside the others' rise.
The potential rises along a ray by so much, while the space out there grows with the power of the
dimension, or of one: the difference is the logarithm of how the mass falls off.
"""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from nnghmc.chains import Supervision, evaluate_all, evaluate_recorded
from nnghmc.posterior import PotentialAndGradientFn
from nnghmc.surrogates import GradientData, Learned
from nnghmc.surrogates.learned import all_gradients

OUTERMOST = 32
COORDINATES, OUTERMOST_OF_ONE = 8, 4
FURTHER = 2.0
NEGLIGIBLE = 4.0
"""Mass that falls off by more than the exponential of this may be left out of a run."""
CLOSED_OFF = 1.5
"""A learned potential that rises by so much more than the true one keeps trajectories out."""
WITHIN_REACH = 10.0
"""Of the draws: rises beyond this lead to where nothing is worth learning."""
INNER = 5.0
NODES, WEIGHTS = np.polynomial.legendre.leggauss(8)


@dataclass(frozen=True)
class Rays:
    """Rises of the true potential beyond the outermost draws, and what it took to find them.

    Attributes:
        outer: where the rays pass the outermost draws, shape (rays, dim).
        rises: of the potential, from there to where they end.
        groups: 0 for those that take all coordinates along, the same number for the same one.
        met: potentials and gradients where they end.
        evaluations: of the gradient.
    """

    outer: np.ndarray
    rises: np.ndarray
    groups: np.ndarray
    met: GradientData
    evaluations: int

    @property
    def falls_off(self) -> np.ndarray:
        """The logarithm of how the mass falls off, for each group."""
        growth = np.where(self.groups == 0, self.met.dim, 1)  # powers, of the space along a ray
        return self._typical(self.rises - growth * np.log(FURTHER))

    @property
    def index(self) -> float:
        """The ν of the Student distribution whose tails fall off like this; 2 has no variance."""
        return float(self.falls_off.min() / np.log(FURTHER))

    @property
    def heavy(self) -> bool:
        """Whether the mass beyond the outermost draws is not negligible."""
        return bool(self.falls_off.min() < NEGLIGIBLE)

    def closed_off(self, learned: Learned) -> bool:
        """Whether a learned gradient keeps trajectories from mass that is not negligible.

        The rays that it may have learned from are not asked.
        """
        excess = self._typical(self._learned_rises(learned) - self.rises, ~self.to_learn_from)
        return bool(np.any((self.falls_off < NEGLIGIBLE) & (excess > CLOSED_OFF)))

    @property
    def to_learn_from(self) -> np.ndarray:
        """Which rays are: every other one."""
        return np.arange(len(self.rises)) % 2 == 1

    @property
    def lesson(self) -> GradientData:
        """What they met within reach of the draws."""
        return self.met.select(self.to_learn_from & (self.rises < WITHIN_REACH))

    def _learned_rises(self, learned: Learned) -> np.ndarray:
        """The work along the rays: it needs no potential, which not every model has."""
        along = self.met.positions - self.outer
        shares = (NODES + 1) / 2
        points = self.outer[:, np.newaxis] + shares[:, np.newaxis] * along[:, np.newaxis]
        gradients = all_gradients(learned, points.reshape(-1, along.shape[1]))
        pull = np.einsum("rnd,rd->rn", gradients.reshape(points.shape), along)
        return np.asarray(pull @ WEIGHTS / 2)

    def _typical(self, values: np.ndarray, of: np.ndarray | bool = True) -> np.ndarray:
        """The median over each group, of some rays or of all."""
        numbers = np.unique(self.groups)
        return np.array([np.median(values[(self.groups == number) & of]) for number in numbers])


def follow_rays(
    potential_and_gradient: PotentialAndGradientFn,
    draws: np.ndarray,
    potentials: np.ndarray,
    supervision: Supervision | None = None,
) -> Rays:
    """From draws (chains, draws, dim) with their potentials (chains, draws)."""
    chains, _, dim = draws.shape
    flat, rows = np.unique(draws.reshape(-1, dim), axis=0, return_index=True)
    known = potentials.ravel()[rows]
    middle = np.median(flat, axis=0)
    chosen = [(np.argsort(known)[-_few(OUTERMOST, flat) :], flat - middle)]
    if dim > 1:
        chosen += _rays_of_coordinates(flat, middle)
    outer = np.concatenate([flat[rows] for rows, _ in chosen])
    further = outer + (FURTHER - 1) * np.concatenate([away[rows] for rows, away in chosen])
    sizes = [len(rows) for rows, _ in chosen]
    after, gradients, evaluations = _in_batches(
        potential_and_gradient, further, chains, supervision
    )
    rises = after - np.concatenate([known[rows] for rows, _ in chosen])
    rises = np.where(np.isfinite(after) & np.isfinite(gradients).all(axis=1), rises, np.inf)
    return Rays(
        outer,
        rises,
        np.repeat(np.arange(len(chosen)), sizes),
        GradientData.of_points(further, gradients, after),
        evaluations,
    )


def _few(most: int, draws: np.ndarray) -> int:
    """So many, but a tenth of the draws at most, since others are not the outermost."""
    return int(np.clip(len(draws) // 10, min(2, len(draws)), most))


def _rays_of_coordinates(
    flat: np.ndarray, middle: np.ndarray
) -> list[tuple[np.ndarray, np.ndarray]]:
    """The outermost draws of some coordinates, and where every draw is on its coordinate's ray."""
    away = flat - middle
    spread = np.maximum(np.median(np.abs(away), axis=0), np.finfo(float).tiny)
    extreme = ((away / spread) ** 4).mean(axis=0)
    far = np.abs(away / spread).max(axis=1) / INNER
    weights = 1 / np.maximum(far, 1.0) ** 2  # so that no single draw decides the slopes
    rays = []
    for number in np.argsort(extreme)[-COORDINATES:]:
        weighted = weights * away[:, number]
        slopes = away.T @ weighted / (away[:, number] @ weighted)
        rows = np.argsort(np.abs(away[:, number]))[-_few(OUTERMOST_OF_ONE, flat) :]
        rays.append((rows, np.multiply.outer(away[:, number], slopes)))
    return rays


def _in_batches(
    potential_and_gradient: PotentialAndGradientFn,
    positions: np.ndarray,
    chains: int,
    supervision: Supervision | None,
) -> tuple[np.ndarray, np.ndarray, int]:
    """Potentials and gradients, as many at once as there are chains: that has been compiled."""
    evaluations = -(-len(positions) // chains) * chains
    batches = np.resize(positions, (evaluations, positions.shape[1])).reshape(
        -1, chains, positions.shape[1]
    )

    def evaluate(batch: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if supervision is None:
            return evaluate_all(potential_and_gradient, jnp.asarray(batch), quick=True)
        return evaluate_recorded(
            potential_and_gradient, jnp.asarray(batch), supervision, quick=True
        )

    found = [evaluate(batch) for batch in batches]
    potentials, gradients = (
        np.concatenate(part)[: len(positions)] for part in zip(*found, strict=True)
    )
    return potentials, gradients, evaluations
