"""Time a leapfrog step along the default's learned gradient against a bare network of its width.

The bare network is two matrix products with an activation between them, W₂ φ(W₁ q), evaluated in a
loop with nothing around it: no biases, no quadratic part, no momentum. Short rounds alternate in
one process, since the machine is shared and its speed drifts; the ratio is that of the medians.

    python benchmarks/learned_step.py [--quick]
"""

import argparse
import statistics
import sys
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from blackjax.mcmc.integrators import IntegratorState
from blackjax.mcmc.metrics import default_metric

from nnghmc import GradientData, QuadraticPlus, fit
from nnghmc.kernels.leapfrog import gradient_alone, leapfrog
from nnghmc.surrogates.models.quadratic_plus import Sum
from report import publish, table

DIMENSIONS = (20, 200)
CHAINS = (1, 8, 64)
LIMIT = 1.5


def learned_gradient(dim):
    """Fit the default to a posterior that is not Gaussian, so that it keeps its network."""
    generator = np.random.default_rng(0)
    directions, _ = np.linalg.qr(generator.normal(size=(dim, 10)))
    positions = generator.normal(size=(20 * dim, dim))
    gradients = positions + 2 * np.tanh(3 * positions @ directions) @ directions.T
    learned = fit(
        QuadraticPlus(), GradientData.of_points(positions, gradients), jax.random.key(0)
    ).learned
    assert isinstance(learned, Sum), "the benchmark must measure the network too"
    return learned


@eqx.filter_jit
def leapfrog_steps(learned, positions, times):
    """Make so many leapfrog steps of all chains."""
    metric = default_metric(jnp.ones(positions.shape[1]))
    step = leapfrog(gradient_alone(learned.gradient), metric.kinetic_energy)

    def one_chain(position):
        unknown = jnp.asarray(jnp.nan)
        start = IntegratorState(position, position, unknown, -learned.gradient(position))
        return jax.lax.fori_loop(0, times, lambda _, state: step(state, 0.01), start).position

    return jax.vmap(one_chain)(positions)


@eqx.filter_jit
def bare_network(first, second, positions, times):
    """Evaluate W₂ φ(W₁ q) so many times, each time at the output of the last."""

    def one_chain(position):
        return jax.lax.fori_loop(0, times, lambda _, q: second @ jax.nn.silu(first @ q), position)

    return jax.vmap(one_chain)(positions)


def seconds_of(function, *arguments):
    started = time.perf_counter()
    jax.block_until_ready(function(*arguments))
    return time.perf_counter() - started


def measure(dim, chains, rounds):
    learned = learned_gradient(dim)
    width = learned.rest.layers.weights[0].shape[0]
    generator = np.random.default_rng(1)
    first = jnp.asarray(generator.normal(size=(width, dim)) / np.sqrt(dim))
    second = jnp.asarray(generator.normal(size=(dim, width)) / np.sqrt(width))
    positions = jnp.asarray(generator.normal(size=(chains, dim)))
    times = jnp.asarray(max(100, 5_000 // chains))
    ours, bare = (leapfrog_steps, learned), (bare_network, first, second)
    seconds = {name: [] for name in ("ours", "bare")}
    for attempt in range(rounds + 1):
        for name, (function, *weights) in {"ours": ours, "bare": bare}.items():
            taken = seconds_of(function, *weights, positions, times) / int(times)
            if attempt:  # the first one compiles
                seconds[name].append(taken)
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    ratio = medians["ours"] / medians["bare"]
    return {"dim": dim, "width": width, "chains": chains, **medians, "ratio": ratio}


def lines_of(rows):
    return [
        "Microseconds for all chains together, double precision; the median of many short rounds "
        "that alternate. Ours is a whole leapfrog step along the default's gradient: quadratic "
        "part, network of the width given, positions and momenta. The bare network is two matrix "
        "products with an activation between them, of the same width, and nothing else.",
        *table(
            ("dimensions", "width", "chains", "ours, µs", "bare, µs", "ratio"),
            [
                (
                    f"{row['dim']}",
                    f"{row['width']}",
                    f"{row['chains']}",
                    f"{1e6 * row['ours']:.1f}",
                    f"{1e6 * row['bare']:.1f}",
                    f"{row['ratio']:.2f}",
                )
                for row in rows
            ],
        ),
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds; prints, writes nothing")
    quick = parser.parse_args().quick
    rows = [measure(dim, chains, 9 if quick else 60) for dim in DIMENSIONS for chains in CHAINS]
    title = "One leapfrog step of the default against a bare network"
    publish("learned_step", title, lines_of(rows), quick=quick)
    if any(row["ratio"] > LIMIT for row in rows):
        sys.exit(f"a ratio is above {LIMIT}")


if __name__ == "__main__":
    main()
