"""Compare the sampling phase with its floor: the true potential evaluations timed alone.

The target is the 50,000 × 200 logistic regression, with 1 and with 8 chains. Rounds of floor and
sampling alternate in one process, since the machine is shared; the ratio is that of the medians. A
second part measures peak memory in fresh processes, for few and for many draws.

    python benchmarks/sampling_floor.py [--quick]
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp

from nnghmc import GradientMLP, NNgHMC, TrainingSchedule, sample
from nnghmc.paper.targets import logistic
from report import publish, table

STEP_SIZE, NUM_STEPS, HIDDEN = 0.01, 20, 100
LIMIT = 1.3


@eqx.filter_jit
def potentials_alone(potential, positions, times):
    """Evaluate the potential so many times for all chains, each time depending on the last."""

    def body(_, carry):
        positions, total = carry
        values = jax.vmap(potential)(positions)
        return positions + 1e-300 * values[:, None], total + values

    return jax.lax.fori_loop(0, times, body, (positions, jnp.zeros(len(positions))))[1]


def learned_run(posterior, chains, draws):
    """Run NNgHMC that hands over whatever its acceptance: its cost does not depend on it."""
    method = NNgHMC(
        step_size=STEP_SIZE,
        num_steps=NUM_STEPS,
        warmup=0,
        network=GradientMLP(HIDDEN),
        epochs=1,
        schedule=TrainingSchedule.once(3, tolerance=1.0, least_acceptance=0.0, probe_draws=1),
    )
    run = sample(posterior, draws, chains, method=method, progress=False)
    assert run.handed_over
    return run


def floor_seconds(posterior, chains, draws):
    positions = jnp.broadcast_to(posterior.initial, (chains, posterior.dim))
    started = time.perf_counter()
    potentials_alone(posterior.potential, positions, jnp.asarray(draws)).block_until_ready()
    return time.perf_counter() - started


def measure(posterior, chains, draws, rounds):
    floor_seconds(posterior, chains, 1)
    first = learned_run(posterior, chains, 1)
    floors, samples = [], []
    for _ in range(rounds):
        floors.append(floor_seconds(posterior, chains, draws))
        cost = learned_run(posterior, chains, draws).cost.sample
        samples.append(cost.seconds - cost.compile_seconds)
    return {
        "chains": chains,
        "floor": statistics.median(floors) / draws,
        "sample": statistics.median(samples) / draws,
        "ratio": statistics.median(samples) / statistics.median(floors),
        "compile": first.cost.total.compile_seconds,
    }


def memory_of(draws):
    """Return what `report_memory` prints in a fresh process."""
    output = subprocess.run(
        [sys.executable, __file__, "--memory", str(draws)],
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(output.stdout)


def report_memory(draws):
    """Print the memory in MB after a run of one draw, and the peak over a run of so many draws."""
    posterior = logistic()
    learned_run(posterior, 8, 1)
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts over
    before = _status("VmRSS")
    run = learned_run(posterior, 8, draws)
    kept = run.draws.nbytes + sum(values.nbytes for values in run.stats.values())
    print(json.dumps({"before": before, "peak": _status("VmHWM"), "kept": kept / 2**20}))


def _status(name):
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) / 1024
    raise KeyError(name)


def lines_of(rows, memory):
    return [
        f"Logistic regression, 50,000 × 200, double precision; L = {NUM_STEPS}, "
        f"h = {HIDDEN}. Milliseconds per draw (all chains together); the floor is the true "
        "potential evaluations timed alone, in a compiled loop. Compiling is that of all phases "
        "of a run, and not part of the other columns.",
        *table(
            ("chains", "floor, ms", "sampling, ms", "ratio", "compiling, s"),
            [
                (
                    f"{row['chains']}",
                    f"{1e3 * row['floor']:.2f}",
                    f"{1e3 * row['sample']:.2f}",
                    f"{row['ratio']:.2f}",
                    f"{row['compile']:.1f}",
                )
                for row in rows
            ],
        ),
        "Memory of a whole process with 8 chains (the data are 76 MB), after a first run that "
        "compiled everything, and its peak over a second one:",
        *table(
            ("draws per chain", "before, MB", "peak, MB", "growth, MB", "draws and statistics, MB"),
            [
                (
                    f"{draws:,}",
                    f"{found['before']:.0f}",
                    f"{found['peak']:.0f}",
                    f"{found['peak'] - found['before']:.0f}",
                    f"{found['kept']:.0f}",
                )
                for draws, found in memory.items()
            ],
        ),
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds; prints, writes nothing")
    parser.add_argument("--memory", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.memory:
        report_memory(arguments.memory)
        return
    rounds, draws, memory_draws = (
        (2, 50, (50, 500)) if arguments.quick else (7, 200, (200, 1000, 5000))
    )
    posterior = logistic()
    rows = [measure(posterior, chains, draws, rounds) for chains in (1, 8)]
    del posterior
    lines = lines_of(rows, {draws: memory_of(draws) for draws in memory_draws})
    title = "The sampling phase against its floor"
    publish("sampling_floor", title, lines, quick=arguments.quick)
    if any(row["ratio"] > LIMIT for row in rows):
        sys.exit(f"a ratio is above {LIMIT}")


if __name__ == "__main__":
    main()
