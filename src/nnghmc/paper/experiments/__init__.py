"""The experiments that `nnghmc reproduce` runs, a file each."""

from collections.abc import Callable
from typing import NamedTuple

from nnghmc.paper import banana
from nnghmc.paper.experiment import Result
from nnghmc.paper.experiments import (
    bias,
    blocks,
    covertype,
    garch,
    gaussian,
    gaussian_process,
    logistic_regression,
    priors,
    surrogates,
    theory,
    uci,
)


class Experiment(NamedTuple):
    """An experiment of the paper.

    Attributes:
        shows: the section of the paper, and what is shown.
        quick: minutes that the quick form takes on two cores.
        full: minutes that the full form takes.
        run: runs it; takes whether the full form is wanted, a seed, and whether to show progress.
        data: the data sets that it needs.
    """

    shows: str
    quick: str
    full: str
    run: Callable[[bool, int, bool], Result]
    data: str = ""

    @property
    def words(self) -> str:
        """A line for the list of experiments."""
        needed = f"; needs {self.data}" if self.data else ""
        return f"{self.shows} (quick about {self.quick} min, full {self.full}{needed})"


EXPERIMENTS = {
    "banana": Experiment("section 4.1: the banana, its gradient learned", "1", "1", banana.run),
    "gaussian": Experiment("section 4.1: variances from 0.1 to 1000", "1", "1", gaussian.run),
    "logistic": Experiment(
        "section 4.2: logistic regression, 50,000 × 200", "2", "5", logistic_regression.run
    ),
    "priors": Experiment(
        "section 4.2: a gradient learned under one prior, reused under another",
        "2",
        "6",
        priors.run,
    ),
    "blocks": Experiment(
        "section 4.2: training loss of one large, one small and eight disjoint networks",
        "1",
        "1",
        blocks.run,
    ),
    "garch": Experiment("section 4.3, table 1: GARCH(2, 1)", "2", "2", garch.run),
    "gp": Experiment(
        "section 4.3, table 2: hyperparameters of a Gaussian process",
        "5",
        "350",
        gaussian_process.run,
    ),
    "covertype": Experiment(
        "section 4.4, table 3: Cover Type, and stochastic gradients",
        "8",
        "45",
        covertype.run,
        "Cover Type",
    ),
    "bias": Experiment(
        "section 4.4: the bias of stochastic gradients, against a grid", "1", "1", bias.run
    ),
    "surrogates": Experiment(
        "section 4.5, table 4: Gaussian process, network and default", "3", "3", surrogates.run
    ),
    "uci": Experiment(
        "section 4.6, table 5: Online News, Census Income, Dota2",
        "10",
        "70",
        uci.run,
        "Online News, Census Income, Dota2",
    ),
    "theory": Experiment(
        "section 3: energy, paths, volume and reversal in numbers", "1", "1", theory.run
    ),
}
