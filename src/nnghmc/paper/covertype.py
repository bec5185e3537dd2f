"""Section 4.4: Cover Type with a Laplace prior, by HMC, NNgHMC and stochastic gradients."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from scipy import stats

from nnghmc import plots
from nnghmc.methods import MiniBatches
from nnghmc.paper.experiment import Result, Table
from nnghmc.paper.race import (
    AS_WE_WOULD,
    CHAINS,
    Course,
    Draws,
    Leg,
    Race,
    Runner,
    paper_row,
)
from nnghmc.paper.regressions import cover_type, laplace_log_prior
from nnghmc.run import Run
from nnghmc.surrogates import GradientMLP

COURSE = Course(
    step_size=0.001,
    most_steps=10,
    draws=2000,
    collected=800,
    network=GradientMLP(100),
    quick=Draws(true=250, collected=800, learned=250),
    warmup=5,
)
BATCH = 5000
CORRECTED = "SGHMC with Metropolis test"
MOVES = 0.05
"""The least acceptance of a chain that goes anywhere."""
SPEED_UP, GOAL = 5.77, 15
"""The paper's of NNgHMC, and what ours is to reach."""
PAPER = [
    paper_row("NNgHMC", speed_up=SPEED_UP),
    paper_row("corrected SGHMC", speed_up=3.64),
]
LEARNING_RATES = (5e-6, 5e-7, 5e-8)
"""η of SGHMC, whose step is √η; as in the paper."""
STEPS, WARMUP, LOST = 20, 50, 0.1
"""Steps and draws of SGHMC, and the share of its momentum that a step loses."""
SETTINGS = (
    "Laplace prior of scale 1; the chains start at draws of the normal approximation. ε = 0.001 "
    "and L = 10, numbers of steps drawn up to it, for SGHMC with a Metropolis test too, with "
    "mini-batches of 5,000 rows. The paper's way: gradients of 800 draws, 100 units, 50 epochs."
)
WHY = (
    "A draw of standard HMC takes as long as nine potentials, of which the paper's way needs one: "
    "nine is the most there is to gain, and what is collected and what is rejected take half of it."
)
NOISE = (
    "SGHMC with a Metropolis test hardly moves here: a gradient of 5,000 of the 581,012 rows has "
    "an error of some thousands in every coefficient, and ε times that, a few units at every step, "
    "is more than the whole momentum. How the paper's could be accepted is not known."
)


def run(full: bool = False, seed: int = 0, progress: bool = True) -> Result:
    """The race with corrected SGHMC in it, and the bias of SGHMC without correction."""
    regression = cover_type()
    about = regression.approximation()
    posterior = regression.posterior(about.mean, laplace_log_prior)
    starts = about.draws(CHAINS, seed)
    runner = Runner(posterior, COURSE, full, seed, progress, about.axes, starts)
    found = whole_race(runner)
    biased = stochastic_legs(runner, runner.made.learned)
    told: list[str | Table] = [
        f"{regression.words} {SETTINGS}",
        found.table("Cover Type, 2,000 draws (table 3)", PAPER),
        found.verdict(SPEED_UP, GOAL, WHY),
        *stuck(found[CORRECTED]),
        found.remarks,
        spreads_table(found, biased),
    ]
    figures = {
        "covertype-marginals.png": marginals_figure(found, biased),
        "covertype-traces.png": traces_figure(found),
    }
    return Result(told, figures)


def whole_race(runner: Runner) -> Race:
    """Standard HMC, SGHMC with a Metropolis test, and NNgHMC both ways."""
    corrected = runner.by(
        runner.made.learned,
        method="metropolis-sghmc",
        mini_batches=MiniBatches(size=BATCH),
        **runner.course.tuning,
    )
    return Race(
        (
            runner.standard(),
            runner.leg(CORRECTED, corrected, runner.course.draws),
            runner.as_the_paper(),
            runner.as_we_would(),
        )
    )


def stuck(run: Run) -> list[str]:
    """Why stochastic gradients lead nowhere, where they do."""
    return [NOISE] if run.acceptance < MOVES else []


def stochastic_legs(runner: Runner, draws: int) -> list[Leg]:
    """SGHMC with nothing to correct it, at each learning rate."""
    found = []
    for rate in LEARNING_RATES:
        step_size = float(np.sqrt(rate))
        run = runner.by(
            draws,
            method="sghmc",
            step_size=step_size,
            num_steps=STEPS,
            warmup=WARMUP,
            mini_batches=MiniBatches(size=BATCH, friction=LOST / step_size),
        )
        found.append(runner.leg(f"SGHMC, η = {rate:g}", run, draws))
    return found


def spreads_table(found: Race, biased: Sequence[Leg]) -> Table:
    """Standard deviations relative to those of our way, which has the most effective draws."""
    measure = found.leg(AS_WE_WOULD).looked_at.std(axis=(0, 1))
    rows = []
    for leg in (*found.legs, *biased):
        ratios = leg.looked_at.std(axis=(0, 1)) / measure
        shown = (f"{ratio:.2f}" for ratio in np.quantile(ratios, (0.1, 0.5, 0.9)))
        rows.append((leg.name, *shown, "yes" if leg.run.exact else "no"))
    title = f"Posterior standard deviations relative to those of {AS_WE_WOULD}"
    return Table(title, ("", "a tenth below", "median", "a tenth above", "exact"), rows)


def marginals_figure(found: Race, biased: Sequence[Leg], number: int = 3) -> Figure:
    """Marginals of the coefficients that are known best: exact methods that move, and SGHMC."""
    ours = found.leg(AS_WE_WOULD)
    measure = ours.run.draws.reshape(-1, ours.run.posterior.dim)
    chosen = np.argsort(measure.std(axis=0))[:number]
    drawing, axes = plt.subplots(2, number, figsize=(3.6 * number, 6), sharex="col")
    exact = [leg for leg in found.legs if not stuck(leg.run)]
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


def traces_figure(found: Race) -> Figure:
    """The first chain of each method, in the middle one of the directions by HMC's ESS."""
    sizes = found.legs[0].sizes
    middle = int(np.argsort(sizes)[len(sizes) // 2])
    drawing, axes = plt.subplots(
        len(found.legs), 1, figsize=(10, 1.7 * len(found.legs)), sharey=True
    )
    for axis, leg, colour in zip(axes, found.legs, plots.COLOURS, strict=False):
        axis.plot(leg.looked_at[0, :, middle], color=colour, linewidth=0.7)
        axis.set_title(leg.name, fontsize=9, loc="left")
    axes[-1].set_xlabel("draw, first chain")
    drawing.supylabel("direction of median ESS", fontsize=10)
    drawing.tight_layout()
    return drawing
