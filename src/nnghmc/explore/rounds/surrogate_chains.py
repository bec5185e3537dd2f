"""Chains of NUTS on the surrogate posterior, which take no true evaluation.

Their tuning goes on from one surrogate to the next. All draws go through the session, so that a
run that was stopped makes them again in the same way.
"""

from dataclasses import dataclass

import numpy as np

from nnghmc.engine.session import Session
from nnghmc.explore.adaptation import (
    as_tuning,
    fisher_inverse_mass_matrix,
    with_usable_gradients,
)
from nnghmc.kernels.leapfrog import Path
from nnghmc.kernels.nuts import NoUTurnState, SurrogateNoUTurn
from nnghmc.kernels.tuning import Tuning
from nnghmc.surrogates.data import GradientData
from nnghmc.surrogates.surrogate_posterior import SurrogatePosterior

LEAST_CHAINS = 8
"""Least number of chains on the surrogate posterior."""
ADAPTING = (15, 25)
"""Draws per chain of the windows after which the mass matrix is estimated."""
SETTLING = 20
"""Draws per chain of the last window that adapts, which adapts the step size alone."""
TARGET_ACCEPTANCE = 0.8
"""Acceptance that the step size is adapted to."""
DRAWS_TO_DIVERGE = 400
"""Draws per chain that show whether trajectories diverge, in few dimensions."""
SHORTENING, SHORTENINGS = 0.7, 5
"""Factor that shortens the step after a divergence, and how often it is applied."""
FEW_DIMENSIONS, LEAST_OF_MANY_DRAWS = 20, 40
"""In more dimensions than these, many draws take longer, and fewer are made, but not too few."""
LEAST_DRAWS = 8
"""Number of different draws below which the mass matrix stays as it is."""


@dataclass
class SurrogateChains:
    """Chains on the surrogate posterior, with the tuning that they share.

    Attributes:
        session: the session that makes the draws.
        positions: where the chains are, shape (chains, dim).
        inverse_mass_matrix: matrix, or its diagonal.
        step_size: step size of NUTS.
        diverged: whether a trajectory of the last draws diverged.
        steps_per_draw: mean number of leapfrog steps of the last draws.
        phase: phase of the run that the cost belongs to.
    """

    session: Session
    positions: np.ndarray
    inverse_mass_matrix: np.ndarray
    step_size: float
    diverged: bool = False
    steps_per_draw: float = 1.0
    phase: str = "collect"

    @property
    def tuning(self) -> Tuning:
        """The tuning of the chains; NUTS chooses the number of steps itself."""
        return as_tuning(self.step_size, (1, 1), self.inverse_mass_matrix)

    def adapt(self, surrogate: SurrogatePosterior, stream: str) -> None:
        """Make windows of draws that adapt step size and mass matrix to a surrogate posterior."""
        for number, size in enumerate((*ADAPTING, SETTLING)):
            kernel = SurrogateNoUTurn(
                surrogate.potential_and_gradient, self.tuning, TARGET_ACCEPTANCE
            )
            states, draws, gradients = self._advance(kernel, size, f"{stream}, window {number}")
            if self.session.stopped:
                return
            self.step_size = kernel.settled_step_size(states)
            self.positions = np.asarray(states.position)
            if number < len(ADAPTING):
                self._estimate_matrix(draws, gradients)

    def draw(
        self, surrogate: SurrogatePosterior, draws: int, stream: str, widen: float = 1.0
    ) -> np.ndarray:
        """Return draws of shape (chains, draws, dim), with the tuning as it is.

        `widen` is the factor by which the posterior variances are larger than those of the tuning.
        The chains stay where they are.
        """
        tuning = as_tuning(self.step_size, (1, 1), widen * self.inverse_mass_matrix)
        kernel = SurrogateNoUTurn(surrogate.potential_and_gradient, tuning)
        return self._advance(kernel, draws, stream)[1]

    def as_many_as(self, draws: int) -> int:
        """Return this number of draws, or fewer in many dimensions."""
        share = min(1.0, FEW_DIMENSIONS / self.positions.shape[1])
        return max(LEAST_OF_MANY_DRAWS, int(share * draws))

    def shorten_steps(self, surrogate: SurrogatePosterior) -> None:
        """Shorten the step until trajectories no longer diverge, as far as that helps."""
        for attempt in range(SHORTENINGS):
            number = self.as_many_as(DRAWS_TO_DIVERGE)
            self.draw(surrogate, number, f"divergences {attempt}")
            if not self.diverged or self.session.stopped:
                return
            self.step_size *= SHORTENING

    def _advance(
        self, kernel: SurrogateNoUTurn, size: int, stream: str
    ) -> tuple[NoUTurnState, np.ndarray, np.ndarray]:
        """Return the last states, the draws, and the learned gradients at them."""
        with self.session.timed(self.phase):
            states = self.session.begin(kernel, self.positions)
        gradients: list[np.ndarray] = []
        states, history = self.session.advance(
            self.phase,
            kernel,
            states,
            size,
            stream=stream,
            label="",
            on_chunk=lambda _, chunk: gradients.append(np.asarray(Path(*chunk.recorded).gradients)),
            quick=True,
            in_warmup=False,
        )
        if history.length:
            self.diverged = bool(history.stats["diverging"].any())
            self.steps_per_draw = float(history.stats["n_steps"].mean())
        if not gradients:
            return states, history.draws, history.draws
        return states, history.draws, np.concatenate(gradients)[:, :, 0].swapaxes(0, 1)

    def _estimate_matrix(self, draws: np.ndarray, gradients: np.ndarray) -> None:
        """Estimate the mass matrix from draws and learned gradients of a window."""
        dim = draws.shape[2]
        data = GradientData.of_points(draws.reshape(-1, dim), gradients.reshape(-1, dim))
        data = with_usable_gradients(data)
        if len(np.unique(data.positions[:, 0])) >= LEAST_DRAWS:
            self.inverse_mass_matrix = fisher_inverse_mass_matrix(self.inverse_mass_matrix, data)
