"""Values as JSON and arrays, and back: only what is known is written, and only that is made."""

import json
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
import pytest

from nnghmc import NUTS, Auto, Estimate, GradientMLP, Policy, QuadraticPlus, Training
from nnghmc.platform.codec import described, restored
from nnghmc.store.kinds import known_kinds

KINDS = known_kinds()


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        3,
        0.1,
        float("inf"),
        "word",
        (1, (2.5, None)),
        GradientMLP((8, 4), "tanh"),
        Training(epochs=7, patience=3),
        Policy(probe_draws=3),
        Auto(network=QuadraticPlus(), policy=Policy(probe_draws=3)),
        NUTS(estimate=Estimate(4, 1000, 2e-3, 10.0, float("inf"), 1e6, 1e-3, 1e-5)),
        {"a": 1, "b": (None, {"c": 0.5})},
    ],
)
def test_values_come_back_as_they_were(value):
    arrays = {}
    node = json.loads(json.dumps(described(value, arrays, KINDS)))
    assert restored(node, arrays, KINDS) == value


@pytest.mark.parametrize("array", [np.arange(6.0).reshape(2, 3), jnp.ones(3, jnp.float32)])
def test_arrays_come_back_as_they_were(array):
    arrays = {}
    found = restored(described((array, "x"), arrays, KINDS), arrays, KINDS)[0]
    np.testing.assert_array_equal(found, array)
    assert found.dtype == array.dtype


def test_what_is_not_ours_is_not_written():
    class Own(Training):
        pass

    for value in (print, object(), Own(), {1: "a"}):
        with pytest.raises(TypeError, match="cannot be written to a file"):
            described(value, {}, KINDS)


def test_no_other_class_is_made():
    with pytest.raises(KeyError):
        restored({"class": "Popen", "fields": {}}, {}, KINDS)
    with pytest.raises(ValueError, match="has the parts"):
        restored({"class": "Training", "fields": {"speed": {"value": 1}}}, {}, KINDS)
    with pytest.raises(ValueError, match="has the parts"):
        restored({"class": "GradientData", "fields": {"steps": {"value": 1}}}, {}, KINDS)


def test_a_field_that_came_after_the_file_was_written_has_its_default():
    @dataclass(frozen=True)
    class Settings:
        size: int
        later: float = 0.5

    kinds = {"Settings": Settings}
    node = described(Settings(3), {}, kinds)
    del node["fields"]["later"]
    assert restored(node, {}, kinds) == Settings(3)
    del node["fields"]["size"]
    with pytest.raises(ValueError, match="Settings has the parts"):
        restored(node, {}, kinds)
