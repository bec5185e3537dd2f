"""Standard HMC that keeps the gradient of every leapfrog step of every chain."""

import equinox as eqx
from jaxtyping import PRNGKeyArray

from nnghmc.chains import Draws, History, Supervision, run_chains
from nnghmc.kernels import HMCState, Tuning, true_gradient_hmc
from nnghmc.posterior import PotentialAndGradientFn
from nnghmc.surrogates.gradient_data import GradientData


def collect(
    potential_and_gradient: PotentialAndGradientFn,
    tuning: Tuning,
    key: PRNGKeyArray,
    states: HMCState,
    draw_numbers: range,
    supervision: Supervision,
) -> tuple[HMCState, History, list[GradientData]]:
    """Make these draws with the true gradient; the gradient data come in parts, a part a chunk."""
    parts: list[GradientData] = []

    def keep_path(first: int, draws: Draws) -> None:
        path = draws.info.path
        num_steps = draws.info.num_integration_steps
        parts.append(
            GradientData.from_paths(
                path.positions, path.potentials, path.gradients, num_steps, first
            )
        )

    rows = tuning.most_steps
    algorithm = eqx.Partial(true_gradient_hmc, potential_and_gradient, record_steps=rows)
    states, history = run_chains(
        algorithm, tuning, key, states, draw_numbers, supervision, rows, keep_path
    )
    return states, history, parts
