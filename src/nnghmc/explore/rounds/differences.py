"""Lengths of gradient differences, which are parts of a posterior standard deviation.

The curvature that a difference finds says what the standard deviation is. A difference that turns
out to be too long is made again.
"""

import numpy as np

STEP = 0.3
"""Length of a difference, in standard deviations that the curvature along the input implies."""
LONGEST_STEP = 1.5
"""Length above which a difference is made again, in the same standard deviations."""
TRIES = 4
"""Largest number of times that a difference is made."""


def are_too_long(steps: np.ndarray, curvature: np.ndarray) -> np.ndarray:
    """Return which steps are too long for the curvatures that they found; NaN is too long."""
    return np.isnan(curvature) | (steps > LONGEST_STEP * _implied(curvature))


def better_steps(steps: np.ndarray, curvature: np.ndarray) -> np.ndarray:
    """Return the steps that the curvatures ask for; without curvature, shorter ones."""
    implied = _implied(curvature)
    return np.where(np.isfinite(implied), STEP * implied, 0.1 * steps)


def _implied(curvature: np.ndarray) -> np.ndarray:
    """Return the standard deviations that curvatures imply; NaN where they are not positive."""
    return np.asarray(1 / np.sqrt(np.where(curvature > 0, curvature, np.nan)))
