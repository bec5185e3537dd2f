"""Where the chains start, and whether a chain can start there."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from nnghmc.chains import evaluate_all
from nnghmc.errors import PosteriorError, SettingsError
from nnghmc.kernels.hmc import HMCState
from nnghmc.posterior import PotentialAndGradientFn

TRIES = 12


def start_chains(
    potential_and_gradient: PotentialAndGradientFn,
    initial: Float[Array, " dim"],
    initial_positions: Any,
    num_chains: int,
) -> HMCState:
    """The first state of every chain, with one true gradient each."""
    positions = _checked_positions(initial, initial_positions, num_chains)
    states = HMCState(positions, *evaluate_all(potential_and_gradient, positions))
    _check_finite(states)
    return states


def spread_starts(
    potential_and_gradient: PotentialAndGradientFn,
    initial: Float[Array, " dim"],
    initial_positions: Any,
    num_chains: int,
    key: PRNGKeyArray,
) -> HMCState:
    """Starts around the initial point, uniform within 1 of it, or those given.

    Where the density is not finite there, a chain starts closer to the initial point.
    """
    if initial_positions is not None:
        return start_chains(potential_and_gradient, initial, initial_positions, num_chains)
    generator = np.random.default_rng(np.asarray(jax.random.key_data(key)))  # nothing to compile
    away = generator.uniform(-1.0, 1.0, size=(num_chains, *initial.shape))
    for _ in range(TRIES):
        positions = jnp.asarray(np.asarray(initial) + away, initial.dtype)
        potentials, gradients = evaluate_all(potential_and_gradient, positions, quick=True)
        finite = np.isfinite(potentials) & np.isfinite(gradients).all(axis=1)
        if finite.all():
            break
        away = np.where(finite[:, np.newaxis], away, away / 2)
    if not finite.all():
        positions = jnp.where(finite[:, np.newaxis], positions, initial)
        return start_chains(potential_and_gradient, initial, positions, num_chains)
    return HMCState(positions, potentials, gradients)


def _checked_positions(initial: Array, given: Any, num_chains: int) -> Array:
    expected = (num_chains, *initial.shape)
    if given is None:
        return jnp.broadcast_to(initial, expected)
    try:
        positions = np.asarray(given, initial.dtype)
    except (TypeError, ValueError):
        positions = np.empty(0)
    if positions.shape != expected:
        raise SettingsError(
            f"initial_positions must be numbers of shape {expected} (chains, dimensions), "
            f"got {positions.shape if positions.size else given!r}."
        )
    return jnp.asarray(positions)


def _check_finite(states: HMCState) -> None:
    finite = np.isfinite(states.potential) & np.isfinite(states.gradient).all(axis=1)
    if finite.all():
        return
    chain = int(np.argmin(finite))
    potential = float(states.potential[chain])
    where = np.array2string(np.asarray(states.position[chain]), precision=4, threshold=6)
    if not np.isfinite(potential):
        problem = f"the log density is {-potential}"
    else:
        bad = np.flatnonzero(~np.isfinite(states.gradient[chain]))
        problem = f"the gradient is not finite in coordinate {bad[0]}"
    raise PosteriorError(
        f"the log density and its gradient must be finite where chains start, but at {where} "
        f"{problem}. Choose an initial point inside the support; look for infinite values in the "
        "data."
    )
