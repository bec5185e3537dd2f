"""Section 4.2: a gradient learned under one prior, reused under another with no new training."""

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from scipy import stats

from nnghmc import plots
from nnghmc.diagnostics import bulk_ess, standard_errors
from nnghmc.paper.experiment import Result, Table, whole_run
from nnghmc.paper.targets import logistic
from nnghmc.run import Run
from nnghmc.schedule import TrainingSchedule

OLD_VARIANCE, NEW_VARIANCE = 10.0, 0.1
CHAINS, DRAWS, QUICK_DRAWS, WARMUP = 8, 250, 60, 40
TUNING: dict[str, Any] = {"step_size": 0.008, "num_steps": (5, 20), "warmup": WARMUP}
FALSE_ALARMS = 1e-3
SETTINGS = (
    "The logistic regression of 50,000 × 200. A gradient is learned under a prior of variance 10, "
    "and under one of 0.1 it is used with the difference of the prior gradients added, with no new "
    "training."
)


def run(full: bool = False, seed: int = 0, progress: bool = True) -> Result:
    """Learn under variance 10; sample under 0.1 with what was learned, and by standard HMC."""
    runs = four_runs(logistic, DRAWS if full else QUICK_DRAWS, seed, progress)
    return Result([SETTINGS, table(runs), agreement(runs)], {"priors.png": figure(runs)})


def four_runs(
    make_posterior: Any, draws: int, seed: int = 0, progress: bool = True, **tuning: Any
) -> dict[str, Run]:
    """Both priors by both methods; under the new prior NNgHMC is given what it learned before.

    Draws with a learned gradient are cheap, and it makes four times as many.
    """
    old, new = (make_posterior(prior_variance=value) for value in (OLD_VARIANCE, NEW_VARIANCE))
    settings = {**TUNING, **tuning, "progress": progress}
    schedule = TrainingSchedule.once(25)
    learned = whole_run(old, 4 * draws, CHAINS, seed, schedule=schedule, **settings)
    assert learned.surrogate is not None
    moved = learned.surrogate.with_prior(old, new)
    return {
        "old, HMC": whole_run(old, draws, CHAINS, seed + 1, "hmc", **settings),
        "old, NNgHMC": learned,
        "new, HMC": whole_run(new, draws, CHAINS, seed + 2, "hmc", **settings),
        "new, NNgHMC": whole_run(
            new,
            4 * draws,
            CHAINS,
            seed + 3,
            surrogate=moved,
            # The old prior's bulk is elsewhere, and acceptance lower there; the draws stay exact.
            schedule=TrainingSchedule(tolerance=0.5),
            **settings,
        ),
    }


def largest_z(first: Run, second: Run) -> tuple[float, float]:
    """The largest difference of means and of standard deviations, in units of their error."""
    found = []
    for statistic in (np.mean, np.std):
        values = [statistic(run.draws, axis=(0, 1)) for run in (first, second)]
        errors = [standard_errors(run.draws, statistic.__name__) for run in (first, second)]
        z = (values[0] - values[1]) / np.hypot(*errors)
        found.append(float(np.abs(z).max()))
    return found[0], found[1]


def bound(comparisons: int) -> float:
    """What the largest of so many |z| exceeds by chance once in a thousand times."""
    return float(stats.norm.isf(FALSE_ALARMS / 2 / comparisons))


def table(runs: dict[str, Run]) -> Table:
    """Acceptance, ESS and what was evaluated, under both priors."""
    rows = []
    for name, made in runs.items():
        cost = made.cost
        counts = (cost.total.true_gradients, cost.sample.true_potentials)
        numbers = (np.median(bulk_ess(made.draws)), *counts)
        rows.append((name, f"{made.acceptance:.2f}", *(f"{number:,.0f}" for number in numbers)))
    header = ("prior, method", "AP", "median ESS", "true gradients", "potentials, sampling")
    return Table("A gradient learned under the old prior, used under the new one", header, rows)


def agreement(runs: dict[str, Run]) -> str:
    """Whether both methods find the same under the new prior, and how far that is from the old."""
    new_hmc, new_learned = runs["new, HMC"], runs["new, NNgHMC"]
    means, spreads = largest_z(new_hmc, new_learned)
    dim = new_hmc.posterior.dim
    moved = runs["old, HMC"].draws.mean(axis=(0, 1)) - new_hmc.draws.mean(axis=(0, 1))
    shift = np.abs(moved / new_hmc.draws.std(axis=(0, 1))).max()
    verdict = "agree" if max(means, spreads) < bound(2 * dim) else "do not agree"
    return (
        f"Under the new prior both methods {verdict}: the largest |z| of {dim} means is "
        f"{means:.2f}, of {dim} standard deviations {spreads:.2f}, to be expected below "
        f"{bound(2 * dim):.2f}. "
        f"The prior moves the means by up to {shift:.2f} standard deviations."
    )


def figure(runs: dict[str, Run]) -> Figure:
    """Four clouds: the two coefficients that the prior moves most, by prior and method."""
    drawing, axes = plt.subplots(1, 2, figsize=(10, 4.4), sharex=True, sharey=True)
    shift = (runs["old, HMC"].draws - runs["new, HMC"].draws).mean(axis=(0, 1))
    first, second = np.argsort(-np.abs(shift))[:2]
    for axis, method in zip(axes, ("HMC", "NNgHMC"), strict=True):
        for prior, colour in zip(("old", "new"), plots.COLOURS, strict=False):
            points = runs[f"{prior}, {method}"].draws[:, :, [first, second]]
            plots.draw_points(axis, points, colour, most=2000)
            variance = OLD_VARIANCE if prior == "old" else NEW_VARIANCE
            axis.plot([], [], ".", color=colour, label=f"prior variance {variance:g}")
        axis.set(title=f"{'standard ' if method == 'HMC' else ''}{method}")
        axis.set_xlabel(f"coefficient {first}")
        axis.legend(frameon=False)
    axes[0].set_ylabel(f"coefficient {second}")
    drawing.tight_layout()
    return drawing
