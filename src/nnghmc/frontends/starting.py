"""Where the chains of a model start that names no initial point, or an unfortunate one."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from nnghmc.compilation import compiled
from nnghmc.errors import PosteriorError

ATTEMPTS = 20
RADIUS = 2.0


def starting_point(log_density: Callable[[PyTree], Array], suggested: PyTree) -> PyTree:
    """The likelier of a suggested point and zero, or else a random point, on the free scale.

    A model's own suggestion is far off where its priors are very wide, and zero is where they are
    far from zero. Value and gradient must be finite; where they are at neither of the two, points
    around zero are tried, the same in every run.
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
    """The log density, or minus infinity where it or its gradient is not finite."""
    value, gradient = _value_and_gradient(log_density, point, quick=True)
    finite = all(bool(jnp.all(jnp.isfinite(leaf))) for leaf in jax.tree.leaves((value, gradient)))
    return float(value) if finite else -np.inf


@compiled
def _value_and_gradient(
    log_density: Callable[[PyTree], Array], point: PyTree
) -> tuple[Array, PyTree]:
    return jax.value_and_grad(log_density)(point)
