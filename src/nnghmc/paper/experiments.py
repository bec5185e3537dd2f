"""The experiments that `nnghmc reproduce` knows."""

from collections.abc import Callable
from typing import NamedTuple

from nnghmc.paper import bias, blocks, priors, surrogates
from nnghmc.paper.experiment import Result


class Experiment(NamedTuple):
    """What an experiment shows, how long it takes on two cores, and what runs it."""

    shows: str
    minutes: str
    run: Callable[[int, bool], Result]


EXPERIMENTS = {
    "surrogates": Experiment(
        "table 4: Gaussian process, network and default on a standard normal", "3", surrogates.run
    ),
    "blocks": Experiment(
        "section 4.2: training loss of one large, one small and eight disjoint networks",
        "2",
        blocks.run,
    ),
    "priors": Experiment(
        "section 4.2: a gradient learned under one prior, reused under another", "10", priors.run
    ),
    "bias": Experiment(
        "section 4.4: the bias of stochastic gradients without a Metropolis test", "1", bias.run
    ),
}
