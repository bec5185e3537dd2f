"""Where learning pays: a regression by NUTS and by the automatic run, whole runs, side by side."""

from nnghmc.paper.targets import logistic
from nnghmc.run import Run
from nnghmc.sampler import sample

ROWS, COLUMNS = 15_000, 50
CHAINS = 4


def run_showcase(draws: int = 1000, seed: int = 0, progress: bool = True) -> tuple[Run, Run]:
    """The same posterior, chains and draws, from the first compilation to the last draw."""
    posterior = logistic(ROWS, COLUMNS)
    by_nuts = sample(posterior, draws, CHAINS, seed, "nuts", progress=progress)
    return by_nuts, sample(posterior, draws, CHAINS, seed, progress=progress)
