"""The samplers of the benchmark: ours, and the strongest that a user could pick instead.

Each takes a target's name, loads what it needs, and returns a function of the seed that makes the
whole run: only that is timed.
"""

import os
import tempfile
from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chains_by_mams import adapt_after_nuts, chains_by_mams
from chains_by_nuts import chains_by_low_rank_nuts
from nnghmc import HMC, Run, sample
from nnghmc.platform.provenance import cores
from starts import starts_of
from targets import WITHOUT_REFERENCE, posterior_of, truth_of

CHAINS = 4


class Length(NamedTuple):
    """Warm-up draws and kept draws per chain."""

    warmup: int
    draws: int


WHOLE, SHORT = Length(1000, 1000), Length(500, 200)
HOURS = (
    "logistic 50,000 × 200",
    "logistic 500,000 × 50",
    "Cover Type",
    "Cover Type, standardised",
    "Gaussian process",
    "random intercepts, centred",
    "random intercepts, non-centred",
    "intercepts and slopes, 1,000 groups",
    "funnel, 10 small groups",
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
    computed after the clock has stopped, since those of the others are not timed either. The
    coordinates of `draws` are the posterior's unless `comparable` is False.
    """

    draws: np.ndarray
    gradients: int
    before: int
    potentials: int = 0
    run: Run | None = None
    comparable: bool = True


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


def numpyro_nuts(target, length, dense=False):
    from numpyro.infer import MCMC, NUTS

    potential, starts = posterior_of(target).potential, starts_of(target)
    every_draw = sum(length)

    def run(seed):
        mcmc = MCMC(
            NUTS(potential_fn=lambda q: potential(q), dense_mass=dense),
            num_warmup=length.warmup,
            num_samples=length.draws,
            num_chains=CHAINS,
            chain_method="vectorized",
            progress_bar=False,
        )
        first = jnp.asarray(starts.points(CHAINS, seed))
        # NumPyro keeps no warm-up draws unless warm-up is a run of its own, compiled on its own.
        mcmc._set_collection_params(0, every_draw, every_draw)
        mcmc.run(jax.random.key(seed), init_params=first, extra_fields=("num_steps",))
        draws = np.asarray(mcmc.get_samples(group_by_chain=True))[:, length.warmup :]
        steps = np.asarray(mcmc.get_extra_fields(group_by_chain=True)["num_steps"])
        return Made(draws, int(steps.sum()), int(steps[:, : length.warmup].sum()))

    return run


def numpyro_dense(target, length):
    return numpyro_nuts(target, length, dense=True)


def _by_blackjax(chains):
    def sampler(target, length):
        potential, starts = posterior_of(target).potential, starts_of(target)

        def run(seed):
            keys = jax.random.split(jax.random.key(seed), CHAINS)
            first = jnp.asarray(starts.points(CHAINS, seed))
            draws, (before, steps) = chains(potential, first, keys, *length)
            return Made(np.asarray(draws), int(before + steps), int(before))

        return run

    return sampler


blackjax_nuts = _by_blackjax(chains_by_low_rank_nuts)
blackjax_mams = _by_blackjax(chains_by_mams)
mams_after_nuts = _by_blackjax(partial(chains_by_mams, adapt=adapt_after_nuts))


def nutpie_nuts(target, length):
    """Run nutpie with its mass matrix of low rank on the potential that all samplers have."""
    import nutpie

    posterior, starts = posterior_of(target), starts_of(target)

    def run(seed):
        evaluate = _compiled_for_nutpie(posterior)

        def expand(position, **_):
            return {"q": np.array(position)}

        model = nutpie.compiled_pyfunc.from_pyfunc(
            posterior.dim,
            make_logp_fn=lambda: evaluate,
            make_expand_fn=lambda *_: expand,
            expanded_dtypes=[np.dtype(float)],
            expanded_shapes=[(posterior.dim,)],
            expanded_names=["q"],
            make_initial_point_fn=lambda chain_seed: starts.points(1, chain_seed)[0],
        )
        found = _sample_by_nutpie(model, length, seed)
        return _made_by_nutpie(np.asarray(found.posterior["q"]), found)

    return run


def _compiled_for_nutpie(posterior):
    """Return q -> the log density and its gradient, compiled; the data are no constants in it."""
    arrays, rest = eqx.partition(posterior.potential, eqx.is_array)

    @jax.jit
    def compiled(arrays, position):
        return jax.value_and_grad(lambda q: -eqx.combine(arrays, rest)(q))(position)

    def evaluate(position, **_):
        value, gradient = compiled(arrays, position)
        return float(value), np.asarray(gradient, dtype=float)

    evaluate(np.asarray(posterior.initial))  # here, so that the threads need not each compile it
    return evaluate


def _sample_by_nutpie(model, length, seed):
    import nutpie

    return nutpie.sample(
        model,
        tune=length.warmup,
        draws=length.draws,
        chains=CHAINS,
        cores=min(CHAINS, cores()),
        seed=seed,
        low_rank_modified_mass_matrix=True,
        progress_bar=False,
    )


def _made_by_nutpie(draws, found, comparable=True):
    groups = (found.sample_stats, found.warmup_sample_stats)
    steps, before = (int(part["n_steps"].sum()) for part in groups)
    return Made(draws, before + steps, before, comparable=comparable)


def nutpie_of_pymc(target, length):
    """Run the same nutpie on PyMC's code of the model, with empty caches of compiled code."""
    cold = tempfile.mkdtemp()
    os.environ["PYTENSOR_FLAGS"] = f"base_compiledir={cold}"
    os.environ["NUMBA_CACHE_DIR"] = cold
    import nutpie

    from pymc_models import MODELS

    posterior = posterior_of(target)
    known = truth_of(target) if target in WITHOUT_REFERENCE else None
    names = posterior.layout.names

    def run(seed):
        near = {} if not isinstance(known, dict) else {"initial_points": known, "jitter_rvs": set()}
        model = nutpie.compile_pymc_model(MODELS[target](target), backend="numba", **near)
        found = _sample_by_nutpie(model, length, seed)
        variables = found.posterior.data_vars
        comparable = set(variables) == set(names)
        parts = [np.asarray(found.posterior[name]) for name in (names if comparable else variables)]
        draws = np.concatenate([part.reshape(*part.shape[:2], -1) for part in parts], axis=2)
        return _made_by_nutpie(draws, found, comparable)

    return run


SAMPLERS = {
    "nnghmc": ours,
    "nutpie": nutpie_nuts,
    "PyMC, nutpie": nutpie_of_pymc,
    "NumPyro": numpyro_nuts,
    "NumPyro, dense": numpyro_dense,
    "BlackJAX, low rank": blackjax_nuts,
    "BlackJAX, MAMS": blackjax_mams,
    "BlackJAX, MAMS after NUTS": mams_after_nuts,
    "HMC, paper's tuning": paper_hmc,
}
NUTS = ("nutpie", "PyMC, nutpie", "NumPyro", "NumPyro, dense", "BlackJAX, low rank")
PACKAGES_OF = {
    "nutpie": ("nutpie",),
    "PyMC, nutpie": ("pymc", "nutpie"),
    "NumPyro": ("numpyro",),
    "NumPyro, dense": ("numpyro",),
}
"""Packages to name besides those that every result names."""
NOT_IN_PYMC = (
    "GARCH(2, 1)",
    "Gaussian process",
    "Lotka–Volterra",
    "hierarchical ODE, 20 subjects",
)
"""A recursion, a Gaussian process with noise, two ODEs: not models that people give to nutpie."""
TOO_WIDE = ("intercepts and slopes, 1,000 groups",)
"""Targets with more than 300 parameters, for which a dense mass matrix is no choice."""


def samplers_of(target):
    """Return the samplers that can take this target, ours first."""
    left_out = {
        "PyMC, nutpie": target in NOT_IN_PYMC,
        "NumPyro, dense": target in TOO_WIDE,
        "HMC, paper's tuning": target not in PAPER,
    }
    return [name for name in SAMPLERS if not left_out.get(name, False)]


def length_of(target, sampler):
    """Return the length of the runs that are made, short or whole."""
    return SHORT if target in HOURS and sampler != "nnghmc" else WHOLE
