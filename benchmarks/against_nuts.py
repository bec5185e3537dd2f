"""Compare whole runs with the samplers a user would pick instead, and check our draws.

All samplers have the same posterior, chains, kept draws and precision. Each run is a process of its
own, timed from the first compilation to the last draw. This includes warm-up, collecting and
training, but not loading libraries and data. The others start in the typical set and have a
thousand draws of warm-up. Ours starts where the posterior says, and its means and standard
deviations are compared with those of long reference runs (references.py), or with those of the
best of the others where there is no reference. Chains that disagree have no effective draws.

Measurements are stored in output/against_nuts, so that hours of them can be made in parts: a run
whose file exists is not made again.

    NNGHMC_DATA=... python benchmarks/against_nuts.py [--quick] [--only TARGET ...]
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np

from agreement import AGREEMENT, agreement_row, moments_of
from nnghmc import diagnostics, provenance
from processes import fingerprint, in_a_process, tell
from report import file_name, publish, table
from samplers import (
    CHAINS,
    HOURS,
    NUTS,
    PACKAGES_OF,
    SAMPLERS,
    SHORT,
    WHOLE,
    length_of,
    samplers_of,
)
from targets import TARGETS

KEPT = Path(__file__).parents[1] / "output" / "against_nuts"
QUICK = ("Poisson 20,000 × 51", "eight schools", "banana")
SEEDS, MORE_SEEDS = range(4), range(8)
LONGEST = 1200
"""Seconds after which a run is stopped."""
MADE_OF_KEPT = (
    "Made by `benchmarks/against_nuts.py --kept` from the runs that the last table names. They "
    "were made several at a time, each on two cores of its own."
)
DISAGREEING = 1.1
"""R-hat above which the chains disagree so much that their draws count as none."""
REPEATED = 30
"""Seconds; shorter runs are repeated with more seeds, longer ones of other samplers are not."""


def one_run(target, sampler, seed):
    length = length_of(target, sampler)
    run = SAMPLERS[sampler](target, length)
    started = time.perf_counter()
    made = run(seed)
    seconds = time.perf_counter() - started
    sizes = np.nan_to_num(diagnostics.bulk_ess(made.draws)) * WHOLE.draws / length.draws
    gradients = made.gradients if length == WHOLE else gradients_of_a_whole_run(made, length)
    found = {
        "made": made_by(sampler),
        "extrapolated": length != WHOLE,
        "seconds": seconds * gradients / made.gradients,
        "drawn": length.draws / WHOLE.draws,
        "lowest": float(sizes.min()),
        "median": float(np.median(sizes)),
        "rhat": float(np.nanmax(diagnostics.rhat(made.draws))),
        "gradients": gradients,
        "potentials": made.potentials,
        "title": made.run.title if made.run else "",
        "notes": list(map(str, made.run.notes)) if made.run else [],
        "moments": moments_of(target, made.draws) if made.comparable else None,
    }
    tell(found)


def gradients_of_a_whole_run(made, length):
    """Extrapolate, as if a warm-up draw took no more gradients than a kept one."""
    return round(sum(WHOLE) * (made.gradients - made.before) / length.draws)


def path_of(target, sampler, seed):
    version = fingerprint() if sampler == "nnghmc" else ""
    return KEPT / (file_name(f"{target} {sampler} {seed} {version}") + ".json")


def made_or_kept(target, sampler, seed, longest):
    """Make a run in a process of its own, unless its file exists; return what was measured."""
    path = path_of(target, sampler, seed)
    if not path.exists():
        KEPT.mkdir(parents=True, exist_ok=True)
        found = in_a_process(__file__, target, sampler, seed, timeout=longest)
        if found is None:
            times = sum(WHOLE) / sum(length_of(target, sampler))
            found = {"made": made_by(sampler), "longer_than": round(times * longest)}
        path.write_text(json.dumps(found))
        few = {name: part for name, part in found.items() if name != "moments"}
        print(target, sampler, seed, json.dumps(few), flush=True)
    return json.loads(path.read_text())


def kept_runs(target, sampler, most_seeds):
    """Return the runs that were made before, and make none."""
    paths = [path_of(target, sampler, seed) for seed in MORE_SEEDS[:most_seeds]]
    return [json.loads(path.read_text()) for path in paths if path.exists()]


def made_by(sampler):
    return provenance(*PACKAGES_OF.get(sampler, ()))


def all_runs(target, sampler, longest, most_seeds):
    """Return the runs of one seed, and of as many more as there is time for."""
    first = made_or_kept(target, sampler, 0, longest)
    short = first.get("seconds", longest) < REPEATED
    seeds = (MORE_SEEDS if short else SEEDS if sampler == "nnghmc" else range(1))[:most_seeds]
    return [first, *(made_or_kept(target, sampler, seed, longest) for seed in seeds[1:])]


def rate(found):
    """Return the lowest ESS per second; a run that was stopped counts as independent draws."""
    if "longer_than" in found:
        return CHAINS * WHOLE.draws / found["longer_than"]
    return size(found, "lowest") / found["seconds"]


def size(found, name):
    """Return the effective sample size of that name, and 0 if the chains disagree."""
    return found[name] if found["rhat"] <= DISAGREEING else 0.0


def typical(runs):
    """Return the run with the lower median of the rates."""
    return sorted(runs, key=rate)[(len(runs) - 1) // 2]


def row(name, found, extrapolated, ratios=("", "")):
    star = " *" if extrapolated else ""
    if "longer_than" in found:
        seconds = f"over {found['longer_than']:,}{star}"
        return ("", name, seconds, "", f"< {rate(found):.1f}", *[""] * 6)
    gradients, potentials = found["gradients"], found["potentials"]
    return (
        "",
        f"{name}: {found['title']}" if name == "nnghmc" else name,
        f"{found['seconds']:,.1f}{star}",
        f"{gradients:,}",
        f"{rate(found):.1f}",
        f"{size(found, 'median') / found['seconds']:.1f}",
        f"{size(found, 'lowest') / gradients:.3f}" if gradients else "",
        f"{size(found, 'lowest') / potentials:.2f}" if potentials else "",
        f"{found['rhat']:.3f}",
        *ratios,
    )


def ratio(mine, others):
    """Return the ratio of our rate to that of the best of the others."""
    best = max(others, key=rate, default=None)
    if best is None:
        return ""
    if rate(best) == 0:
        return "others failed"
    return f"{'> ' if 'longer_than' in best else ''}{rate(mine) / rate(best):.2f}"


def speed_rows(target, runs):
    """Return our row and those of the others, with ratios to the best NUTS and the best of all."""
    mine = typical(runs["nnghmc"])
    others = {name: typical(found) for name, found in runs.items() if name != "nnghmc"}
    nuts = [found for name, found in others.items() if name in NUTS]
    rows = [row("nnghmc", mine, False, (ratio(mine, nuts), ratio(mine, others.values())))]
    for name, found in others.items():
        short = length_of(target, name) != WHOLE
        rows.append(row(name, found, found.get("extrapolated", short)))
    return [(target, *rows[0][1:]), *rows[1:]]


SPEED = (
    "target", "sampler", "seconds", "gradients", "lowest ESS/s", "median ESS/s", "ESS/gradient",
    "ESS/potential", "R-hat", "to best NUTS", "to best",
)  # fmt: skip


def lines_of(results, most_seeds):
    speed = [line for target, runs in results.items() for line in speed_rows(target, runs)]
    agreement = [agreement_row(target, runs) for target, runs in results.items()]
    where = {}
    for target, runs in results.items():
        for name, found in runs.items():
            where.setdefault((found[0]["made"], name), []).append(target)
    measured = [(made, name, "; ".join(targets)) for (made, name), targets in where.items()]
    return [
        f"{CHAINS} chains × {WHOLE.draws:,} draws, double precision, whole runs; {WHOLE.warmup:,} "
        "warm-up draws for the others, which start in the typical set. Times with a * and the ESS "
        f"in their rows ({', '.join(HOURS)}) are extrapolated from runs of {SHORT.warmup} warm-up "
        f"and {SHORT.draws} kept draws, as if a warm-up draw took no more gradients than a kept "
        "one. A run that took too long, loading included, was stopped: its rate is that of "
        "independent draws in the time it had. For a short run that was stopped, this time is "
        "extrapolated in proportion to its draws, although warm-up may be slower than the rest. "
        "ESS is ArviZ's bulk ESS, the lowest over all coordinates unless the column says "
        "otherwise; it is 0 if R-hat is above "
        f"{DISAGREEING}. The last columns are ratios of the lowest "
        f"ESS/s: to the best NUTS ({', '.join(NUTS)}), and to the best of the others. "
        "Each row is the run with the lower median rate of "
        f"up to {len(MORE_SEEDS[:most_seeds])} seeds; where a run takes more than {REPEATED} s, of "
        f"up to {len(SEEDS[:most_seeds])} seeds of ours and of one seed of the others.",
        *table(SPEED, speed),
        "Distances of means and standard deviations of our runs from a long reference run, in "
        "units of the Monte Carlo error of both. Where there is no reference, the run of the "
        "others with the largest ESS whose chains agree takes its place. The last column counts "
        "runs without notes that are beyond the bound:",
        *table(AGREEMENT, agreement),
        "When and where each was measured:",
        *table(("made", "sampler", "targets"), measured),
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a few targets; writes nothing")
    parser.add_argument("--only", nargs="*", choices=TARGETS, help="these targets alone")
    parser.add_argument("--samplers", nargs="*", choices=SAMPLERS, help="make these runs, no page")
    parser.add_argument("--longest", type=int, default=LONGEST, help="stop a run after (seconds)")
    parser.add_argument("--kept", action="store_true", help="make no run, and the page of the rest")
    parser.add_argument("--seeds", type=int, default=len(MORE_SEEDS), help="most seeds of a run")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        target, sampler, seed = arguments.one
        one_run(target, sampler, int(seed))
        return

    def runs_of(target, sampler):
        if arguments.kept:
            return kept_runs(target, sampler, arguments.seeds)
        return all_runs(target, sampler, arguments.longest, arguments.seeds)

    results = {}
    for target in arguments.only or (QUICK if arguments.quick else TARGETS):
        wanted = [s for s in samplers_of(target) if s in (arguments.samplers or SAMPLERS)]
        runs = {name: runs_of(target, name) for name in wanted}
        results[target] = {name: found for name, found in runs.items() if found}
    if not arguments.samplers:
        quick = arguments.quick or bool(arguments.only)
        ours_made = {target: runs for target, runs in results.items() if "nnghmc" in runs}
        lines = lines_of(ours_made, arguments.seeds)
        made = MADE_OF_KEPT if arguments.kept else None
        publish("against_nuts", "Against NUTS, whole runs", lines, quick=quick, made=made)


if __name__ == "__main__":
    main()
