"""One list of front ends, from which everything else that depends on them is derived."""

import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import jax.numpy as jnp
import numpy as np
import pytest

from nnghmc import from_log_density
from nnghmc.errors import PosteriorError
from nnghmc.model import frontends
from nnghmc.model.frontends import as_posterior, is_model, registry
from nnghmc.model.frontends.registry import FRONT_ENDS, FrontEnd, front_end_of
from nnghmc.model.targets import FORMS, forms

PROJECT = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]


@pytest.mark.parametrize("name", FRONT_ENDS)
def test_every_front_end_has_a_file_an_extra_a_public_function_and_its_place_in_messages(name):
    assert find_spec(f"nnghmc.model.frontends.{name}") is not None
    assert name in PROJECT["optional-dependencies"]
    assert getattr(frontends, f"from_{name}").__doc__
    with pytest.raises(PosteriorError) as caught:
        as_posterior(3)
    model = f"a {FRONT_ENDS[name].title} model"
    assert model in str(caught.value)
    assert model in FORMS


def test_a_target_may_also_be_built_in():
    assert forms(["banana", "garch"]) == f"a built-in name (banana, garch), {FORMS}"
    assert forms([]) == FORMS


class Sketch:
    """A model of a package that does not exist."""

    def __init__(self, scale):
        self.scale = scale


@pytest.fixture
def sketches(monkeypatch):
    """One file and one line in the list: a package whose models are sketches."""
    package, file = ModuleType("sketches"), ModuleType("nnghmc.model.frontends.sketches")
    package.Sketch = Sketch
    file.from_sketches = lambda model: from_log_density(
        lambda x: -0.5 * jnp.sum((x / model.scale) ** 2), np.zeros(2)
    )
    monkeypatch.setitem(sys.modules, "sketches", package)
    monkeypatch.setitem(sys.modules, "nnghmc.model.frontends.sketches", file)
    new = FrontEnd("sketches", "Sketches", registry.instances_of("sketches", "Sketch"))
    monkeypatch.setitem(registry.FRONT_ENDS, "sketches", new)
    return new


def test_a_new_front_end_is_one_file_and_one_line(sketches):
    assert is_model(Sketch(2.0))
    assert front_end_of(Sketch(2.0)) is sketches
    posterior = as_posterior(Sketch(2.0))
    assert posterior.potential(jnp.ones(2)) == pytest.approx(0.25)
    with pytest.raises(PosteriorError, match="a Sketch takes none; leave them out"):
        as_posterior(Sketch(2.0), model_args=(1,))


def test_a_package_that_is_not_loaded_has_no_models(monkeypatch, sketches):
    monkeypatch.delitem(sys.modules, "sketches")
    assert not is_model(Sketch(2.0))
    with pytest.raises(PosteriorError, match=r'pip install "nnghmc\[sketches\]"'):
        sketches.posterior(Sketch(2.0))
