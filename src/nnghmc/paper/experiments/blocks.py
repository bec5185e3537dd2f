"""Section 4.2: train one large, one small, and eight disjoint networks, as the paper remarks.

They learn from the gradients of 200 draws of the logistic regression of 50,000 × 200, which are the
paper's 4,000 training points. The default model is shown for comparison.
"""

import time

import jax
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from nnghmc import (
    BlockMLP,
    GradientData,
    GradientMLP,
    GradientModel,
    NNgHMC,
    QuadraticPlus,
    Surrogate,
    Training,
    TrainingSchedule,
    fit,
    plots,
)
from nnghmc.paper.experiment import Result, Table, whole_run
from nnghmc.paper.targets import logistic

STEP_SIZE, NUM_STEPS = 0.01, 20
CHAINS, WARMUP, DRAWS = 8, 40, 200
EPOCHS = 50
NETWORKS: dict[str, GradientModel] = {
    "one network of 400 units": GradientMLP(400),
    "one network of 50 units": GradientMLP(50),
    "8 disjoint networks of 50 units": BlockMLP(8, 50),
}


def run(full: bool = False, seed: int = 0, progress: bool = True) -> Result:
    """Collect gradients, and train the three networks and the default; quick equals full."""
    data = collect_gradients(seed=seed, progress=progress)
    training = Training(epochs=EPOCHS)
    fits = {name: _timed_fit(model, data, seed, training) for name, model in NETWORKS.items()}
    fits["the default"] = _timed_fit(QuadraticPlus(), data, seed, None)
    losses = figure({name: surrogate for name, (surrogate, _) in fits.items()})
    return Result([_table(fits), REMARK], {"loss-curves.png": losses})


def collect_gradients(
    rows: int = 50_000, columns: int = 200, seed: int = 0, progress: bool = True
) -> GradientData:
    """Return the gradients of 200 draws of standard HMC, in 8 chains, after warm-up."""
    method = NNgHMC(
        step_size=STEP_SIZE,
        num_steps=NUM_STEPS,
        warmup=WARMUP,
        network="quadratic",
        schedule=TrainingSchedule.once(DRAWS // CHAINS, probe_draws=1),
    )
    run = whole_run(logistic(rows, columns), 1, CHAINS, seed, method, progress=progress)
    assert run.gradient_data is not None  # the schedule collected it
    return run.gradient_data


def _timed_fit(
    model: GradientModel, data: GradientData, seed: int, training: Training | None
) -> tuple[Surrogate, float]:
    started = time.perf_counter()
    surrogate = fit(model, data, jax.random.key(seed), training)
    return surrogate, time.perf_counter() - started


def _table(fits: dict[str, tuple[Surrogate, float]]) -> Table:
    rows = [
        (
            name,
            f"{surrogate.report.losses[-1]:.3g}",
            f"{surrogate.report.held_out_error:.3f}",
            f"{seconds:.1f}",
        )
        for name, (surrogate, seconds) in fits.items()
    ]
    title = "Logistic regression, 50,000 × 200, gradients of 200 draws"
    return Table(title, ("", "last loss", "held-out error", "seconds"), rows)


REMARK = (
    "The loss is the mean squared error of the standardised gradient; for the default it is that "
    "of the part of the gradient that its quadratic leaves over. The held-out error is the error "
    "of the whole gradient, relative to its size, on trajectories that were not learned from. "
    "Seconds include compiling."
)


def figure(surrogates: dict[str, Surrogate]) -> Figure:
    """Draw the training loss of each network by epoch, and the held-out error of each model."""
    drawing, (curves, bars) = plt.subplots(1, 2, figsize=(11, 4), width_ratios=(3, 2))
    shown = {name: part for name, part in surrogates.items() if name in NETWORKS}
    for colour, (name, surrogate) in zip(plots.COLOURS, shown.items(), strict=False):
        losses = surrogate.report.losses
        curves.plot(np.arange(1, len(losses) + 1), losses, color=colour, label=name)
    curves.set(xlabel="epoch", ylabel="training loss", yscale="log")
    curves.legend(frameon=False)
    errors = [part.report.held_out_error for part in surrogates.values()]
    labels = [name.replace(" of ", "\nof ") for name in surrogates]
    bars.barh(labels, errors, color=plots.COLOURS[: len(errors)])
    bars.bar_label(bars.containers[0], fmt="%.3f", padding=3)
    bars.set(xlabel="held-out error of the gradient, relative", xlim=(0, 1.2 * max(errors)))
    bars.invert_yaxis()
    drawing.tight_layout()
    return drawing
