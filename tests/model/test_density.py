"""Densities behind a posterior: the one in memory, and any other that keeps the contract."""

import os
import subprocess
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nnghmc import HMC, Posterior, from_log_density, sample
from nnghmc.errors import PosteriorError
from nnghmc.model.density import Density, InMemory
from nnghmc.model.fingerprint import difference, fingerprint
from nnghmc.model.monitor import Monitor, Tally

evaluate = eqx.filter_jit(lambda function, position: jax.vmap(function)(position))
ROWS = np.random.default_rng(0).normal(size=(12, 3))
INITIAL = {"a": 0.0, "b": np.zeros(2)}


class InBlocks(eqx.Module):
    """A normal density of rows, whose data are read block by block."""

    blocks: jax.Array

    def potential(self, position):
        return self.potential_and_gradient(position)[0]

    def potential_and_gradient(self, position):
        def add(total, block):
            away = position - block
            return (total[0] + 0.5 * jnp.sum(away**2), total[1] + jnp.sum(away, axis=0)), None

        start = (jnp.zeros((), position.dtype), jnp.zeros_like(position))
        return jax.lax.scan(add, start, self.blocks)[0]


def log_likelihood(parameters, rows):
    flat = jnp.concatenate([parameters["a"][jnp.newaxis], parameters["b"]])
    return -0.5 * jnp.sum((flat - rows) ** 2)


def in_blocks(**options):
    return Posterior.over(InBlocks(jnp.asarray(ROWS.reshape(4, 3, 3))), INITIAL, **options)


def test_any_density_gives_the_numbers_of_the_same_one_in_memory():
    other, in_memory = in_blocks(), Posterior(log_likelihood, None, ROWS, INITIAL)
    positions = jnp.asarray(np.random.default_rng(1).normal(size=(5, 3)))
    for name in ("potential", "gradient", "potential_and_gradient"):
        found, expected = (evaluate(getattr(p, name), positions) for p in (other, in_memory))
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12), found, expected)
    assert other.layout == in_memory.layout
    assert other.energy_precision == in_memory.energy_precision == np.finfo(float).eps


def test_its_arrays_are_inputs_of_compiled_code():
    posterior = in_blocks()
    for function in (posterior.potential, posterior.gradient, posterior.potential_and_gradient):
        program = evaluate.lower(function, jnp.zeros((1, 3))).as_text()
        assert "tensor<4x3x3xf64>" in program.split("@main(")[1].splitlines()[0]


def test_it_reports_variables_and_labels_like_any_other():
    posterior = in_blocks(
        constrain=lambda p: {"scale": jnp.exp(p["a"]), "b": p["b"]},
        dims={"b": ["side"]},
        coords={"side": ["left", "right"]},
        observed={"y": ROWS[:, 0]},
        pointwise=lambda p, data: -0.5 * (p["a"] - jnp.asarray(ROWS[:, 0])) ** 2,
        num_observations=12,
    )
    draws = np.random.default_rng(2).normal(size=(2, 5, 3))
    np.testing.assert_allclose(posterior.variables(draws)["scale"], np.exp(draws[..., 0]))
    assert posterior.log_likelihoods(draws)["y"].shape == (2, 5, 12)
    assert repr(posterior) == "Posterior(a, b[2]; 3 dimensions, 12 observations)"
    assert repr(in_blocks()) == "Posterior(a, b[2]; 3 dimensions)"


def test_it_is_sampled_like_the_same_one_in_memory():
    settings = {"method": HMC(step_size=0.1, num_steps=(2, 5), warmup=10), "progress": False}
    other, in_memory = (
        sample(posterior, 50, 2, **settings).draws
        for posterior in (in_blocks(), Posterior(log_likelihood, None, ROWS, INITIAL))
    )
    np.testing.assert_allclose(other, in_memory, rtol=1e-8)
    assert other.std() > 0.1


def test_what_only_data_in_memory_have_is_absent():
    posterior = in_blocks()
    assert posterior.data is posterior.log_likelihood is posterior.log_prior is None
    assert not posterior.has_prior_apart
    for without_data in (posterior, from_log_density(lambda p: -jnp.sum(p**2), np.zeros(2))):
        with pytest.raises(PosteriorError, match=r"data in memory.*Make it with nnghmc\.Posterior"):
            without_data.batch_gradient(10)


def test_mini_batches_of_data_in_memory_are_unbiased():
    posterior = Posterior(log_likelihood, lambda p: -(p["a"] ** 2), ROWS, INITIAL)
    estimate, position = posterior.batch_gradient(6), jnp.array([0.3, -0.2, 0.1])
    keys = jax.random.split(jax.random.key(0), 4000)
    found = jax.jit(jax.vmap(lambda key: estimate(key, position)))(keys)
    error = found.std(axis=0) / np.sqrt(len(keys))
    assert np.all(np.abs(found.mean(axis=0) - posterior.gradient(position)) < 5 * error)


def test_it_has_a_fingerprint():
    posterior = in_blocks()
    again = Posterior.over(InBlocks(jnp.asarray(ROWS.reshape(4, 3, 3)) + 1), INITIAL)
    assert difference(fingerprint(posterior), fingerprint(in_blocks())) == ""
    assert difference(fingerprint(posterior), fingerprint(again)) == "its data are different"


def test_its_own_monitor_counts():
    class Counting(Monitor):
        counts = True

        @property
        def tally(self):
            return Tally(potentials=3)

    posterior = in_blocks(monitor=Counting())
    assert posterior.calls == Tally(potentials=3)


class Silent(eqx.Module):
    """A density that its position does not enter."""

    def potential(self, position):
        return jnp.zeros(())

    def potential_and_gradient(self, position):
        return jnp.zeros(()), jnp.zeros_like(position)


class OfVectors(Silent):
    def potential(self, position):
        return position**2


class OfTheWrongShape(Silent):
    def potential(self, position):
        return jnp.sum(position**2)

    def potential_and_gradient(self, position):
        return self.potential(position), position[:-1]


@pytest.mark.parametrize(
    ("density", "words"),
    [
        (lambda position: 0.0, ["must have the methods potential", "equinox.Module"]),
        (Silent(), ["does not depend on the position"]),
        (OfVectors(), ["potential must return one real number", "(3,)"]),
        (OfTheWrongShape(), ["array of shape (3,)", "((), (2,))"]),
    ],
)
def test_what_does_not_keep_the_contract_is_refused(density, words):
    with pytest.raises(PosteriorError) as caught:
        Posterior.over(density, np.zeros(3))
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_the_contract_is_a_protocol():
    assert isinstance(in_blocks()._density, Density)
    assert isinstance(InMemory(log_likelihood, None, None, in_blocks().layout), Density)


ON_TWO_DEVICES = """
import equinox as eqx, jax, jax.numpy as jnp, numpy as np, nnghmc
from jax.sharding import Mesh, NamedSharding, PartitionSpec

assert len(jax.devices()) == 2
rows = np.random.default_rng(0).normal(size=(4000, 3))
sharding = NamedSharding(Mesh(np.array(jax.devices()), ("rows",)), PartitionSpec("rows"))
data = jax.device_put(rows, sharding)
array = type(data)
on_host, value = array.__array__, array._value
refuse = property(lambda self: 1 / 0 if self.size > 1000 else value.fget(self))
array.__array__ = lambda self, *a, **k: 1 / 0 if self.size > 1000 else on_host(self, *a, **k)
array._value = refuse
posterior = nnghmc.Posterior(lambda p, x: -0.5 * jnp.sum((p - x) ** 2), None, data, np.zeros(3))
assert posterior.data is data
assert posterior.data.sharding == sharding
assert len(posterior.data.addressable_shards) == 2
evaluate = eqx.filter_jit(lambda function, position: function(position))
potential, gradient = evaluate(posterior.potential_and_gradient, posterior.initial)
np.testing.assert_allclose(potential, 0.5 * np.sum(rows**2))
np.testing.assert_allclose(gradient, -rows.sum(axis=0))
assert not data.is_deleted()
missing = data.at[7].set(jnp.nan)
try:
    nnghmc.Posterior(lambda p, x: -jnp.sum((p - x) ** 2), None, missing, np.zeros(3))
except nnghmc.NnghmcError as error:
    assert "3 of 12000 values missing" in str(error)
else:
    raise AssertionError("NaN was not noticed")
try:
    np.asarray(data)
except ZeroDivisionError:
    print("stayed where they were")
"""


def test_data_stay_on_the_devices_they_are_on():
    """Checks too: a copy to the host is an error in that process."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=2"
    environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-c", ON_TWO_DEVICES]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip() == "stayed where they were"


def test_arrays_of_jax_are_used_as_they_are():
    rows = jnp.asarray(ROWS)
    assert Posterior(log_likelihood, None, rows, INITIAL).data is rows
