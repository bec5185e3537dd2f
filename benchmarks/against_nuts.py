"""Against what a user would pick instead, whole runs; and whether our draws are right.

The same posterior, chains, kept draws and precision. Each run is a process of its own, timed from
the first compilation to the last draw: warm-up, collecting and training included, loading the
libraries and the data not. The others start in the bulk and have their users' thousand draws of
warm-up; ours starts where the posterior says, with four seeds, and its means and standard
deviations are held against those of long reference runs (references.py).

What was measured is kept in output/against_nuts, so that hours of it can be made in parts: a run
that is there is not made again, unless it is taken away.

    NNGHMC_DATA=... python benchmarks/against_nuts.py [--quick] [--only TARGET ...]
"""

import argparse
import datetime
import hashlib
import json
import time
from functools import cache
from pathlib import Path

import numpy as np

import nnghmc
from nnghmc.diagnostics import LARGEST_RHAT, bulk_ess, rhat, standard_errors
from processes import in_a_process, tell
from references import comparable, reference
from report import file_name, publish, table
from samplers import CHAINS, DRAWS, SAMPLERS, WARMUP, samplers_of
from targets import TARGETS

KEPT = Path(__file__).parents[1] / "output" / "against_nuts"
QUICK = ("Poisson 20,000 × 51", "eight schools", "banana")
SEEDS = range(4)
LONGEST = 900
"""Seconds; of a run that takes longer only this is known."""


def one_run(target, sampler, seed):
    run = SAMPLERS[sampler](target)
    started = time.perf_counter()
    made = run(seed)
    seconds = time.perf_counter() - started
    sizes = np.nan_to_num(bulk_ess(made.draws))
    found = {
        "date": datetime.date.today().isoformat(),
        "seconds": seconds,
        "lowest": float(sizes.min()),
        "median": float(np.median(sizes)),
        "rhat": float(np.nanmax(rhat(made.draws))),
        "gradients": made.gradients,
        "potentials": made.potentials,
        "title": made.title,
        "notes": list(made.notes),
    }
    if sampler == "nnghmc":
        found |= disagreement(target, made.draws)
    tell(found)


def disagreement(target, draws):
    """The largest distance from the reference, in units of the Monte Carlo error of both."""
    draws, known = comparable(target, draws), reference(target)
    ours = {"mean": draws.mean(axis=(0, 1)), "sd": draws.std(axis=(0, 1))}

    def largest(moment, name):
        error = np.hypot(standard_errors(draws, of=name), known[f"{moment}_error"])
        return float(np.abs((ours[moment] - known[moment]) / error).max())

    return {
        "z_means": largest("mean", "mean"),
        "z_sds": largest("sd", "std"),
        "dim": len(known["sd"]),
    }


def made_or_kept(target, sampler, seed):
    """A run in a process of its own, unless it was made before."""
    version = fingerprint() if sampler == "nnghmc" else ""
    path = KEPT / (file_name(f"{target} {sampler} {seed} {version}") + ".json")
    if not path.exists():
        KEPT.mkdir(parents=True, exist_ok=True)
        found = in_a_process(__file__, target, sampler, seed, timeout=LONGEST)
        path.write_text(json.dumps(found))
        print(target, sampler, seed, path.read_text(), flush=True)
    return json.loads(path.read_text())


@cache
def fingerprint():
    """Of our own code: runs of another version are not taken for those of this one."""
    code = sorted(Path(nnghmc.__file__).parent.rglob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in code)).hexdigest()[:8]


def rate(found):
    """Lowest ESS a second; where a run took too long, at most that of independent draws."""
    return CHAINS * DRAWS / LONGEST if found is None else found["lowest"] / found["seconds"]


def typical(runs):
    """The run of the median rate, or the slower of two."""
    return sorted(runs, key=rate)[(len(runs) - 1) // 2]


def row(name, found, ratio=""):
    if found is None:
        return ("", name, f"over {LONGEST}", f"< {rate(None):.1f}", *[""] * 5)
    gradients, potentials = found["gradients"], found["potentials"]
    return (
        "",
        f"{name}: {found['title']}" if name == "nnghmc" else name,
        f"{found['seconds']:.1f}",
        f"{rate(found):.1f}",
        f"{found['median'] / found['seconds']:.1f}",
        f"{found['lowest'] / gradients:.3f}" if gradients else "",
        f"{found['lowest'] / potentials:.2f}" if potentials else "",
        f"{found['rhat']:.3f}",
        ratio,
    )


def speed_rows(target, runs):
    """Ours and the others, with the ratio to the best of them."""
    mine = typical(runs["nnghmc"])
    others = {name: found for name, (found, *_) in runs.items() if name != "nnghmc"}
    best = max(others.values(), key=rate)
    ratio = f"{'> ' if best is None else ''}{rate(mine) / rate(best):.2f}"
    rows = [row("nnghmc", mine, ratio), *(row(name, found) for name, found in others.items())]
    return [(target, *rows[0][1:]), *rows[1:]]


def agreement_row(target, runs):
    dim = runs[0]["dim"]
    bound = float(np.sqrt(2 * np.log(2 * dim * 2 * len(SEEDS))) + 1)
    worst = {name: max(run[name] for run in runs) for name in ("z_means", "z_sds", "rhat")}
    well = [run for run in runs if not run["notes"]]
    wrongly = sum(
        max(run["z_means"], run["z_sds"]) > bound or run["rhat"] > LARGEST_RHAT for run in well
    )
    return (
        target,
        f"{worst['z_means']:.2f}",
        f"{worst['z_sds']:.2f}",
        f"{bound:.2f}",
        f"{worst['rhat']:.3f}",
        f"{len(well)} of {len(runs)}",
        str(wrongly),
    )


SPEED = (
    "target", "sampler", "seconds", "lowest ESS/s", "median ESS/s", "ESS/gradient",
    "ESS/potential", "R-hat", "ratio",
)  # fmt: skip
AGREEMENT = (
    "target", "largest z of means", "of standard deviations", "to be expected below", "R-hat",
    "said that all is well", "wrongly",
)  # fmt: skip


def lines_of(results):
    dates = sorted({r["date"] for runs in results.values() for p in runs.values() for r in p if r})
    speed = [line for target, runs in results.items() for line in speed_rows(target, runs)]
    agreement = [agreement_row(target, runs["nnghmc"]) for target, runs in results.items()]
    return [
        f"{CHAINS} chains × {DRAWS:,} draws, double precision, whole runs, made from {dates[0]} to "
        f"{dates[-1]}; {WARMUP:,} draws of warm-up for the others, which start in the bulk. "
        f"Nothing runs longer than {LONGEST} s. ESS is ArviZ's bulk ESS, the lowest over all "
        "coordinates unless it says otherwise; ratio is that of lowest ESS/s to the best of the "
        f"others. Of {len(SEEDS)} seeds of ours the run of the lower median is shown.",
        *table(SPEED, speed),
        f"Means and standard deviations of our {len(SEEDS)} runs of each target against a long "
        "reference run, in units of the Monte Carlo error of both:",
        *table(AGREEMENT, agreement),
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a few targets; writes nothing")
    parser.add_argument("--only", nargs="*", choices=TARGETS, help="these targets alone")
    parser.add_argument("--samplers", nargs="*", choices=SAMPLERS, help="make these runs, no page")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        target, sampler, seed = arguments.one
        one_run(target, sampler, int(seed))
        return
    results = {}
    for target in arguments.only or (QUICK if arguments.quick else TARGETS):
        wanted = [s for s in samplers_of(target) if s in (arguments.samplers or SAMPLERS)]
        results[target] = {
            name: [made_or_kept(target, name, s) for s in (SEEDS if name == "nnghmc" else (0,))]
            for name in wanted
        }
    if not arguments.samplers:
        quick = arguments.quick or bool(arguments.only)
        publish("against_nuts", "Against NUTS, whole runs", lines_of(results), quick=quick)


if __name__ == "__main__":
    main()
