"""Against what a user would pick instead: NUTS of NumPyro and of BlackJAX, whole runs.

The same posterior, chains, kept draws and precision. Each run is a process of its own, timed from
the first compilation to the last draw: warm-up, collecting and training included, loading the
libraries and the data not. All chains are advanced together, since that is what is fastest on a
machine of few cores. NumPyro and BlackJAX warm up for 1,000 draws, their users' habit.

    python benchmarks/against_nuts.py [--quick] [--only TARGET ...]
"""

import argparse
import json
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

from nnghmc import sample
from nnghmc.diagnostics import bulk_ess, rhat
from report import publish, table
from targets import TARGETS

CHAINS, DRAWS, WARMUP = 8, 1000, 1000
QUICK = ("Poisson 20,000 × 51", "GARCH(2, 1)", "eight schools", "banana")
LONGEST = 3600


def starts(posterior):
    """Around the initial point, as our own run has them."""
    away = np.random.default_rng(0).uniform(-1, 1, size=(CHAINS, posterior.dim))
    return jnp.asarray(np.asarray(posterior.initial) + away)


def ours(posterior):
    run = sample(posterior, DRAWS, CHAINS, progress=False)
    total = run.cost.total
    story = {"way": run.title, "notes": list(run.notes)}
    return run.draws, total.true_gradients, total.true_potentials, story


def numpyro_nuts(posterior):
    from numpyro.infer import MCMC, NUTS

    potential = posterior.potential
    mcmc = MCMC(
        NUTS(potential_fn=lambda q: potential(q)),
        num_warmup=WARMUP,
        num_samples=DRAWS,
        num_chains=CHAINS,
        chain_method="vectorized",
        progress_bar=False,
    )
    mcmc.warmup(
        jax.random.key(0),
        init_params=starts(posterior),
        extra_fields=("num_steps",),
        collect_warmup=True,
    )
    before = mcmc.get_extra_fields()["num_steps"].sum()
    mcmc.run(jax.random.key(1), extra_fields=("num_steps",))
    draws = np.asarray(mcmc.get_samples(group_by_chain=True))
    return draws, int(before + mcmc.get_extra_fields()["num_steps"].sum()), 0, {}


def blackjax_nuts(posterior):
    import blackjax

    potential = posterior.potential

    def log_density(q):
        return -potential(q)

    warmup = blackjax.window_adaptation(blackjax.nuts, log_density)

    def one(position, key):
        warm_key, key = jax.random.split(key)
        (state, parameters), found = warmup.run(warm_key, position, WARMUP)
        kernel = blackjax.nuts(log_density, **parameters)

        def step(state, key):
            state, info = kernel.step(key, state)
            return state, (state.position, info.num_integration_steps)

        draws, steps = jax.lax.scan(step, state, jax.random.split(key, DRAWS))[1]
        return draws, steps.sum() + found.info.num_integration_steps.sum()

    keys = jax.random.split(jax.random.key(0), CHAINS)
    draws, steps = jax.jit(jax.vmap(one))(starts(posterior), keys)
    return np.asarray(draws), int(steps.sum()), 0, {}


SAMPLERS = {"nnghmc": ours, "NumPyro": numpyro_nuts, "BlackJAX": blackjax_nuts}


def one_run(target, sampler):
    posterior = TARGETS[target]()
    jax.block_until_ready(posterior.data)
    started = time.perf_counter()
    draws, gradients, potentials, story = SAMPLERS[sampler](posterior)
    seconds = time.perf_counter() - started
    sizes = np.nan_to_num(bulk_ess(draws))
    found = {
        "seconds": seconds,
        "lowest": float(sizes.min()),
        "median": float(np.median(sizes)),
        "rhat": float(np.nanmax(rhat(draws))),
        "gradients": gradients,
        "potentials": potentials,
        **story,
    }
    print("RESULT " + json.dumps(found))


def in_a_process_of_its_own(target, sampler):
    command = [sys.executable, __file__, "--one", target, sampler]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST, check=True)
    except subprocess.TimeoutExpired:
        return None
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    return json.loads(lines[-1].removeprefix("RESULT "))


def row(target, sampler, found, best_other):
    if found is None:
        return (target, sampler, f"over {LONGEST}", *[""] * 7)
    rate = found["lowest"] / found["seconds"]
    ratio = f"{rate / best_other:.2f}" if sampler == "nnghmc" and best_other else ""
    per_gradient = found["lowest"] / max(found["gradients"], 1)
    per_potential = found["lowest"] / found["potentials"] if found["potentials"] else None
    return (
        target if sampler == "nnghmc" else "",
        f"{sampler} ({found['way']})" if "way" in found else sampler,
        f"{found['seconds']:.1f}",
        f"{rate:.1f}",
        f"{found['median'] / found['seconds']:.1f}",
        f"{per_gradient:.3f}",
        "" if per_potential is None else f"{per_potential:.2f}",
        f"{found['rhat']:.3f}",
        ratio,
    )


def lines_of(results):
    rows = []
    for target, found in results.items():
        others = [part for name, part in found.items() if name != "nnghmc" and part is not None]
        best = max((part["lowest"] / part["seconds"] for part in others), default=None)
        rows += [row(target, sampler, part, best) for sampler, part in found.items()]
    header = (
        "target",
        "sampler",
        "seconds",
        "lowest ESS/s",
        "median ESS/s",
        "ESS/gradient",
        "ESS/potential",
        "R-hat",
        "ratio to the best other",
    )
    return [
        f"{CHAINS} chains × {DRAWS:,} draws, double precision, whole runs; {WARMUP:,} draws of "
        "warm-up for NumPyro and BlackJAX, whose chains are vectorised. ESS is ArviZ's bulk ESS, "
        "the lowest over all coordinates unless it says otherwise.",
        *table(header, rows),
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a few targets; writes nothing")
    parser.add_argument("--only", nargs="*", choices=TARGETS, help="these targets alone")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        one_run(*arguments.one)
        return
    results = {}
    for target in arguments.only or (QUICK if arguments.quick else TARGETS):
        results[target] = {}
        for sampler in SAMPLERS:
            results[target][sampler] = in_a_process_of_its_own(target, sampler)
            print(target, sampler, results[target][sampler], flush=True)
    quick = arguments.quick or bool(arguments.only)
    publish("against_nuts", "Against NUTS, whole runs", lines_of(results), quick=quick)


if __name__ == "__main__":
    main()
