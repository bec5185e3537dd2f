"""Compare the automatic run with NUTS on a function outside JAX that takes 20 ms per call.

The function is a logistic regression in NumPy that sleeps, as if it waited for a simulator or a
remote service. All samplers have the same function, the same chains, each with a worker of its own,
and the same kept draws. Each run is a process of its own, timed from the first compilation to the
last draw, with warm-up, collecting and training. NumPyro has its users' thousand draws of warm-up,
and starts where ours does.

    python benchmarks/slow_function.py [--quick]
"""

import argparse
import sys
import time

import jax
import numpy as np

from nnghmc import diagnostics, from_callable, sample
from processes import in_a_process, tell
from report import publish, table

SECONDS, COEFFICIENTS, ROWS = 0.02, 10, 500
CHAINS, DRAWS, WARMUP = 4, 1000, 1000
CORRELATIONS = {"independent": 0.0, "correlated by 0.6": 0.6}
"""Correlations of the features: correlated ones need longer trajectories."""


def posterior(features):
    correlation = CORRELATIONS[features]
    normal = np.random.default_rng(0).normal(size=(ROWS, COEFFICIENTS + 1))
    x = np.sqrt(1 - correlation) * normal[:, 1:] + np.sqrt(correlation) * normal[:, :1]
    truth = np.linspace(-1, 1, COEFFICIENTS)
    y = np.random.default_rng(1).random(ROWS) < 1 / (1 + np.exp(-x @ truth))

    def slow_log_density(beta):
        time.sleep(SECONDS)
        logits = x @ beta
        return y @ logits - np.logaddexp(0, logits).sum() - beta @ beta / 2

    def slow_with_gradient(beta):
        errors = y - 0.5 - 0.5 * np.tanh(x @ beta / 2)
        return slow_log_density(beta), errors @ x - beta

    return from_callable(slow_with_gradient, COEFFICIENTS, value=slow_log_density, workers=CHAINS)


def ours(posterior, draws, method):
    run = sample(posterior, draws, CHAINS, method=method, progress=False)
    print(run, file=sys.stderr)
    return run.draws, run.cost.total.compile_seconds


def numpyro(posterior, draws):
    from numpyro.infer import MCMC, NUTS

    mcmc = MCMC(
        NUTS(potential_fn=lambda q: posterior.potential(q)),
        num_warmup=min(WARMUP, draws),
        num_samples=draws,
        num_chains=CHAINS,
        chain_method="vectorized",
        progress_bar=False,
    )
    starts = np.random.default_rng(0).uniform(-1, 1, size=(CHAINS, COEFFICIENTS))
    mcmc.run(jax.random.key(0), init_params=jax.numpy.asarray(starts))
    return np.asarray(mcmc.get_samples(group_by_chain=True)), float("nan")


SAMPLERS = {
    "nnghmc, automatic": lambda posterior, draws: ours(posterior, draws, "auto"),
    "nnghmc, NUTS": lambda posterior, draws: ours(posterior, draws, "nuts"),
    "NumPyro, NUTS": numpyro,
}


def one_run(features, name, draws):
    target = posterior(features)
    before = target.monitor.tally
    started = time.perf_counter()
    made, compiling = SAMPLERS[name](target, draws)
    seconds = time.perf_counter() - started
    calls = target.monitor.tally.since(before)
    judged = (diagnostics.bulk_ess(made).min(), diagnostics.rhat(made).max())
    tell([seconds, calls.potentials, calls.gradients, *judged, compiling])


def row(found, fastest):
    seconds, potentials, gradients, ess, worst, compiling = found
    floor = (potentials + gradients) * SECONDS / CHAINS
    return (
        f"{potentials:,}",
        f"{gradients:,}",
        f"{floor:.0f}",
        f"{seconds:.0f}",
        "" if np.isnan(compiling) else f"{compiling:.0f}",
        f"{seconds / floor:.2f}",
        f"{seconds / fastest[0]:.1f}",
        f"{ess:,.0f}",
        f"{ess / seconds:.2f}",
        f"{fastest[3] / fastest[0] * seconds / ess:.1f}",
        f"{worst:.3f}",
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of it; writes nothing")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        one_run(*arguments.one[:2], int(arguments.one[2]))
        return
    draws = DRAWS // 10 if arguments.quick else DRAWS
    rows = []
    for features in CORRELATIONS:
        found = {}
        for name in SAMPLERS:
            found[name] = in_a_process(__file__, features, name, draws)
            print(features, name, *found[name], flush=True)
        fastest = found["nnghmc, automatic"]
        rows += [(features, name, *row(made, fastest)) for name, made in found.items()]
    header = (
        "features", "sampler", "log densities", "gradients", "floor, s", "took, s",
        "compiling, s", "of the floor", "times as long", "lowest ESS", "ESS/s", "times as slow",
        "R-hat",
    )  # fmt: skip
    lines = [
        f"A logistic regression with {COEFFICIENTS} coefficients as a NumPy function that takes "
        f"{1000 * SECONDS:.0f} ms per call. {CHAINS} chains × {draws:,} draws, whole runs, "
        f"{CHAINS} workers (threads). The floor is the time of the calls alone. `times as "
        "slow` compares ESS/s of whole runs.",
        *table(header, rows),
    ]
    publish("slow_function", "A slow function outside JAX", lines, quick=arguments.quick)


if __name__ == "__main__":
    main()
