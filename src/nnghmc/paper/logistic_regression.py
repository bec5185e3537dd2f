"""Section 4.2: logistic regression of 50,000 × 200, standard HMC against NNgHMC."""

from nnghmc import plots
from nnghmc.paper.experiment import Result
from nnghmc.paper.race import Course, Draws, paper_row, race
from nnghmc.paper.targets import logistic
from nnghmc.surrogates import BlockMLP

COURSE = Course(
    step_size=0.01,
    most_steps=20,
    draws=1000,
    collected=400,
    network=BlockMLP(8, 50),
    quick=Draws(true=250, collected=400, learned=950),
    warmup=5,
)
SPEED_UP, GOAL = 4.5, 13
"""The paper's of NNgHMC, and what ours is to reach."""
PAPER = [
    paper_row("standard HMC", 0.8, 300, 1.5, 1.0),
    paper_row("NNgHMC", 0.6, 40, 6.75, SPEED_UP),
]
SETTINGS = (
    "Standard normal features, coefficients of standard deviation 0.6, so that standard HMC with "
    "ε = 0.01 and L = 20 accepts near the paper's 0.8, numbers of steps drawn up to L; prior "
    "variance 10; the chains start at the coefficients that made the labels. The paper's way: "
    "gradients of 400 draws, some 4,000 as in the paper, eight disjoint networks of 50 units, 50 "
    "epochs."
)
WHY = "The paper's standard HMC took 300 ms a draw, and ours takes a fraction of that."


def run(full: bool = False, seed: int = 0, progress: bool = True) -> Result:
    """The race, and marginals of the first coefficients."""
    found = race(logistic(), COURSE, full, seed, progress)
    table = found.table("Logistic regression, 50,000 × 200, 1,000 draws", PAPER)
    figures = {"logistic-marginals.png": plots.marginals(*found.runs)}
    return Result([SETTINGS, table, found.verdict(SPEED_UP, GOAL, WHY), found.remarks], figures)
