"""Beyond the outermost draws: what mass is there, and would a learned gradient ever go there?

From the middle of the draws through the outermost of them, rays are followed somewhat further. The
potential rises along such a ray by so much, while the space out there grows with the power of the
dimension: the difference is the logarithm of how the mass falls off.
"""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from nnghmc.chains import evaluate_all
from nnghmc.posterior import PotentialFn
from nnghmc.surrogates import Learned

OUTERMOST = 32
FURTHER = 2.0
NEGLIGIBLE = 4.0
"""Mass that falls off by more than the exponential of this may be left out of a run."""
CLOSED_OFF = 1.5
"""A learned potential that rises by so much more than the true one keeps trajectories out."""


@dataclass(frozen=True)
class Rays:
    """Rises of the true potential beyond the outermost draws, and the dimension."""

    outer: np.ndarray
    further: np.ndarray
    rises: np.ndarray
    dim: int

    @property
    def index(self) -> float:
        """The ν of the Student distribution whose tails fall off like this; 2 has no variance."""
        return float(np.median(self.rises) / np.log(FURTHER) - self.dim)

    def closed_off(self, learned: Learned) -> bool:
        """Whether a learned potential keeps trajectories from mass that is not negligible."""
        if not learned.conservative:
            return False
        potentials = (
            np.asarray(evaluate_all(learned.potential, jnp.asarray(part), quick=True))
            for part in (self.outer, self.further)
        )
        before, after = potentials
        excess = (after - before) - self.rises
        falls_off = self.rises - self.dim * np.log(FURTHER)
        return bool(np.median(falls_off) < NEGLIGIBLE and np.median(excess) > CLOSED_OFF)


def follow_rays(potential: PotentialFn, draws: np.ndarray, potentials: np.ndarray) -> Rays:
    """From draws (chains, draws, dim) with their potentials (chains, draws)."""
    flat, known = draws.reshape(-1, draws.shape[2]), potentials.ravel()
    middle = np.median(flat, axis=0)
    outer = flat[np.argsort(known)[-OUTERMOST:]]
    further = middle + FURTHER * (outer - middle)
    ends = np.stack([outer, further]).reshape(-1, flat.shape[1])
    values = np.asarray(evaluate_all(potential, jnp.asarray(ends), quick=True))
    before, after = values.reshape(2, -1)
    rises = np.where(np.isfinite(after), after - before, np.inf)
    return Rays(outer, further, rises, flat.shape[1])
