"""A fingerprint recognises a posterior, and says how another one differs."""

import json
import warnings

import jax.numpy as jnp
import numpy as np
import pytest

from nnghmc import Posterior, from_callable, from_log_density
from nnghmc.model.fingerprint import difference, fingerprint
from support import logistic_data, logistic_log_likelihood, logistic_log_prior


def regression(data=None, scale=1.0, **options):
    return Posterior(
        logistic_log_likelihood,
        lambda p: scale * logistic_log_prior(p),
        logistic_data() if data is None else data,
        {"beta": np.zeros(3)},
        **options,
    )


def stored(posterior):
    return json.loads(json.dumps(fingerprint(posterior)))


def test_the_same_posterior_has_the_same_fingerprint():
    assert difference(stored(regression()), stored(regression())) == ""


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (lambda: regression(logistic_data(seed=1)), "its data are different"),
        (lambda: regression(scale=1.001), "its log density at a fixed point was -406."),
        (
            lambda: from_log_density(lambda p: -jnp.sum(p["b"] ** 2), {"b": np.zeros(3)}),
            "its parameters are beta[3], and those of this posterior are b[3]",
        ),
        (
            lambda: regression(constrain=lambda p: {"beta": jnp.exp(p["beta"])}),
            "it reports beta on another scale",
        ),
        (
            lambda: regression(constrain=lambda p: {"slope": p["beta"]}),
            "it reports beta, and this posterior slope",
        ),
        (lambda: regression(dims={"beta": ["feature"]}), "its dims or coords are different"),
    ],
)
def test_every_difference_is_named(other, words):
    assert difference(stored(regression()), stored(other())).startswith(words)


def test_labels_count_too():
    first, second = (
        regression(dims={"beta": ["side"]}, coords={"side": list(labels)})
        for labels in ("abc", "abd")
    )
    assert difference(stored(first), stored(second)) == "its dims or coords are different"


@pytest.mark.parametrize("block_bytes", [1, 1000, 10**9])
def test_data_are_read_in_blocks_of_any_size(block_bytes):
    assert fingerprint(regression(), block_bytes) == fingerprint(regression())


def test_a_function_outside_jax_that_cannot_take_a_point_is_no_trouble():
    def constrain(x):
        if x[0] != 0:
            raise ValueError("outside")
        return {"y": x}

    posterior = from_callable(lambda x: (-0.5 * x @ x, -x), 2, constrain=constrain)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = fingerprint(posterior)
    assert found["reported"]["y"][0] == 0
    assert np.isnan(found["reported"]["y"][1:]).all()
    assert difference(found, fingerprint(posterior)) == ""
