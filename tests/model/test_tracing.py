"""Every parameter must enter the log density, whatever the function is made of; one trace does."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nnghmc import Posterior, from_log_density
from nnghmc.errors import PosteriorError

INITIAL = {"a": 0.5, "b": np.ones(2)}


def both(p):
    return -0.5 * (p["a"] ** 2 + jnp.sum(p["b"] ** 2))


def only_a(p):
    return -0.5 * p["a"] ** 2


@jax.custom_vjp
def with_own_gradient(a, b):
    return both({"a": a, "b": b})


with_own_gradient.defvjp(
    lambda a, b: (with_own_gradient(a, b), (a, b)), lambda saved, g: (-saved[0] * g, -saved[1] * g)
)


def in_scan(p):
    def add(total, b):
        return total - 0.5 * b**2, None

    return jax.lax.scan(add, -0.5 * p["a"] ** 2, p["b"])[0]


def in_loop(p):
    return jax.lax.fori_loop(0, 2, lambda i, total: total - 0.5 * p["b"][i] ** 2, only_a(p))


def in_branches(p):
    return jax.lax.cond(p["a"] > 0, lambda: only_a(p), lambda: both(p))


def through_a_reference(p):
    kept = jax.new_ref(jnp.zeros(()))
    kept[...] += both(p)
    return kept[...]


USES_BOTH = {
    "plain": both,
    "jit": jax.jit(both),
    "jit in jit": jax.jit(lambda p: only_a(p) + jax.jit(both)(p)),
    "scan": in_scan,
    "loop": in_loop,
    "branches": in_branches,
    "own gradient": lambda p: with_own_gradient(p["a"], p["b"]),
    "rematerialised": jax.checkpoint(both),
    "through vmap": lambda p: only_a(p) - 0.5 * jnp.sum(jax.vmap(lambda b: b**2)(p["b"])),
    "through a reference": through_a_reference,
    "outside JAX": lambda p: jax.pure_callback(
        lambda q: np.float64(both(q)), jax.ShapeDtypeStruct((), jnp.float64), p
    ),
}


@pytest.mark.parametrize("name", USES_BOTH)
def test_no_function_of_all_parameters_is_refused(name):
    posterior = from_log_density(USES_BOTH[name], INITIAL)
    if name != "outside JAX":
        assert float(posterior.potential(posterior.initial)) > 0


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (only_a, "b"),
        (jax.jit(only_a), "b"),
        (jax.jit(lambda p: jax.jit(only_a)(p) + 1), "b"),
        (lambda p: only_a(p) + 0 * jnp.size(p["b"]), "b"),
        (lambda p: only_a(p) + jnp.sum(jnp.zeros_like(p["b"])), "b"),
        (lambda p: (jnp.sin(p["b"]), only_a(p))[1], "b"),
        (lambda p: jnp.zeros(()), "a, b"),
        (lambda p: 3.0, "a, b"),
        (jax.jit(lambda p: 3.0), "a, b"),
    ],
)
def test_a_parameter_that_does_not_enter_is_named(function, names):
    with pytest.raises(PosteriorError, match=f"does not depend on {names}. Leave it out, or give"):
        from_log_density(function, INITIAL)


def test_prior_and_likelihood_are_seen_together():
    def likelihood(p, y):
        return -0.5 * jnp.sum((y - p["b"][0]) ** 2)

    Posterior(likelihood, only_a, np.ones(4), INITIAL)
    with pytest.raises(PosteriorError, match="does not depend on a"):
        Posterior(likelihood, lambda p: -jnp.sum(p["b"] ** 2), np.ones(4), INITIAL)
    with pytest.raises(PosteriorError, match="does not depend on a"):
        Posterior(likelihood, None, np.ones(4), INITIAL)


def test_each_function_is_traced_once():
    counts = {"likelihood": 0, "prior": 0}

    def likelihood(p, y):
        counts["likelihood"] += 1
        return -0.5 * jnp.sum((y - p["b"][0]) ** 2)

    def prior(p):
        counts["prior"] += 1
        return both(p)

    Posterior(likelihood, prior, np.ones(4), INITIAL)
    assert counts == {"likelihood": 1, "prior": 1}
