"""Section 4.6: three regressions of UCI's, with 10, 15 and 20 % of the draws to learn from."""

from collections.abc import Callable
from dataclasses import dataclass

from nnghmc.paper.experiment import Result, Table
from nnghmc.paper.race import AS_THE_PAPER, CHAINS, Course, Draws, Race, Runner, paper_row
from nnghmc.paper.regressions import Regression, census_income, dota2, online_news
from nnghmc.surrogates import GradientMLP

SHARES = (0.10, 0.15, 0.20)
DRAWS = 5000


@dataclass(frozen=True)
class Case:
    """A data set, the tuning that makes standard HMC accept about 0.8, and speed-ups.

    `speed_up` is the paper's, `goal` what ours is to reach.
    """

    load: Callable[[], Regression]
    step_size: float
    speed_up: float
    goal: float
    most_steps: int = 20


CASES = {
    "Online News": Case(online_news, 0.0058, 4.27, 12),
    "Census Income": Case(census_income, 0.0085, 2.19, 8),
    "Dota2": Case(dota2, 0.0033, 5.44, 15),
}
SETTINGS = (
    "Logistic regressions with independent normal priors of variance 10; the chains start at draws "
    "of the normal approximation around the mode. The paper does not print its ε and L: L is 20 "
    "here, numbers of steps drawn up to it, and ε such that standard HMC accepts about 0.8. The "
    "paper's way: gradients of 10, 15 and 20 % as many draws as one chain of 5,000 has, 100 units, "
    "50 epochs."
)


def course(case: Case, share: float) -> Course:
    """With this share of the draws to learn from."""
    collected = int(share * DRAWS)
    return Course(
        step_size=case.step_size,
        most_steps=case.most_steps,
        draws=DRAWS,
        collected=collected,
        network=GradientMLP(100),
        epochs=50,
        quick=Draws(true=60, collected=collected, learned=500),
        warmup=20,
    )


def run(full: bool = False, seed: int = 0, progress: bool = True) -> Result:
    """A table for each data set."""
    told: list[str | Table] = [SETTINGS]
    for name, case in CASES.items():
        regression = case.load()
        found = one_race(case, regression, full, seed, progress)
        told += [
            found.table(
                f"{name}, {DRAWS:,} draws (table 5)", [paper_row(name, speed_up=case.speed_up)]
            ),
            found.verdict(case.speed_up, case.goal),
            regression.words,
        ]
    return Result([*told, found.remarks])


def one_race(
    case: Case, regression: Regression, full: bool, seed: int = 0, progress: bool = True
) -> Race:
    """Standard HMC, the paper's way with each share of draws to learn from, and our way."""
    about = regression.approximation()
    posterior, starts = regression.posterior(about.mean), about.draws(CHAINS, seed)
    runners = [
        Runner(posterior, course(case, share), starts, full, seed, progress) for share in SHARES
    ]
    learned = [
        runner.as_the_paper(f"{AS_THE_PAPER}, {share:.0%}")
        for runner, share in zip(runners, SHARES, strict=True)
    ]
    return Race((runners[0].standard(), *learned, runners[0].as_we_would()))
