"""Measure what learning costs where it fails: the automatic run against NUTS from the start.

The posteriors have gradients that are hard to learn, or chains that do not agree. A large
regression with a negligible weight makes them expensive. Both runs are ours and whole; each is a
process of its own, and the two alternate.

    python benchmarks/falling_back.py [--quick]
"""

import argparse
import sys

import jax
import jax.numpy as jnp
import numpy as np

from nnghmc import Posterior, sample
from processes import in_a_process, tell
from report import publish, table
from targets import posterior_of

CHAINS, DRAWS, COLUMNS = 4, 1000, 100
ROWS = {"short": 6_000, "long": 20_000}


def student(q):
    return -7.5 * jnp.log1p(jnp.sum(q**2) / 5)


def two_modes(q):
    return jnp.logaddexp(-0.5 * jnp.sum((q - 6) ** 2), -0.5 * jnp.sum((q + 6) ** 2))


CENTRED = posterior_of("hierarchical")
HOSTILE = {
    "hierarchical": (lambda q: -CENTRED.potential(q), CENTRED.dim),
    "Student, 5 degrees of freedom": (student, 10),
    "two modes": (two_modes, 2),
}
"""Log densities and dimensions."""


def expensive(name, length):
    log_density, dim = HOSTILE[name]
    features = np.random.default_rng(0).normal(size=(ROWS[length], COLUMNS))

    def log_likelihood(q, features):
        return -1e-9 * jnp.sum(jax.nn.softplus(features @ jnp.resize(q, COLUMNS)))

    return Posterior(log_likelihood, log_density, features, np.zeros(dim))


def one_run(name, length, method):
    run = sample(expensive(name, length), DRAWS, CHAINS, method=method, progress=False)
    total = run.cost.total
    print(run, file=sys.stderr)
    tell([run.title, total.seconds, total.true_gradients, run.story[-1]])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="short runs alone; writes nothing")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        one_run(*arguments.one)
        return
    rows = []
    for length in ("short",) if arguments.quick else ROWS:
        for name in HOSTILE:
            nuts, auto = (in_a_process(__file__, name, length, m) for m in ("nuts", "auto"))
            ratio = f"{auto[1] / nuts[1]:.2f}"
            seconds = (f"{nuts[1]:.1f}", f"{auto[1]:.1f}", ratio)
            gradients = (f"{nuts[2]:,}", f"{auto[2]:,}", f"{auto[2] / nuts[2]:.2f}")
            rows.append((f"{name}, {ROWS[length]:,} rows", *seconds, *gradients, auto[3]))
            print(*rows[-1], flush=True)
    header = (
        "target", "NUTS, s", "automatic, s", "ratio", "NUTS, gradients", "automatic, gradients",
        "ratio", "how it ended",
    )  # fmt: skip
    lines = [
        f"{CHAINS} chains × {DRAWS:,} draws, whole runs.",
        *table(header, rows),
    ]
    publish("falling_back", "What learning costs where it fails", lines, quick=arguments.quick)


if __name__ == "__main__":
    main()
