"""Compare our NUTS with NumPyro's on posteriors that are cheap to evaluate and hard to sample.

Whole runs, each in a process of its own, from the first compilation to the last draw: 4 chains with
1,000 kept draws each. NumPyro has 1,000 draws of warm-up, vectorised chains and Stan's target
acceptance, with a diagonal or a dense mass matrix. All samplers start as they do by default.

    python benchmarks/nuts_alone.py [--quick] [--only TARGET ...]
"""

import argparse
import sys
import time

import jax
import numpy as np

from hard_targets import HARD_TARGETS, hard_posterior
from nnghmc import diagnostics, sample
from processes import in_a_process, tell
from report import publish, table

CHAINS, DRAWS, WARMUP = 4, 1000, 1000
SEEDS = range(3)
QUICK = ("regression on raw columns", "eight schools, centred")
LONGEST = 300
"""Seconds after which a run is stopped."""


def ours(posterior, seed):
    run = sample(posterior, DRAWS, CHAINS, seed, "nuts", progress=False)
    divergences = int(run.stats["diverging"].sum())
    return run.draws, run.cost.total.true_gradients, divergences, [note.kind for note in run.notes]


def numpyro(dense):
    def run(posterior, seed):
        from numpyro.infer import MCMC, NUTS

        potential = posterior.potential
        mcmc = MCMC(
            NUTS(potential_fn=lambda q: potential(q), dense_mass=dense),
            num_warmup=WARMUP,
            num_samples=DRAWS,
            num_chains=CHAINS,
            chain_method="vectorized",
            progress_bar=False,
        )
        starts = np.random.default_rng(seed).uniform(-2, 2, size=(CHAINS, posterior.dim))
        fields = {"extra_fields": ("num_steps", "diverging")}
        mcmc.warmup(jax.random.key(seed), init_params=starts, collect_warmup=True, **fields)
        before = int(mcmc.get_extra_fields()["num_steps"].sum())
        mcmc.run(jax.random.key(seed + 1000), **fields)
        found = mcmc.get_extra_fields()
        draws = np.asarray(mcmc.get_samples(group_by_chain=True))
        return draws, before + int(found["num_steps"].sum()), int(found["diverging"].sum()), []

    return run


SAMPLERS = {"nnghmc": ours, "NumPyro": numpyro(False), "NumPyro, dense": numpyro(True)}


def one_run(target, sampler, seed):
    posterior = hard_posterior(target)
    started = time.perf_counter()
    draws, gradients, divergences, notes = SAMPLERS[sampler](posterior, int(seed))
    seconds = time.perf_counter() - started
    lowest = float(np.nan_to_num(diagnostics.bulk_ess(draws)).min())
    rhat = float(np.nanmax(diagnostics.rhat(draws)))
    tell(
        {
            "seconds": seconds,
            "ess": lowest if rhat < 1.1 else 0.0,
            "rhat": rhat,
            "gradients": gradients,
            "divergences": divergences,
            "notes": notes,
        }
    )


def medians(runs):
    """Return the medians over seeds of what is printed about a sampler."""
    made = [run for run in runs if run is not None]
    if len(made) < len(runs):
        return {"rate": 0.0, "per_gradients": 0.0, "rhat": np.inf, "divergences": np.nan}
    return {
        "rate": float(np.median([run["ess"] / run["seconds"] for run in made])),
        "per_gradients": float(np.median([1000 * run["ess"] / run["gradients"] for run in made])),
        "rhat": float(np.median([run["rhat"] for run in made])),
        "divergences": float(np.median([run["divergences"] for run in made])),
    }


def rows_of(target, seeds):
    found = {}
    for sampler in SAMPLERS:
        runs = [in_a_process(__file__, target, sampler, seed, timeout=LONGEST) for seed in seeds]
        print(target, sampler, runs, flush=True)
        found[sampler] = medians(runs)
    best = max(found[name]["rate"] for name in SAMPLERS if name != "nnghmc")
    ratio = f"{found['nnghmc']['rate'] / best:.1f}" if best > 0 else "NumPyro failed"
    for sampler, of_sampler in found.items():
        yield (
            target,
            sampler,
            f"{of_sampler['rate']:.1f}",
            f"{of_sampler['per_gradients']:.2f}",
            f"{of_sampler['rhat']:.2f}",
            f"{of_sampler['divergences']:.0f}",
            ratio if sampler == "nnghmc" else "",
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", nargs="+", choices=HARD_TARGETS)
    options = parser.parse_args()
    targets = options.only or (QUICK if options.quick else HARD_TARGETS)
    seeds = SEEDS[:1] if options.quick else SEEDS
    rows = [row for target in targets for row in rows_of(target, seeds)]
    header = (
        "target",
        "sampler",
        "ESS per second",
        "ESS per 1,000 gradients",
        "R-hat",
        "divergences",
        "times the best NumPyro",
    )
    lines = [
        "Whole runs of NUTS on posteriors that are cheap to evaluate: 4 chains of 1,000 kept",
        "draws, compilation and warm-up included. ESS is that of the worst coordinate, and 0 if",
        f"R-hat is above 1.1; medians over {len(seeds)} seeds.",
        *table(header, rows),
    ]
    publish("nuts_alone", "NUTS alone, on hard posteriors", lines, quick=options.quick)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        one_run(*sys.argv[2:])
    else:
        main()
