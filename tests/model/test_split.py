"""What is exact of a potential and what is expensive, and that both add up to it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nnghmc import Posterior, from_callable, from_log_density
from nnghmc.model.split import Split

ROWS, COLUMNS, GROUPS = 200, 5, 8
GENERATOR = np.random.default_rng(0)
DATA = {
    "x": GENERATOR.normal(size=(ROWS, COLUMNS)),
    "group": GENERATOR.integers(0, GROUPS, ROWS),
    "y": 1.0 * (GENERATOR.random(ROWS) < 0.5),
}


def bernoulli(logits, data):
    return jnp.sum(data["y"] * logits - jax.nn.softplus(logits))


def normal(values, scale=1.0):
    return jnp.sum(-0.5 * (values / scale) ** 2 - jnp.log(scale))


def posterior_of(log_likelihood, log_prior, **initial):
    initial = {name: np.zeros(shape) for name, shape in initial.items()}
    return Posterior(log_likelihood, log_prior, DATA, initial)


def plain():
    return posterior_of(
        lambda p, data: bernoulli(data["x"] @ p["beta"], data),
        lambda p: normal(p["beta"], 2.0),
        beta=COLUMNS,
    )


def centred():
    return posterior_of(
        lambda p, data: bernoulli(data["x"] @ p["beta"] + p["a"][data["group"]], data),
        lambda p: normal(p["beta"]) + normal(p["a"], jnp.exp(p["t"])) + normal(p["t"]),
        beta=COLUMNS,
        t=(),
        a=GROUPS,
    )


def non_centred():
    def log_likelihood(p, data):
        effects = jnp.exp(p["t"]) * p["z"]
        return bernoulli(data["x"] @ p["beta"] + effects[data["group"]], data)

    return posterior_of(
        log_likelihood,
        lambda p: normal(p["beta"]) + normal(p["z"]) + normal(p["t"]),
        beta=COLUMNS,
        t=(),
        z=GROUPS,
    )


def horseshoe():
    def log_likelihood(p, data):
        beta = p["z"] * jnp.exp(p["local"] + p["all"])
        return normal(data["y"] - data["x"] @ beta, jnp.exp(p["noise"]))

    return posterior_of(
        log_likelihood,
        lambda p: sum(normal(part) for part in p.values()),
        z=COLUMNS,
        local=COLUMNS,
        all=(),
        noise=(),
    )


def recursion():
    """A loop is expensive, whatever it is over: what goes into it is an input."""

    def log_likelihood(p, data):
        rate = jax.nn.sigmoid(p["a"] + p["b"])
        _, path = jax.lax.scan(lambda x, y: (rate * x + y,) * 2, 0.0, data["y"])
        return normal(path - p["mean"])

    return posterior_of(
        log_likelihood, lambda p: sum(normal(part) for part in p.values()), a=(), b=(), mean=()
    )


def process():
    """A factorisation of a large matrix is expensive."""

    def log_likelihood(p, data):
        x = data["x"][:40, 0]
        kernel = jnp.exp(p["v"] - ((x[:, None] - x) * jnp.exp(-p["l"])) ** 2) + jnp.eye(40)
        white = jax.scipy.linalg.solve_triangular(jnp.linalg.cholesky(kernel), data["y"][:40])
        return normal(white)

    return posterior_of(log_likelihood, lambda p: normal(p["l"]) + normal(p["v"]), l=(), v=())


def closed_over():
    """A single function of the parameters: large arrays in it count as data."""

    def log_density(p):
        eta = DATA["x"] @ p["beta"] + (jnp.exp(p["t"]) * p["z"])[DATA["group"]]
        return bernoulli(eta, DATA) + normal(p["z"]) - 2 * normal(p["t"]) - jnp.sum(p["beta"] ** 2)

    initial = {"beta": np.zeros(COLUMNS), "t": 0.0, "z": np.zeros(GROUPS)}
    return from_log_density(log_density, initial)


def cheap():
    """Nothing of it is expensive, so it is learned whole if at all."""
    return from_log_density(lambda q: -jnp.sum((q - jnp.arange(4.0)) ** 4), np.zeros(4))


EXPECTED = {
    plain: (COLUMNS, True),
    centred: (COLUMNS + GROUPS, True),
    non_centred: (COLUMNS + GROUPS, True),
    horseshoe: (COLUMNS + 1, True),
    recursion: (2, True),
    process: (2, True),
    closed_over: (COLUMNS + GROUPS, True),
    cheap: (4, False),
}
"""The number of inputs, and whether there is an exact part."""


@pytest.fixture(params=EXPECTED, ids=lambda make: make.__name__)
def case(request):
    posterior = request.param()
    return posterior, posterior.split(), request.param


def test_the_inputs_are_the_narrowest(case):
    _, split, make = case
    assert (split.num_inputs, split.has_exact_part) == EXPECTED[make]


def test_both_parts_add_up_to_the_potential_and_its_gradient(case):
    posterior, split, _ = case

    def by_parts(position):
        inputs, back = jax.vjp(split.inputs, position)
        exact, exact_gradient = jax.value_and_grad(split.exact)(position)
        value, gradient = split.expensive_and_gradient(inputs)
        return exact + value, exact_gradient + back(gradient)[0]

    positions = jnp.asarray(np.random.default_rng(1).normal(size=(6, posterior.dim)))
    found = jax.jit(jax.vmap(by_parts))(positions)
    expected = jax.jit(jax.vmap(posterior.potential_and_gradient))(positions)
    for part, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(part, other, rtol=1e-9, atol=1e-9)


def test_another_prior_has_the_same_expensive_function():
    one, other = non_centred(), non_centred()
    wide = Posterior(
        one.log_likelihood, lambda p: -jnp.sum(p["z"] ** 4), DATA, one.layout.unflatten(one.initial)
    )
    parts = [part.split() for part in (one, other, wide)]
    position = jnp.asarray(np.random.default_rng(2).normal(size=one.dim))
    inputs = [part.inputs(position) for part in parts]
    for found in inputs[1:]:
        np.testing.assert_array_equal(found, inputs[0])
    values = [float(part.expensive(inputs[0])) for part in parts]
    assert values[1:] == pytest.approx(values[:1] * 2, rel=1e-12)


def test_data_are_inputs_of_compiled_code():
    split = closed_over().split()
    constants = jax.make_jaxpr(lambda split, q: split.exact(q) + split.expensive(split.inputs(q)))(
        split, jnp.zeros(COLUMNS + GROUPS + 1)
    ).consts
    assert sum(np.size(part) for part in constants) < ROWS
    assert isinstance(split, Split)
    assert any(np.size(leaf) == ROWS * COLUMNS for leaf in jax.tree.leaves(split))


def test_a_function_outside_jax_is_expensive_as_a_whole():
    posterior = from_callable(lambda q: (-0.5 * q @ q, -q), np.zeros(2))
    split, position = posterior.split(), jnp.array([1.0, 2.0])
    assert (split.num_inputs, split.has_exact_part) == (2, False)
    np.testing.assert_array_equal(split.inputs(position), position)
    assert split.exact(position) == 0
    value, gradient = split.with_function(position, split.expensive_and_gradient)
    assert value == 2.5
    np.testing.assert_array_equal(gradient, position)


def test_a_split_is_found_once():
    posterior = non_centred()
    assert posterior.split() is posterior.split()


def test_any_function_can_stand_for_the_expensive_one(case):
    """Its value and its gradient are pulled back through the map from parameters to inputs."""
    posterior, split, _ = case

    def waves(inputs):
        return jnp.sum(jnp.sin(inputs)) + inputs[0] * inputs[-1]

    def composed(position):
        return split.exact(position) + waves(split.inputs(position))

    position = jnp.asarray(np.random.default_rng(3).normal(size=posterior.dim))
    found = split.with_function(position, jax.value_and_grad(waves))
    expected = jax.value_and_grad(composed)(position)
    for part, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(part, other, rtol=1e-10, atol=1e-12)
