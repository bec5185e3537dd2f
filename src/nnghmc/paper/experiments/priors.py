"""Section 4.2: a gradient learned under one prior, reused under another with no new training."""

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from scipy import stats

from nnghmc import HMC, NNgHMC, Run, TrainingSchedule, diagnostics, plots
from nnghmc.paper.experiment import Result, Table, whole_run
from nnghmc.paper.targets import logistic

OLD_VARIANCE, NEW_VARIANCE = 10.0, 0.1
CHAINS, DRAWS, QUICK_DRAWS, WARMUP = 8, 250, 60, 40
TUNING: dict[str, Any] = {"step_size": 0.008, "num_steps": (5, 20), "warmup": WARMUP}
FALSE_ALARMS = 1e-3
SETTINGS = (
    "The logistic regression of 50,000 × 200. A gradient is learned under a prior of variance 10. "
    "Under a prior of variance 0.1 it is used again, with the difference of the prior gradients "
    "added and with no new training."
)


def run(full: bool = False, seed: int = 0, progress: bool = True) -> Result:
    """Learn under a prior of variance 10, reuse it under 0.1, and compare with standard HMC."""
    runs = four_runs(logistic, DRAWS if full else QUICK_DRAWS, seed, progress)
    return Result([SETTINGS, table(runs), agreement(runs)], {"priors.png": figure(runs)})


def four_runs(
    make_posterior: Any, draws: int, seed: int = 0, progress: bool = True, **tuning: Any
) -> dict[str, Run]:
    """Sample under both priors by both methods; under the new one NNgHMC reuses what it learned.

    Draws along a learned gradient are cheap, so NNgHMC makes four times as many as standard HMC.
    """
    old, new = (make_posterior(prior_variance=value) for value in (OLD_VARIANCE, NEW_VARIANCE))
    tuning = {**TUNING, **tuning}
    standard = HMC(**tuning)
    learning = NNgHMC(schedule=TrainingSchedule.once(25), **tuning)
    learned = whole_run(old, 4 * draws, CHAINS, seed, learning, progress=progress)
    assert learned.surrogate is not None  # a complete run has been trained
    reusing = NNgHMC(
        surrogate=learned.surrogate.with_prior(old, new),
        # The typical set under the old prior is elsewhere, which costs acceptance, not exactness.
        schedule=TrainingSchedule(tolerance=0.5),
        **tuning,
    )
    return {
        "old, HMC": whole_run(old, draws, CHAINS, seed + 1, standard, progress=progress),
        "old, NNgHMC": learned,
        "new, HMC": whole_run(new, draws, CHAINS, seed + 2, standard, progress=progress),
        "new, NNgHMC": whole_run(new, 4 * draws, CHAINS, seed + 3, reusing, progress=progress),
    }


def largest_z(first: Run, second: Run) -> tuple[float, float]:
    """Return the largest |z| of the differences of means and of standard deviations."""
    largest = []
    for statistic in (np.mean, np.std):
        values = [statistic(run.draws, axis=(0, 1)) for run in (first, second)]
        errors = [
            diagnostics.standard_errors(run.draws, statistic.__name__) for run in (first, second)
        ]
        z = (values[0] - values[1]) / np.hypot(*errors)
        largest.append(float(np.abs(z).max()))
    return largest[0], largest[1]


def bound(comparisons: int) -> float:
    """Return what the largest of so many |z| exceeds by chance once in a thousand times."""
    return float(stats.norm.isf(FALSE_ALARMS / 2 / comparisons))


def table(runs: dict[str, Run]) -> Table:
    """Return a table of acceptance, ESS and evaluations under both priors."""
    rows = []
    for name, run in runs.items():
        counts = (run.cost.total.true_gradients, run.cost.sample.true_potentials)
        numbers = (np.median(diagnostics.bulk_ess(run.draws)), *counts)
        rows.append((name, f"{run.acceptance:.2f}", *(f"{number:,.0f}" for number in numbers)))
    header = ("prior, method", "AP", "median ESS", "true gradients", "potentials, sampling")
    return Table("A gradient learned under the old prior, used under the new one", header, rows)


def agreement(runs: dict[str, Run]) -> str:
    """Say whether both methods agree under the new prior, and how far it is from the old one."""
    new_hmc, new_learned = runs["new, HMC"], runs["new, NNgHMC"]
    means, spreads = largest_z(new_hmc, new_learned)
    dim = new_hmc.dim
    moved = runs["old, HMC"].draws.mean(axis=(0, 1)) - new_hmc.draws.mean(axis=(0, 1))
    shift = np.abs(moved / new_hmc.draws.std(axis=(0, 1))).max()
    verdict = "agree" if max(means, spreads) < bound(2 * dim) else "do not agree"
    return (
        f"Under the new prior both methods {verdict}: the largest |z| of {dim} means is "
        f"{means:.2f} and that of {dim} standard deviations {spreads:.2f}; chance alone would "
        f"exceed {bound(2 * dim):.2f} once in a thousand times. "
        f"The prior moves the means by up to {shift:.2f} standard deviations."
    )


def figure(runs: dict[str, Run]) -> Figure:
    """Draw the two coefficients that the prior moves most, by prior and method."""
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
