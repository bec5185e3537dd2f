"""Angles as points in the plane.

A density of an angle on the real line repeats itself for ever, and chains drift along it. As a
point in the plane, an angle has no ends and no copies. The distance of the point from the origin is
a variable of its own, with a fixed prior, and independent of everything else.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

SPREAD = 0.25
"""Standard deviation of the distance from the origin around 1, up to a factor of the distance."""


def as_points(angles: np.ndarray) -> np.ndarray:
    """Return the points of the unit circle at these angles; the last axis has two coordinates."""
    return np.stack([np.cos(angles), np.sin(angles)], axis=-1)


def angles_of(points: Float[Array, "*shape 2"]) -> Float[Array, "*shape"]:
    """Return the angles of points in the plane, between -π and π."""
    return jnp.arctan2(points[..., 1], points[..., 0])


def log_density_of_distances(points: Float[Array, "*shape 2"]) -> Float[Array, ""]:
    """Return the log density of the distances from the origin, per area of the plane.

    With respect to area, the density of a point is that of its angle times this factor. A distance
    r then has a density proportional to r exp(-(r - 1)² / (2 · 0.25²)).
    """
    squares = jnp.sum(points**2, axis=-1)
    distances = jnp.sqrt(squares)
    return -0.5 * jnp.sum(((distances - 1) / SPREAD) ** 2)
