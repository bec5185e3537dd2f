"""Coverage: how much of the posterior lies where the surrogate is wrong, by the truth itself.

Draws from the surrogate posterior at a temperature above 1 reach places where the surrogate says
that there is little. The truth is evaluated there. With importance weights, these draws stand for
the true posterior, also in tails that the chains on the surrogate hardly visit.
"""

from dataclasses import dataclass

import numpy as np

LEAST_TOLERANCE = 1.0
"""Difference between surrogate and true potential above which the surrogate counts as wrong, unless
it differs nearly as much everywhere: that lowers the acceptance, and closes off nothing."""
SPREADS = 3.0
"""Tolerance in standard deviations of the difference in the typical set."""
LARGEST_TEMPERATURE = 3.0
"""Temperature in one dimension; in more it is lower, so that the weights stay even."""


def hot_temperature(dim: int) -> float:
    """Return the temperature of the draws in so many dimensions.

    The variance of the log weights grows with the dimensions and with the square of the excess
    temperature. Their product is kept.
    """
    return float(1.0 + (LARGEST_TEMPERATURE - 1.0) / np.sqrt(dim))


def tolerance_for(spread: float) -> float:
    """Return the tolerance for a difference with this standard deviation in the typical set."""
    return max(LEAST_TOLERANCE, SPREADS * spread)


@dataclass(frozen=True)
class Coverage:
    """How much posterior mass lies where the surrogate is wrong, by importance sampling.

    Attributes:
        mass: estimated fraction of the posterior where the surrogate is off by more than the
            tolerance.
        error: Monte Carlo standard error of the fraction.
        effective_points: number of independent draws that the weighted points are worth.
        points: number of true evaluations behind the statement.
        temperature: temperature of the draws.
        tolerance: error of the surrogate potential above which it counts as wrong.
    """

    mass: float
    error: float
    effective_points: float
    points: int
    temperature: float
    tolerance: float

    @property
    def bound(self) -> float:
        """A bound that the mass hardly exceeds: two standard errors, and one point, above it."""
        return min(1.0, self.mass + 2 * self.error + 1 / max(self.points, 1))

    @classmethod
    def of(
        cls,
        excess: np.ndarray,
        learned: np.ndarray,
        level: float,
        temperature: float,
        tolerance: float = LEAST_TOLERANCE,
    ) -> "Coverage":
        """Return the coverage that hot draws show.

        Args:
            excess: true minus surrogate potential at the draws; not finite where there is no mass.
            learned: surrogate potential at the draws.
            level: excess in the typical set, since the surrogate is known up to a constant.
            temperature: temperature of the draws.
            tolerance: error above which the surrogate counts as wrong.
        """
        weights = importance_weights(excess, learned, temperature)
        wrong = ~(np.abs(excess - level) <= tolerance)
        mass = float(weights @ wrong)
        error = float(np.sqrt(weights**2 @ (wrong - mass) ** 2))
        effective = 1 / float(weights @ weights)
        return cls(mass, error, effective, len(excess), temperature, tolerance)


def importance_weights(excess: np.ndarray, learned: np.ndarray, temperature: float) -> np.ndarray:
    """Return weights, with a sum of 1, by which hot draws stand for the true posterior.

    Where no draw has a finite potential, all weigh the same.
    """
    log_weights = -excess - (1 - 1 / temperature) * learned
    log_weights = np.where(np.isfinite(log_weights), log_weights, -np.inf)
    if not np.isfinite(log_weights).any():
        return np.full(len(log_weights), 1 / len(log_weights))
    weights = np.exp(log_weights - log_weights.max())
    return np.asarray(weights / weights.sum())
