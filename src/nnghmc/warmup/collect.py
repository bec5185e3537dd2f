"""Standard HMC that keeps the gradient of every leapfrog step of every chain."""

from collections.abc import Callable

import equinox as eqx
from jaxtyping import PRNGKeyArray

from nnghmc.chains import Draws, History, Supervision, each_chain, run_chains
from nnghmc.kernels import HMCState, Tuning, true_gradient_hmc
from nnghmc.kernels.leapfrog import Path
from nnghmc.posterior import PotentialAndGradientFn
from nnghmc.surrogates.gradient_data import GradientData


def collect(
    potential_and_gradient: PotentialAndGradientFn,
    tuning: Tuning,
    key: PRNGKeyArray,
    states: HMCState,
    draw_numbers: range,
    supervision: Supervision,
    keep: Callable[[GradientData], None],
    *,
    record_steps: int | None = None,
    quick: bool = False,
) -> tuple[HMCState, History]:
    """Make these draws with the true gradient, and pass the gradient data of each chunk on.

    `record_steps` are the rows kept for a trajectory, where tunings of different lengths shall
    share what is compiled.
    """

    def keep_path(first: int, draws: Draws) -> None:
        # Trajectories that diverged lead far away, and would set the scale of everything learned.
        num_steps = draws.info.num_integration_steps
        keep(GradientData.from_paths(*draws.info.path, num_steps, first, ~draws.info.is_divergent))

    rows = record_steps or tuning.most_steps
    algorithm = eqx.Partial(true_gradient_hmc, potential_and_gradient, record_steps=rows)
    return run_chains(
        each_chain(algorithm),
        tuning,
        key,
        states,
        draw_numbers,
        supervision,
        Path.num_rows(rows),
        keep_path,
        quick=quick,
    )
