"""Make long reference runs by BlackJAX's NUTS and store their moments, which judge other runs.

There are many chains, so that the spread of the chains' own moments gives the Monte Carlo error
without any estimate of autocorrelation. The banana and the funnel need no run: they can be drawn
from directly. Use a machine with a GPU for the regressions and the Gaussian process.

    python benchmarks/references.py [--chains 64] [--draws 2000] [TARGET ...]
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chains_by_nuts import chains_by_nuts
from nnghmc import diagnostics, provenance
from nnghmc.paper.targets import Banana
from report import file_name
from targets import TARGETS, WITHOUT_REFERENCE, posterior_of

FOLDER = Path(__file__).parent / "references"
WARMUP = 1000
CAREFUL = {"hierarchical": 0.95, "eight schools": 0.95}
DENSE = ("Lotka–Volterra", "GARCH(2, 1)", "Gaussian process")
STARTS = {
    "Lotka–Volterra": np.log([0.55, 0.028, 0.80, 0.024, 33.0, 6.0, 0.25, 0.25])[
        [6, 7, 0, 1, 2, 3, 4, 5]
    ]
}
"""Starts for targets whose own start is too far off for NUTS: the truth behind the data."""


class NonCentred(eqx.Module):
    """The hierarchical model in coordinates without its funnel: theta = mu + tau z."""

    potential: Callable

    def natural(self, q):
        """Return the model's own coordinates."""
        return jnp.concatenate([q[:2], q[1] + jnp.exp(q[0]) * q[2:]])

    def __call__(self, q):
        """Return the potential, including that of the change of coordinates."""
        return self.potential(self.natural(q)) - (len(q) - 2) * q[0]


@eqx.filter_jit
def slope_and_bend(potential, q):
    return jax.grad(potential)(q), jax.hessian(potential)(q)


class Whitened(eqx.Module):
    """A regression in the coordinates of its normal approximation."""

    potential: Callable
    centre: jax.Array
    root: jax.Array

    @classmethod
    def at_the_mode(cls, potential, q, steps=25):
        """Find the mode by Newton's method, with a ridge that shortens its steps."""
        for _ in range(steps):
            slope, bend = slope_and_bend(potential, q)
            bend = bend + jnp.eye(len(q))  # where the data say nothing, the prior is of size one
            q = q - jnp.linalg.solve(bend, slope)
        return cls(potential, q, jnp.linalg.cholesky(jnp.linalg.inv(bend)))

    def natural(self, q):
        """Return the model's own coordinates."""
        return self.centre + self.root @ q

    def __call__(self, q):
        """Return the potential, including that of the change of coordinates."""
        return self.potential(self.natural(q))


def by_nuts(target, chains, draws):
    """Return draws (chains, draws, dim) in the coordinates of the posterior."""
    posterior = posterior_of(target)
    potential = posterior.potential
    first = STARTS.get(target, np.asarray(posterior.initial))
    if target == "hierarchical":
        potential = NonCentred(potential)
    if target == "Cover Type":
        potential, first = Whitened.at_the_mode(potential, posterior.initial), 0.0
    away = np.random.default_rng(0).uniform(-0.1, 0.1, size=(chains, posterior.dim))
    keys = jax.random.split(jax.random.key(0), chains)
    acceptance = CAREFUL.get(target, 0.8)
    starts, diagonal = jnp.asarray(first + away), target not in DENSE
    found, _ = chains_by_nuts(potential, starts, keys, WARMUP, draws, acceptance, diagonal)
    if hasattr(potential, "natural"):
        found = jax.vmap(jax.vmap(potential.natural))(found)
    return np.asarray(found)


def banana(chains, draws):
    return Banana().exact_draws(chains * draws, 0).reshape(chains, draws, 2)


def funnel(chains, draws, dim=10):
    normal = np.random.default_rng(0).normal(size=(chains, draws, dim))
    width = 3 * normal[..., :1]
    return np.concatenate([width, np.exp(width / 2) * normal[..., 1:]], axis=2)


DRAWN_DIRECTLY = {"banana": banana, "funnel": funnel}


def comparable(target, draws):
    """Return draws with moments that a run can estimate: the funnel's are mapped by arcsinh."""
    return np.arcsinh(draws) if target == "funnel" else draws


def moments(draws):
    """Return means and standard deviations, with errors from their spread over chains."""
    chains = len(draws)
    means, spreads = draws.mean(axis=1), draws.std(axis=1)
    return {
        "mean": draws.mean(axis=(0, 1)).tolist(),
        "sd": draws.std(axis=(0, 1)).tolist(),
        "mean_error": (means.std(axis=0, ddof=1) / np.sqrt(chains)).tolist(),
        "sd_error": (spreads.std(axis=0, ddof=1) / np.sqrt(chains)).tolist(),
        "rhat": float(diagnostics.split_rhat(draws).max()),
    }


def path_of(target):
    return FOLDER / (file_name(target) + ".json")


def reference(target):
    """Return the reference of a target, its lists as arrays."""
    found = json.loads(path_of(target).read_text())
    return {k: np.asarray(v) if isinstance(v, list) else v for k, v in found.items()}


REFERENCED = [target for target in TARGETS if target not in WITHOUT_REFERENCE]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(REFERENCED))
    parser.add_argument("--chains", type=int, default=64)
    parser.add_argument("--draws", type=int, default=2000)
    arguments = parser.parse_args()
    FOLDER.mkdir(exist_ok=True)
    size = arguments.chains, arguments.draws
    for target in arguments.targets or REFERENCED:
        started = time.perf_counter()
        direct = DRAWN_DIRECTLY.get(target)
        draws = direct(*size) if direct else by_nuts(target, *size)
        found = {
            "target": target,
            "by": "independent draws" if direct else "NUTS of BlackJAX",
            "chains": size[0],
            "draws": size[1],
            "provenance": provenance(),
            **moments(comparable(target, draws)),
        }
        path_of(target).write_text(json.dumps(found, indent=1) + "\n")
        seconds = time.perf_counter() - started
        print(f"{target}: {seconds:.0f} s, R-hat {found['rhat']:.4f}", flush=True)


if __name__ == "__main__":
    main()
