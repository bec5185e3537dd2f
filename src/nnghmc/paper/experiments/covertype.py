"""Samples Cover Type with a Laplace prior by HMC, NNgHMC and stochastic gradients (section 4.4)."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from scipy import stats

from nnghmc import SGHMC, GradientMLP, MetropolisSGHMC, Run, plots
from nnghmc.paper.experiment import Result, Table
from nnghmc.paper.race import (
    CHAINS,
    OUR_WAY,
    Course,
    Draws,
    Leg,
    Race,
    Runner,
    paper_row,
)
from nnghmc.paper.regressions import cover_type, laplace_log_prior

COURSE = Course(
    step_size=0.001,
    most_steps=10,
    draws=2000,
    collected=800,
    network=GradientMLP(100),
    quick=Draws(true=250, collected=800, learned=250),
    warmup=5,
)
BATCH_SIZE = 5000
CORRECTED = "SGHMC with Metropolis test"
MOVES = 0.05
"""Acceptance below which chains hardly move."""
SPEED_UP = 5.77
"""The paper's speed-up of NNgHMC."""
PAPER = [
    paper_row("NNgHMC", speed_up=SPEED_UP),
    paper_row("corrected SGHMC", speed_up=3.64),
]
LEARNING_RATES = (5e-6, 5e-7, 5e-8)
"""The paper's values of η; the step size of SGHMC is √η."""
STEPS, WARMUP, LOST = 20, 50, 0.1
"""Steps per draw of SGHMC, its warm-up draws, and the share of momentum lost per step."""
SETTINGS = (
    "The prior is Laplace with scale 1; the chains start at draws of the normal approximation. "
    "ε = 0.001 and L = 10, and the number of steps is uniform between 1 and L; the same holds for "
    "SGHMC with a Metropolis test, whose mini-batches have 5,000 rows. The paper's way: a network "
    "of 100 units learns for 50 epochs from the gradients of 800 draws."
)
WHY = (
    "A draw of standard HMC takes as long as nine potentials, and one of the paper's way needs one "
    "potential: the speed-up can be nine at most, and collected and rejected draws cost half of it."
)
NOISE = (
    "SGHMC with a Metropolis test hardly moves here: a gradient from 5,000 of the 581,012 rows is "
    "off by some thousands in every coefficient, and ε times that, a few units per step, is more "
    "than the whole momentum. We do not know how the paper's proposals could be accepted."
)


def run(full: bool = False, seed: int = 0, progress: bool = True) -> Result:
    """Run the race with corrected SGHMC in it, and show the bias of SGHMC without correction."""
    regression = cover_type()
    about = regression.approximation()
    posterior = regression.posterior(about.mean, laplace_log_prior)
    starts = about.draws(CHAINS, seed)
    runner = Runner(posterior, COURSE, full, seed, progress, about.axes, starts)
    race = run_race(runner)
    biased = run_stochastic(runner, runner.numbers.learned)
    parts: list[str | Table] = [
        f"{regression.words} {SETTINGS}",
        race.table("Cover Type, 2,000 draws (table 3)", PAPER),
        race.verdict(SPEED_UP, WHY),
        *explain_low_acceptance(race[CORRECTED]),
        race.remarks,
        spreads_table(race, biased),
    ]
    figures = {
        "covertype-marginals.png": marginals_figure(race, biased),
        "covertype-traces.png": traces_figure(race),
    }
    return Result(parts, figures)


def run_race(runner: Runner) -> Race:
    """Run standard HMC, SGHMC with a Metropolis test, and NNgHMC the paper's way and our way."""
    method = MetropolisSGHMC(batch_size=BATCH_SIZE, **runner.course.tuning)
    corrected = runner.sample(runner.numbers.learned, method)
    return Race(
        (
            runner.run_standard(),
            runner.leg(CORRECTED, corrected, runner.course.draws),
            runner.run_papers_way(),
            runner.run_our_way(),
        )
    )


def explain_low_acceptance(run: Run) -> list[str]:
    """Return a paragraph on why stochastic gradients are rejected, if they are."""
    return [] if moves(run) else [NOISE]


def moves(run: Run) -> bool:
    """Tell whether the chains of a run move."""
    return not run.acceptance < MOVES


def run_stochastic(runner: Runner, draws: int) -> list[Leg]:
    """Run SGHMC without a Metropolis test at each learning rate."""
    legs = []
    for rate in LEARNING_RATES:
        step_size = float(np.sqrt(rate))
        method = SGHMC(
            step_size=step_size,
            num_steps=STEPS,
            warmup=WARMUP,
            batch_size=BATCH_SIZE,
            friction=LOST / step_size,
        )
        run = runner.sample(draws, method)
        legs.append(runner.leg(f"SGHMC, η = {rate:g}", run, draws))
    return legs


def spreads_table(race: Race, biased: Sequence[Leg]) -> Table:
    """Return standard deviations relative to those of our way, which has the largest ESS."""
    measure = race.leg(OUR_WAY).projections.std(axis=(0, 1))
    rows = []
    for leg in (*race.legs, *biased):
        ratios = leg.projections.std(axis=(0, 1)) / measure
        shown = (f"{ratio:.2f}" for ratio in np.quantile(ratios, (0.1, 0.5, 0.9)))
        rows.append((leg.name, *shown, "yes" if leg.run.exact else "no"))
    title = f"Posterior standard deviations relative to those of {OUR_WAY}"
    return Table(title, ("", "10 % quantile", "median", "90 % quantile", "exact"), rows)


def marginals_figure(race: Race, biased: Sequence[Leg], number: int = 3) -> Figure:
    """Draw marginals of the best known coefficients: exact methods that move, and SGHMC."""
    ours = race.leg(OUR_WAY)
    measure = ours.run.draws.reshape(-1, ours.run.dim)
    chosen = np.argsort(measure.std(axis=0))[:number]
    drawing, axes = plt.subplots(2, number, figsize=(3.6 * number, 6), sharex="col")
    exact = [leg for leg in race.legs if moves(leg.run)]
    for row, shown in zip(axes, (exact, [*biased, ours]), strict=True):
        for axis, coordinate in zip(row, chosen, strict=True):
            centre, width = measure[:, coordinate].mean(), 5 * measure[:, coordinate].std()
            grid = np.linspace(centre - width, centre + width, 300)
            for colour, leg in zip(plots.COLOURS, shown, strict=False):
                smooth = stats.gaussian_kde(leg.run.draws[:, :, coordinate].ravel())
                axis.plot(grid, smooth(grid), color=colour, label=leg.name, linewidth=1.1)
            axis.set(yticks=[], xlabel=f"coefficient {coordinate}")
            axis.locator_params(axis="x", nbins=4)
        row[0].set_ylabel("density")
        row[0].legend(frameon=False, fontsize=7, loc="upper left")
    drawing.tight_layout()
    return drawing


def traces_figure(race: Race) -> Figure:
    """Draw the first chain of each method, in the direction in which HMC has its median ESS."""
    sizes = race.legs[0].ess
    middle = int(np.argsort(sizes)[len(sizes) // 2])
    drawing, axes = plt.subplots(len(race.legs), 1, figsize=(10, 1.7 * len(race.legs)), sharey=True)
    for axis, leg, colour in zip(axes, race.legs, plots.COLOURS, strict=False):
        axis.plot(leg.projections[0, :, middle], color=colour, linewidth=0.7)
        axis.set_title(leg.name, fontsize=9, loc="left")
    axes[-1].set_xlabel("draw, first chain")
    drawing.supylabel("direction of median ESS", fontsize=10)
    drawing.tight_layout()
    return drawing
