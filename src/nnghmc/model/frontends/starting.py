"""Starting points for models that suggest no initial point, or a bad one."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from nnghmc.errors import PosteriorError
from nnghmc.platform.compilation import compiled

ATTEMPTS = 20
"""Number of random points that are tried."""
RADIUS = 2.0
"""Largest distance of a random point from zero in each coordinate, as in Stan."""


def starting_point(log_density: Callable[[PyTree], Array], suggested: PyTree) -> PyTree:
    """Return the suggested point or zero of the unconstrained scale, whichever is likelier.

    A model's own suggestion is a bad one where its priors are very wide, and zero is where they are
    far from zero. Value and gradient must be finite. Where they are at neither of the two, random
    points around zero are tried, which are the same in every run.
    """
    suggested = jax.tree.map(lambda leaf: jnp.asarray(leaf, float), suggested)
    zero = jax.tree.map(jnp.zeros_like, suggested)
    values = [_value(log_density, point) for point in (suggested, zero)]
    if max(values) > -np.inf:
        return suggested if values[0] >= values[1] else zero
    generator = np.random.default_rng(0)
    for _ in range(ATTEMPTS):
        point = jax.tree.map(
            lambda leaf: jnp.asarray(generator.uniform(-RADIUS, RADIUS, leaf.shape)), zero
        )
        if _value(log_density, point) > -np.inf:
            return point
    raise PosteriorError(
        "the model's log density and its gradient must be finite where chains start, and are not: "
        f"neither at its own initial point, nor at zero, nor at {ATTEMPTS} random points of the "
        "unconstrained scale. Look for data outside of what the model allows, such as NaN."
    )


def _value(log_density: Callable[[PyTree], Array], point: PyTree) -> float:
    """Return the log density, or minus infinity where it or its gradient is not finite."""
    value, gradient = _value_and_gradient(log_density, point, quick=True)
    finite = all(bool(jnp.all(jnp.isfinite(leaf))) for leaf in jax.tree.leaves((value, gradient)))
    return float(value) if finite else -np.inf


@compiled
def _value_and_gradient(
    log_density: Callable[[PyTree], Array], point: PyTree
) -> tuple[Array, PyTree]:
    return jax.value_and_grad(log_density)(point)
