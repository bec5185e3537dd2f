"""The samplers of the benchmark: ours, and what a user would pick instead.

Each takes a target's name, loads what it needs, and returns a function of the seed that makes the
whole run: only that is timed.
"""

import os
import tempfile
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from chains_by_nuts import chains_by_nuts
from nnghmc import HMC, Run, sample
from nnghmc.platform.provenance import cores
from references import reference
from targets import posterior_of

CHAINS = 8


class Length(NamedTuple):
    """Warm-up draws and kept draws per chain."""

    warmup: int
    draws: int


WHOLE, SHORT = Length(1000, 1000), Length(200, 200)
HOURS = (
    "logistic 50,000 × 200",
    "logistic 500,000 × 50",
    "Cover Type",
    "Gaussian process",
)
"""Targets on which the others make short runs, from which whole ones are extrapolated."""
PAPER = {
    "logistic 50,000 × 200": (0.01, 20),
    "Cover Type": (0.001, 10),
    "GARCH(2, 1)": (0.002, 15),
    "Gaussian process": (0.05, 20),
    "banana": (0.1, 5),
}
"""The paper's step size and number of steps."""


class Made(NamedTuple):
    """Draws, the true evaluations of all chains together, and the run itself if it is ours.

    `before` counts the gradients before the first kept draw. The diagnostics of our run are
    computed after the clock has stopped, since those of the others are not timed either.
    """

    draws: np.ndarray
    gradients: int
    before: int
    potentials: int = 0
    run: Run | None = None


def ours(target, length, method="auto"):
    posterior = posterior_of(target)

    def run(seed):
        made = sample(posterior, length.draws, CHAINS, seed, method, progress=False)
        cost = made.cost
        gradients, potentials = cost.total.true_gradients, cost.total.true_potentials
        before = gradients - cost.sample.true_gradients
        return Made(made.draws, gradients, before, potentials, made)

    return run


def paper_hmc(target, length):
    step_size, num_steps = PAPER[target]
    return ours(target, length, HMC(step_size, num_steps, warmup=length.warmup))


def starts(target, seed):
    """Return starts in the typical set, so that the others need not find it."""
    known = reference(target)
    normal = np.random.default_rng(seed).normal(size=(CHAINS, len(known["mean"])))
    points = known["mean"] + known["sd"] * normal
    return jnp.asarray(np.sinh(points) if target == "funnel" else points)


def numpyro_nuts(target, length):
    from numpyro.infer import MCMC, NUTS

    potential = posterior_of(target).potential
    steps = {"extra_fields": ("num_steps",)}

    def run(seed):
        mcmc = MCMC(
            NUTS(potential_fn=lambda q: potential(q)),
            num_warmup=length.warmup,
            num_samples=length.draws,
            num_chains=CHAINS,
            chain_method="vectorized",
            progress_bar=False,
        )
        key, first = jax.random.key(seed), starts(target, seed)
        mcmc.warmup(key, init_params=first, collect_warmup=True, **steps)
        before = int(mcmc.get_extra_fields()["num_steps"].sum())
        mcmc.run(jax.random.key(seed + 1000), **steps)
        draws = np.asarray(mcmc.get_samples(group_by_chain=True))
        return Made(draws, before + int(mcmc.get_extra_fields()["num_steps"].sum()), before)

    return run


def blackjax_nuts(target, length):
    potential = posterior_of(target).potential

    def run(seed):
        keys = jax.random.split(jax.random.key(seed), CHAINS)
        draws, (before, steps) = chains_by_nuts(potential, starts(target, seed), keys, *length)
        return Made(np.asarray(draws), int(before + steps), int(before))

    return run


def nutpie_nuts(target, length):
    """Run PyMC's sampler of choice from a cold start, with empty caches of compiled code."""
    cold = tempfile.mkdtemp()
    os.environ["PYTENSOR_FLAGS"] = f"base_compiledir={cold}"
    os.environ["NUMBA_CACHE_DIR"] = cold
    import nutpie  # noqa: F401 (loading is not timed)
    import pymc

    from pymc_models import MODELS

    posterior_of(target)

    def run(seed):
        with MODELS[target](target):
            found = pymc.sample(
                length.draws,
                tune=length.warmup,
                chains=CHAINS,
                cores=cores(),
                nuts_sampler="nutpie",
                nuts_sampler_kwargs={"save_warmup": True},
                random_seed=seed,
                progressbar=False,
                compute_convergence_checks=False,
            )
        parts = [np.asarray(part) for part in found.posterior.data_vars.values()]
        draws = np.concatenate([part.reshape(*part.shape[:2], -1) for part in parts], axis=2)
        groups = (found.sample_stats, found.warmup_sample_stats)
        steps, before = (int(part["n_steps"].sum()) for part in groups)
        return Made(draws, before + steps, before)

    return run


SAMPLERS = {
    "nnghmc": ours,
    "NumPyro": numpyro_nuts,
    "BlackJAX": blackjax_nuts,
    "PyMC, nutpie": nutpie_nuts,
    "HMC, paper's tuning": paper_hmc,
}
NUTS = ("NumPyro", "BlackJAX", "PyMC, nutpie")
PACKAGES_OF = {"NumPyro": ("numpyro",), "PyMC, nutpie": ("pymc", "nutpie")}
"""Packages to name besides those that every result names."""
NOT_IN_PYMC = ("GARCH(2, 1)", "Gaussian process", "Lotka–Volterra")
"""A recursion, a Gaussian process with noise, an ODE: not models that people give to nutpie."""


def samplers_of(target):
    """Return the samplers that can take this target, ours first."""
    left_out = {"PyMC, nutpie": target in NOT_IN_PYMC, "HMC, paper's tuning": target not in PAPER}
    return [name for name in SAMPLERS if not left_out.get(name, False)]


def length_of(target, sampler):
    """Return the length of the runs that are made, short or whole."""
    return SHORT if target in HOURS and sampler != "nnghmc" else WHOLE
