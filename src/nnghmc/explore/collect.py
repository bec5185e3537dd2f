"""Collects true gradients: of every leapfrog step of standard HMC, or of any positions."""

from collections.abc import Callable
from typing import Any

import numpy as np

from nnghmc.engine.history import Draws, History
from nnghmc.engine.session import Session
from nnghmc.kernels import TrueGradientHMC, Tuning
from nnghmc.kernels.leapfrog import Path
from nnghmc.model.posterior import PotentialAndGradientFn
from nnghmc.surrogates.data import GradientData

Evaluate = Callable[[np.ndarray], tuple[np.ndarray, ...]]
"""Positions of all chains -> their potentials and gradients."""


def evaluate_in_batches(
    evaluate: Evaluate, positions: np.ndarray, chains: int
) -> tuple[np.ndarray, np.ndarray, int]:
    """Return potentials, gradients and the number of evaluations, which go in batches.

    A batch has as many positions as there are chains: that has been compiled before.
    """
    dim = positions.shape[1]
    evaluations = -(-len(positions) // chains) * chains
    batches = np.resize(positions, (evaluations, dim)).reshape(-1, chains, dim)
    potentials, gradients = (
        np.concatenate(part)[: len(positions)] for part in zip(*map(evaluate, batches), strict=True)
    )
    return potentials, gradients, evaluations


def collect(
    session: Session,
    phase: str,
    potential_and_gradient: PotentialAndGradientFn,
    tuning: Tuning,
    states: Any,
    draws: range,
    keep: Callable[[GradientData], None],
    *,
    record_steps: int | None = None,
    **options: Any,
) -> tuple[Any, History]:
    """Make draws along the true gradient, and call `keep` with the gradient data of each chunk.

    `record_steps` is the number of steps recorded per trajectory, by default the most that the
    tuning allows. Pass it so that tunings of different lengths share compiled code. `options` are
    those of `Session.advance`.
    """

    def keep_path(first: int, chunk: Draws) -> None:
        # Diverged trajectories end far away, and would dominate the scale of the gradient data.
        usable = ~np.asarray(chunk.statistics["diverging"])
        path = Path(*chunk.recorded)
        keep(GradientData.from_paths(*path, chunk.statistics["n_steps"], first, usable))

    kernel = TrueGradientHMC(potential_and_gradient, tuning, record_steps or tuning.most_steps)
    return session.advance(phase, kernel, states, draws, on_chunk=keep_path, **options)
