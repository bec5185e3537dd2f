"""Section 4.2: a logistic regression of 50,000 × 200, by standard HMC and by NNgHMC."""

from nnghmc import BlockMLP, plots
from nnghmc.paper.experiment import Result
from nnghmc.paper.race import Course, Draws, paper_row, race
from nnghmc.paper.targets import logistic

COURSE = Course(
    step_size=0.01,
    most_steps=20,
    draws=1000,
    collected=400,
    network=BlockMLP(8, 50),
    quick=Draws(true=250, collected=400, learned=950),
    warmup=5,
)
SPEED_UP = 4.5
"""The paper's speed-up of NNgHMC."""
PAPER = [
    paper_row("standard HMC", 0.8, 300, 1.5, 1.0),
    paper_row("NNgHMC", 0.6, 40, 6.75, SPEED_UP),
]
SETTINGS = (
    "The features are standard normal. The coefficients have standard deviation 0.6, so that "
    "standard HMC with ε = 0.01 and L = 20 accepts close to the paper's 0.8; the number of steps "
    "is uniform between 1 and L. The prior variance is 10, and the chains start at the "
    "coefficients that generated the labels. The paper's way: eight disjoint networks of 50 units "
    "learn for 50 epochs from the gradients of 400 draws, about 4,000 gradients as in the paper."
)
WHY = "The paper's standard HMC took 300 ms per draw, and ours takes a fraction of that."


def run(full: bool = False, seed: int = 0, progress: bool = True) -> Result:
    """Run the race, and draw the marginals of the first coefficients."""
    result = race(logistic(), COURSE, full, seed, progress)
    table = result.table("Logistic regression, 50,000 × 200, 1,000 draws", PAPER)
    figures = {"logistic-marginals.png": plots.marginals(*result.runs)}
    return Result([SETTINGS, table, result.verdict(SPEED_UP, WHY), result.remarks], figures)
