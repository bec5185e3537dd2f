"""Compare NUTS and the automatic run on a regression where learning pays."""

from nnghmc import NUTS, Auto, Run
from nnghmc.paper.experiment import whole_run
from nnghmc.paper.targets import logistic

ROWS, COLUMNS = 15_000, 50
CHAINS = 4


def run_showcase(draws: int = 1000, seed: int = 0, progress: bool = True) -> tuple[Run, Run]:
    """Sample one posterior by NUTS and by the automatic run, with the same chains and draws."""
    posterior = logistic(ROWS, COLUMNS)
    by_nuts = whole_run(posterior, draws, CHAINS, seed, NUTS(), progress=progress)
    return by_nuts, whole_run(posterior, draws, CHAINS, seed, Auto(), progress=progress)
