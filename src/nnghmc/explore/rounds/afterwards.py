"""Examines the surrogate once more after the kept draws, which went further than the rounds."""

import numpy as np

from nnghmc.engine.session import Session
from nnghmc.explore.rounds.coverage import Coverage
from nnghmc.explore.rounds.examination import Agreement, Examination, learned_values, some
from nnghmc.explore.rounds.exploration import DRAWS
from nnghmc.explore.rounds.surrogate_chains import LEAST_CHAINS, SurrogateChains
from nnghmc.explore.rounds.truth import Truth
from nnghmc.kernels import Tuning
from nnghmc.model.posterior import Posterior
from nnghmc.surrogates.surrogate_posterior import SurrogatePosterior

DRAWS_TO_COMPARE = 256
"""Number of kept draws whose true potential is compared with the surrogate."""


def examine_afterwards(
    posterior: Posterior,
    surrogate: SurrogatePosterior,
    tuning: Tuning,
    draws: np.ndarray,
    potentials: np.ndarray,
    points: int,
    session: Session,
) -> tuple[Coverage, float] | None:
    """Return the coverage at the end, and the share of places that the surrogate closes off.

    After a request to stop there is nothing to return.

    Args:
        posterior: the posterior.
        surrogate: the surrogate posterior that made the draws.
        tuning: its tuning.
        draws: kept draws, shape (chains, draws, dim).
        potentials: their true potentials, shape (chains, draws).
        points: number of hot draws at which the truth is asked.
        session: the session.
    """
    typical = float(np.median(potentials))
    truth = Truth(
        surrogate.split, session, posterior.monitor.counts, phase="sample", typical=typical
    )
    flat = draws.reshape(-1, draws.shape[2])
    starts = np.resize(draws[:, -1], (max(LEAST_CHAINS, len(draws)), draws.shape[2]))
    matrix, step_size = np.asarray(tuning.inverse_mass_matrix), tuning.largest_step
    chains = SurrogateChains(session, starts, matrix, step_size, phase="sample")
    examination = Examination(truth, surrogate, chains, "afterwards")
    rows = some(np.arange(len(flat)), DRAWS_TO_COMPARE, examination.generator)
    inputs, exact = truth.inputs_and_exact(flat[rows])
    excess = potentials.ravel()[rows] - exact - learned_values(surrogate, inputs)
    agreement = Agreement.of(excess)
    hot = examination.hot_draws(DRAWS)
    if session.stopped:
        return None
    hot = some(hot, points, examination.generator)
    coverage = examination.coverage(truth.at(hot), agreement)
    return coverage, examination.look_outward(flat, agreement, to_the_end=True)
