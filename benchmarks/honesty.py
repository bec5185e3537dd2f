"""Is a run without a note right? Over many posteriors of different kinds, against known answers.

Each run is an automatic one, told that the function is expensive, so that it learns wherever it
can. A run is wrong if a mean or a standard deviation differs from the known one by more than Monte
Carlo error, with a bound that accounts for the number of all comparisons. What matters is that no
run is wrong without a note.

Measurements are stored in output/honesty, so that hours of them can be made in parts: a run whose
file exists is not made again.

    python benchmarks/honesty.py [--quick] [--only TARGET ...] [--seeds N] [--jobs N]
    python benchmarks/honesty.py --references    # make the long reference runs
"""

import argparse
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from scipy import stats

from honest_targets import LONG_RUNS, NAMES, REFERENCES, errors, known
from nnghmc import NUTS, Auto, Estimate, diagnostics, sample
from processes import fingerprint, in_a_process, tell
from report import file_name, publish, table

KEPT = Path(__file__).parents[1] / "output" / "honesty"
CHAINS, DRAWS, SEEDS = 4, 1000, 8
EXPENSIVE = Auto(estimate=Estimate(CHAINS, DRAWS, 3e-3, 120.0, 15.0))
"""As if a gradient of all chains took three milliseconds."""
FALSE_ALARMS = 0.01
"""Probability that one of all comparisons is called wrong by chance."""
QUICK = ("log gamma, 3", "banana", "two modes, 0.5 at 4", "random intercepts, non-centred")


def z_scores(name, draws):
    """Return the differences from what is known, in Monte Carlo errors; NaN is not judged."""
    target, (mean_error, sd_error) = known(name), errors(name)
    flat = draws.reshape(-1, draws.shape[2])
    of_means = np.hypot(diagnostics.standard_errors(draws), mean_error)
    of_sds = np.hypot(diagnostics.standard_errors(draws, "std"), sd_error)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.concatenate(
            [(flat.mean(axis=0) - target.mean) / of_means, (flat.std(axis=0) - target.sd) / of_sds]
        )


def one_run(name, seed):
    started = time.perf_counter()
    run = sample(known(name).posterior, DRAWS, CHAINS, seed, EXPENSIVE, progress=False)
    tell(
        {
            "seconds": time.perf_counter() - started,
            "z": [float(z) for z in z_scores(name, run.draws)],
            "notes": [note.kind for note in run.notes],
            "learned": run.handed_over,
            "gradients": run.cost.total.true_gradients,
            "must be noted": bool(np.isnan(known(name).sd).all()),
        }
    )


def made_or_kept(name, seed):
    """Make a run in a process of its own, unless its file exists; return what was measured."""
    path = KEPT / f"{file_name(name)} {seed} {fingerprint()}.json"
    if not path.exists():
        KEPT.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(in_a_process(__file__, name, seed)))
    run = json.loads(path.read_text())
    print(
        name,
        seed,
        f"{run['seconds']:.1f} s",
        "learned" if run["learned"] else "NUTS",
        f"{run['gradients']:,}",
        f"z {np.nanmax(np.abs(run['z']), initial=0):.1f}",
        run["notes"],
        flush=True,
    )
    return run


def make_references():
    """Make long runs of NUTS, and write their moments."""
    found = json.loads(REFERENCES.read_text()) if REFERENCES.exists() else {}
    for name, make in LONG_RUNS.items():
        if name in found:
            continue
        run = sample(make(), 20_000, 8, 12345, NUTS(target_acceptance=0.98), progress=False)
        flat = run.draws.reshape(-1, run.draws.shape[2])
        found[name] = {
            "mean": flat.mean(axis=0).tolist(),
            "sd": flat.std(axis=0).tolist(),
            "mean_error": diagnostics.standard_errors(run.draws).tolist(),
            "sd_error": diagnostics.standard_errors(run.draws, "std").tolist(),
            "rhat": float(run.convergence.rhat.max()),
            "divergences": run.divergences,
        }
        print(name, run.convergence.rhat.max(), run.divergences, flush=True)
        REFERENCES.write_text(json.dumps(found, indent=1) + "\n")


def judged(results):
    """Yield a row per target, and at the end the totals."""
    comparisons = sum(np.isfinite(run["z"]).sum() for runs in results.values() for run in runs)
    bound = stats.norm.isf(FALSE_ALARMS / 2 / max(comparisons, 1))
    rows, silent, noted, total = [], [], 0, 0
    for name, runs in results.items():
        largest = [float(np.nanmax(np.abs(run["z"]), initial=0)) for run in runs]
        wrong = [z > bound or run["must be noted"] for z, run in zip(largest, runs, strict=True)]
        quiet = [not run["notes"] for run in runs]
        silently = sum(w and q for w, q in zip(wrong, quiet, strict=True))
        silent += [name] * silently
        noted, total = noted + len(runs) - sum(quiet), total + len(runs)
        kinds = sorted({kind for run in runs for kind in run["notes"]})
        rows.append(
            (
                name,
                f"{sum(run['learned'] for run in runs)} of {len(runs)}",
                f"{np.median([run['gradients'] for run in runs]):,.0f}",
                f"{np.median(largest):.1f}",
                f"{max(largest):.1f}",
                str(len(runs) - sum(quiet)),
                str(silently),
                ", ".join(kinds),
            )
        )
    return rows, bound, silent, 1 - noted / max(total, 1), total


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--references", action="store_true")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--only", nargs="+", choices=NAMES)
    parser.add_argument("--jobs", type=int, default=1, help="runs at the same time")
    options = parser.parse_args()
    if options.references:
        make_references()
        return
    seeds = range(1 if options.quick else options.seeds)
    names = options.only or (QUICK if options.quick else NAMES)
    with ThreadPoolExecutor(options.jobs) as pool:
        waiting = {name: [pool.submit(made_or_kept, name, s) for s in seeds] for name in names}
        results = {name: [run.result() for run in runs] for name, runs in waiting.items()}
    rows, bound, silent, without, total = judged(results)
    header = (
        "target",
        "learned",
        "true gradients",
        "median largest z",
        "largest z",
        "with a note",
        "wrong without a note",
        "notes",
    )
    lines = [
        f"{total} runs of {len(results)} targets, {CHAINS} chains of {DRAWS:,} draws each. z is",
        "the difference of a mean or a standard deviation from the known one, in Monte Carlo",
        f"errors; a run is wrong if one of them is above {bound:.1f}, or if there is no variance.",
        "",
        f"**Wrong without a note: {len(silent)} of {total} runs** ({', '.join(silent) or 'none'}).",
        f"Without any note: {without:.0%} of all runs.",
        *table(header, rows),
    ]
    publish("honesty", "Is a run without a note right?", lines, quick=options.quick or options.only)


if __name__ == "__main__":
    if "--one" in sys.argv:
        name, seed = sys.argv[sys.argv.index("--one") + 1 :]
        one_run(name, int(seed))
    else:
        main()
