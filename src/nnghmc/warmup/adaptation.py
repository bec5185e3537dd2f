"""Step size and mass matrix, found on all chains together, a round of draws at a time."""

from dataclasses import dataclass, field

import jax.numpy as jnp
import numpy as np

from nnghmc.chains import History
from nnghmc.kernels.tuning import Tuning
from nnghmc.surrogates.gradient_data import GradientData

STRENGTH = 0.05
"""Of the pull towards the current matrix, in shares of a variance that is known."""
CHANGE = (0.01, 100.0)
"""The most that a curvature changes at once."""
FAR_TOO_MUCH, EARLY = 0.97, 10
"""In the early rounds such an acceptance doubles the step; later it is a matter of chance."""
LEFT_BEHIND = 0.3
"""A chain that accepts so much less than the others is in a narrow place, and its steps count."""
MOST_STEPS = 16
QUARTER_PERIOD = 1.6
"""In coordinates where the posterior is standard normal: so long a trajectory forgets its start."""


@dataclass
class Adaptation:
    """What the rounds so far say; every round has one acceptance rate, pooled over the chains."""

    step_size: float
    inverse_mass_matrix: np.ndarray
    target_acceptance: float = 0.8
    tried: list[float] = field(default_factory=list)

    def after(self, history: History) -> float:
        """Longer steps where more than enough were accepted, shorter ones where too few.

        The acceptance is returned, the mean, or little more than that of the chain that has the
        lowest: a sum over the whole round, since one over chunks would round differently, as the
        clock has it.
        """
        rates = history.stats["acceptance_rate"] if history.length else np.zeros((1, 1))
        acceptance = float(min(rates.mean(), rates.mean(axis=1).min() + LEFT_BEHIND))
        self.tried.append(self.step_size)
        change = 2.0 / np.sqrt(len(self.tried)) * (acceptance - self.target_acceptance)
        if acceptance > FAR_TOO_MUCH and len(self.tried) <= EARLY:
            change = np.log(2)
        self.step_size *= float(np.exp(np.clip(change, -1.5, 0.7)))
        return acceptance

    def rescale(self, inverse_mass_matrix: np.ndarray) -> None:
        """Take another diagonal matrix, with steps that are as long as before in the mean.

        Where the scales themselves are uncertain, as in a funnel, steps found with one matrix would
        be far too long, or too short, with the next.
        """
        ratio = np.exp(0.5 * np.mean(np.log(inverse_mass_matrix / self.inverse_mass_matrix)))
        self.inverse_mass_matrix = inverse_mass_matrix
        self.step_size = float(self.step_size / ratio)
        self.tried = [float(step / ratio) for step in self.tried]

    def settle(self) -> None:
        """The step size of the later rounds, averaged: that of the last is a matter of chance."""
        later = self.tried[len(self.tried) // 2 :]
        if later:
            self.step_size = float(np.exp(np.mean(np.log(later))))

    @property
    def dense_matrix(self) -> np.ndarray:
        """The inverse mass matrix as a square, whatever its form."""
        matrix = self.inverse_mass_matrix
        return np.diag(matrix) if matrix.ndim == 1 else matrix

    @property
    def tuning(self) -> Tuning:
        """Trajectories of about a quarter of a period, of a length that varies."""
        steps = int(np.clip(np.ceil(QUARTER_PERIOD / self.step_size), 2, MOST_STEPS))
        return as_tuning(self.step_size, (steps // 2, steps), self.inverse_mass_matrix)


def as_tuning(
    step_size: float, num_steps: tuple[int, int], inverse_mass_matrix: np.ndarray
) -> Tuning:
    """Always of the same types, so that nothing is compiled anew."""
    low, high = (jnp.asarray(max(1, int(number)), int) for number in num_steps)
    matrix = jnp.asarray(inverse_mass_matrix, float)
    return Tuning(jnp.asarray(step_size, float), (low, high), matrix)


def refined_inverse_mass_matrix(current: np.ndarray, data: GradientData) -> np.ndarray:
    """The covariance that positions and gradients of all chains speak of.

    In coordinates where the current matrix is the identity, the gradient is fitted by a symmetric
    linear map of the position that is drawn towards the identity: where the points say little, in
    directions hardly visited so far, the current matrix stands.
    """
    away = data.positions - data.positions.mean(axis=0)
    bend = data.gradients - data.gradients.mean(axis=0)
    if current.ndim == 1:
        slopes = (away * bend).mean(axis=0) + STRENGTH
        curvatures = slopes / ((away**2).mean(axis=0) / current + STRENGTH)
        return np.asarray(current / np.clip(curvatures, *CHANGE))
    root = np.linalg.cholesky(current)
    white, pulled = np.linalg.solve(root, away.T).T, bend @ root
    spreads, axes = np.linalg.eigh(white.T @ white / len(white))
    cross = axes.T @ (white.T @ pulled / len(white)) @ axes
    sides = spreads[:, np.newaxis] + spreads + 2 * STRENGTH
    fitted = (cross + cross.T + 2 * STRENGTH * np.eye(len(current))) / sides
    curvatures, turned = np.linalg.eigh(fitted)
    half = root @ axes @ turned / np.sqrt(np.clip(curvatures, *CHANGE))
    return np.asarray(half @ half.T)
