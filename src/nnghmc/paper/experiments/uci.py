"""Section 4.6: three regressions of UCI data, with 10, 15 and 20 % of the draws to learn from."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from nnghmc import BlockMLP, GradientMLP, GradientModel, Training
from nnghmc.paper.experiment import Result, Table
from nnghmc.paper.race import PAPER_TRAINING, PAPERS_WAY, Course, Draws, Race, Runner, paper_row
from nnghmc.paper.regressions import Regression, census_income, dota2, online_news

SHARES = (0.10, 0.15, 0.20)
DRAWS = 5000


@dataclass(frozen=True)
class Case:
    """A data set and how it is sampled.

    Attributes:
        load: reads the data.
        step_size: ε, with which standard HMC accepts about 0.8.
        speed_up: the paper's speed-up.
        network: the model that learns the gradients.
        training: how it is trained.
        most_steps: L.
    """

    load: Callable[[], Regression]
    step_size: float
    speed_up: float
    network: GradientModel = field(default_factory=lambda: GradientMLP(100))
    training: Training = PAPER_TRAINING
    most_steps: int = 20


SLOWLY = replace(PAPER_TRAINING, epochs=150, batch_size=64, learning_rate=0.003)
"""For data that say nothing about many directions: the network learns slowly to ignore them."""
CASES = {
    "Online News": Case(online_news, 0.0058, 4.27),
    "Census Income": Case(census_income, 0.0045, 2.19, BlockMLP(8, 50), SLOWLY),
    "Dota2": Case(dota2, 0.0033, 5.44, BlockMLP(8, 50)),
}
SETTINGS = (
    "Logistic regressions with independent normal priors of variance 10; the chains start at the "
    "mode. The paper does not print its ε and L: here L is 20, the number of steps is uniform "
    "between 1 and L, and ε is such that standard HMC accepts about 0.8. The paper's way: networks "
    "learn from the gradients of 10, 15 and 20 % as many draws as one chain of 5,000 has. Online "
    "News has one network of 100 units, the others have eight disjoint networks of 50 units. They "
    "learn for 50 epochs, for Census Income for 150 epochs with a smaller learning rate. In each "
    "data set some columns sum to a constant. Along such a direction the posterior is the prior, "
    "with a standard deviation of 3.2 compared to about 0.01 along the others, and coefficients of "
    "such a group mostly vary along it. We report ESS for principal directions, not for "
    "coefficients, so that the median is not that of these few directions, along which standard "
    "HMC hardly moves."
)


def course(case: Case, share: float) -> Course:
    """Return the paper's settings, with gradients collected during this fraction of the draws."""
    collected = int(share * DRAWS)
    return Course(
        step_size=case.step_size,
        most_steps=case.most_steps,
        draws=DRAWS,
        collected=collected,
        network=case.network,
        training=case.training,
        quick=Draws(true=100, collected=collected, learned=500),
        warmup=20,
    )


def run(full: bool = False, seed: int = 0, progress: bool = True) -> Result:
    """Run the race of each data set."""
    parts: list[str | Table] = [SETTINGS]
    for name, case in CASES.items():
        regression = case.load()
        race = run_race(case, regression, full, seed, progress)
        parts += [
            race.table(
                f"{name}, {DRAWS:,} draws (table 5)", [paper_row(name, speed_up=case.speed_up)]
            ),
            race.verdict(case.speed_up),
            regression.words,
        ]
    return Result([*parts, race.remarks])


def run_race(
    case: Case, regression: Regression, full: bool, seed: int = 0, progress: bool = True
) -> Race:
    """Run standard HMC, the paper's way with each share of draws to learn from, and our way."""
    about = regression.approximation()
    posterior = regression.posterior(about.mean)
    runners = [
        Runner(posterior, course(case, share), full, seed, progress, axes=about.axes)
        for share in SHARES
    ]
    learned = [
        runner.run_papers_way(f"{PAPERS_WAY}, {share:.0%}")
        for runner, share in zip(runners, SHARES, strict=True)
    ]
    return Race((runners[0].run_standard(), *learned, runners[0].run_our_way()))
