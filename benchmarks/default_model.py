"""Compare gradient models over targets of different shape: why the default is the default.

Each target is run by standard HMC for a while, and every model learns from the same gradients. Its
acceptance is predicted from held-out trajectories, and then measured. The acceptance of the true
gradient is shown for comparison.

    python benchmarks/default_model.py [--quick]
"""

import argparse
import time
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from nnghmc import (
    HMC,
    BlockMLP,
    GradientMLP,
    NNgHMC,
    PotentialNet,
    Quadratic,
    QuadraticPlus,
    TrainingSchedule,
    assess,
    fit,
    from_log_density,
    sample,
)
from nnghmc.paper.targets import banana, gaussian, logistic
from report import publish, table

MODELS = {
    "default": QuadraticPlus(),
    "quadratic": Quadratic(),
    "quadratic + free field": QuadraticPlus(GradientMLP(256)),
    "quadratic + 64 × 64": QuadraticPlus(PotentialNet((64, 64), "silu")),
    "paper's network": GradientMLP(100),
    "8 blocks": BlockMLP(8, 50),
}
EASY = TrainingSchedule.once(1, tolerance=1.0, least_acceptance=0.0, probe_draws=1)


def skewed():
    rotation, _ = np.linalg.qr(np.random.default_rng(3).normal(size=(8, 8)))
    shapes = np.linspace(0.8, 3.0, 8)
    return from_log_density(
        lambda q: jnp.sum(shapes * (rotation @ q) - jnp.exp(rotation @ q)), np.zeros(8)
    )


def heavy_tailed():
    mixing = np.random.default_rng(4).normal(size=(10, 10)) / 3 + np.eye(10)
    return from_log_density(
        lambda q: -7.5 * jnp.log1p(jnp.sum((mixing @ q) ** 2) / 5), np.full(10, 0.1)
    )


class Target(NamedTuple):
    """A posterior, its tuning, and how long to warm up, collect and sample."""

    make: object
    step_size: float
    num_steps: object
    chains: int
    warmup: int
    collected: int
    draws: int
    other_tunings: tuple = ()


TARGETS = {
    "banana, 2": Target(banana, 0.1, 5, 4, 200, 250, 2000),
    "Gaussian, 30": Target(gaussian, 0.5, (1, 100), 4, 50, 25, 500),
    "skewed, 8": Target(skewed, 0.35, (3, 9), 4, 200, 100, 1000),
    "heavy tails, 10": Target(heavy_tailed, 0.25, (4, 12), 4, 200, 100, 1000),
    "logistic 150 × 20": Target(
        lambda: logistic(150, 20, spread=1.0), 0.15, (5, 15), 4, 200, 100, 1000
    ),
    "logistic 50,000 × 200": Target(logistic, 0.01, 20, 8, 40, 25, 100, ((0.005, 40),)),
}


def measure(name, target):
    posterior = target.make()
    tunings = ((target.step_size, target.num_steps), *target.other_tunings)
    collecting = NNgHMC(
        *tunings[0],
        warmup=target.warmup,
        network="quadratic",
        schedule=TrainingSchedule.once(target.collected, tolerance=1.0, probe_draws=1),
    )
    first = sample(posterior, 1, target.chains, method=collecting, progress=False)
    start = {"initial_positions": first.draws[:, -1], "progress": False}
    rows = []
    for step_size, num_steps in tunings:
        standard = HMC(step_size, num_steps, warmup=0)
        true = sample(posterior, target.draws // 2, target.chains, method=standard, **start)
        label = name if len(tunings) == 1 else f"{name}, ε {step_size}, L {num_steps}"
        rows.append({"target": label, "true": true.acceptance})
    for model_name, model in MODELS.items():
        if model_name == "8 blocks" and posterior.dim < 8:
            continue
        started = time.perf_counter()
        surrogate = fit(model, first.gradient_data, jax.random.key(0), layout=posterior.layout)
        seconds = time.perf_counter() - started
        for row, (step_size, num_steps) in zip(rows, tunings, strict=True):
            learned = NNgHMC(step_size, num_steps, warmup=0, surrogate=surrogate, schedule=EASY)
            run = sample(posterior, target.draws, target.chains, method=learned, **start)
            predicted = assess(surrogate, step_size, num_steps).predicted_acceptance
            row[model_name] = (run.acceptance, predicted, seconds, surrogate.report)
    return rows


def lines_of(rows):
    def cells(show):
        return [[show(row[model]) if model in row else "" for model in MODELS] for row in rows]

    seen = cells(lambda found: f"{found[0]:.2f} ({found[1]:.2f})")
    seconds = cells(lambda found: f"{found[2]:.1f}")
    targets = [row["target"] for row in rows]
    return [
        "Measured acceptance, and in brackets the acceptance that held-out trajectories predicted "
        "before the first learned draw. All models learn from the same gradients; the number after "
        "a target is its dimension.",
        *table(
            ("target", "true gradient", *MODELS),
            [(row["target"], f"{row['true']:.2f}", *s) for row, s in zip(rows, seen, strict=True)],
        ),
        "Seconds of the fit, compiling included:",
        *table(("target", *MODELS), [(name, *s) for name, s in zip(targets, seconds, strict=True)]),
        "Report of the default's fit:",
        "",
        *(f"- {row['target']}: {row['default'][3]}." for row in rows),
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small targets; writes nothing")
    quick = parser.parse_args().quick
    rows = []
    for name, target in TARGETS.items():
        if not (quick and name.startswith("logistic 50")):
            rows += measure(name, target)
            print(name, "done", flush=True)
    publish("default_model", "Gradient models side by side", lines_of(rows), quick=quick)


if __name__ == "__main__":
    main()
