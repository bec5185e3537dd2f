"""Chooses where the chains start, and checks that the density is finite there."""

import warnings
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from nnghmc.engine.chunks import evaluate_all
from nnghmc.engine.events import Note
from nnghmc.engine.session import Session
from nnghmc.errors import PosteriorError, PrecisionWarning, SettingsError
from nnghmc.kernels.hmc import HMCState
from nnghmc.model.posterior import Posterior
from nnghmc.platform.precision import energy_noise

TRIES = 12
"""Largest number of times that a start that is no good moves halfway to the initial point."""
HIGHEST, STEEP_FALL = 1e12, 0.1
"""Potential above which a start is no good, if it falls below this share of itself halfway to the
initial point: then it is up a wall that rises like an exponential, where going downhill takes a
gradient for each factor of e."""


@dataclass(frozen=True)
class ChainStarts:
    """The starts of the chains of a run: the user's own, or points around the initial point.

    Attributes:
        posterior: the posterior to sample.
        chains: number of chains.
        given: unconstrained starts from the user, shape (chains, dim), or None to choose them.
    """

    posterior: Posterior
    chains: int
    given: Any = None

    def check(self) -> None:
        """Raise an error if the user's starts do not have the shape (chains, dim)."""
        if self.given is not None:
            _checked_positions(self.posterior.initial, self.given, self.chains)

    def at_initial(self, session: Session) -> HMCState:
        """Return the user's starts, or the initial point for every chain.

        It takes one gradient per chain.
        """
        with session.timed("warmup") as cost:
            positions = _checked_positions(self.posterior.initial, self.given, self.chains)
            found = evaluate_all(self.posterior.potential_and_gradient, positions)
            cost.true_gradients += self.chains
        states = HMCState(positions, *found)
        _check_finite(states)
        self._check(states, session)
        return states

    def spread(self, session: Session) -> HMCState:
        """Return the user's starts, or points drawn uniformly around the initial point.

        Each coordinate is within 1 of the initial one. A chain starts closer to the initial point
        if the density is zero, or absurdly small.
        """
        if self.given is not None:
            return self.at_initial(session)
        with session.timed("warmup") as cost:
            states, finite = self._around_initial(session)
            cost.true_gradients += self.chains
        if finite.all():
            self._check(states, session)
            return states
        moved = jnp.where(finite[:, np.newaxis], states.position, self.posterior.initial)
        return ChainStarts(self.posterior, self.chains, moved).at_initial(session)

    def _around_initial(self, session: Session) -> tuple[HMCState, np.ndarray]:
        """Return spread states, and a mask of chains whose density and gradient are finite."""
        initial = self.posterior.initial
        away = session.generator("start").uniform(-1.0, 1.0, size=(self.chains, *initial.shape))
        before = np.full(self.chains, np.inf)
        for _ in range(TRIES):
            positions = jnp.asarray(np.asarray(initial) + away, initial.dtype)
            found = evaluate_all(self.posterior.potential_and_gradient, positions, quick=True)
            states = HMCState(positions, *found)
            potentials, finite = np.asarray(states.potential), _is_finite(states)
            good = finite & ((potentials < HIGHEST) | (potentials > STEEP_FALL * before))
            if good.all():
                break
            before = potentials
            away = np.where(good[:, np.newaxis], away, away / 2)
        return states, finite

    def _check(self, states: HMCState, session: Session) -> None:
        """Raise an error for a constant density, and warn if rounding makes energies too coarse."""
        if not np.asarray(states.gradient).any():  # on the host: JAX would compile for it
            self._check_not_constant(np.asarray(states.potential))
        noise = energy_noise(states.potential, self.posterior.energy_precision)
        if noise is not None:
            note = Note("precision", *noise)
            session.record(note)
            warnings.warn(str(note), PrecisionWarning, stacklevel=2)

    def _check_not_constant(self, potentials: np.ndarray) -> None:
        """Raise an error if the density is constant around the initial point, too.

        A gradient of 0 at the starts alone does not show that: they may be at the mode.
        """
        initial = np.asarray(self.posterior.initial)
        away = np.random.default_rng(0).normal(size=(self.chains, *initial.shape))
        elsewhere = jnp.asarray(initial + away, self.posterior.initial.dtype)
        function = self.posterior.potential_and_gradient
        others, gradients = evaluate_all(function, elsewhere, quick=True)
        others, gradients = np.asarray(others), np.asarray(gradients)
        if not gradients.any() and np.all(others == potentials[0]):
            raise PosteriorError(
                "the log density must depend on the parameters, and this one is the same "
                f"everywhere, {-float(potentials[0]):.6g}: a constant has no posterior. Look for a "
                "factor of zero, or for integers where real numbers are meant."
            )


def _is_finite(states: HMCState) -> np.ndarray:
    """Return for each chain whether its density and gradient are finite."""
    return np.isfinite(states.potential) & np.isfinite(states.gradient).all(axis=1)


def _checked_positions(initial: Array, given: Any, num_chains: int) -> Array:
    """Return the starts of all chains, or raise an error if their shape is wrong."""
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
    """Raise an error that names the first chain whose density or gradient is not finite."""
    finite = _is_finite(states)
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
