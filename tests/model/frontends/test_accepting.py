"""The user's own object, given to `sample`, to `estimate` and to the command line."""

import importlib
import sys
from functools import partial

import numpy as np
import numpyro
import numpyro.distributions as dist
import pymc as pm
import pytest
from numpyro.handlers import condition

from nnghmc import HMC, Posterior, estimate, sample
from nnghmc.errors import PosteriorError, TargetError
from nnghmc.model.frontends import as_posterior, from_bambi, from_numpyro, from_pymc
from nnghmc.model.targets import load_target

Y = np.array([0.3, -0.4, 1.2])


def numpyro_model(y=None):
    a = numpyro.sample("a", dist.Normal(0, 1))
    with numpyro.plate("row", len(Y)):
        numpyro.sample("y", dist.Normal(a, 1), obs=y)


def pymc_model():
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("a", 0, 1), 1, observed=Y)
    return model


def test_every_form_is_accepted():
    posterior = as_posterior(numpyro_model, (Y,))
    assert as_posterior(posterior) is posterior
    for other in (
        as_posterior(numpyro_model, model_kwargs={"y": Y}),
        as_posterior(partial(numpyro_model, Y)),
        as_posterior(condition(numpyro_model, {"y": Y})),
        as_posterior(pymc_model()),
    ):
        assert isinstance(other, Posterior)
        at = np.array([0.7])
        assert float(other.potential(at)) == pytest.approx(float(posterior.potential(at)))


@pytest.mark.parametrize(
    ("make", "options", "words"),
    [
        (
            lambda: 3,
            {},
            [
                "a Posterior, a PyMC model, a Bambi model, or a NumPyro model",
                "got int",
                "from_log_density",
            ],
        ),
        (lambda: dict, {}, ["got the class dict"]),
        (lambda: pymc_model, {}, ["no numpyro.sample site"]),
        (pymc_model, {"model_args": (1,)}, ["a Model takes none"]),
        (
            lambda: as_posterior(numpyro_model),
            {"model_kwargs": {"y": Y}},
            ["a Posterior takes none"],
        ),
        (
            lambda: numpyro_model,
            {"model_kwargs": {"z": Y}},
            ["1 argument failed", "'z'", "model_kwargs"],
        ),
    ],
)
def test_anything_else_is_told_in_one_line(make, options, words):
    model = make()
    for function in (sample, estimate):
        with pytest.raises(PosteriorError) as caught:
            function(model, **options)
        message = str(caught.value)
        assert "\n" not in message
        assert all(word in message for word in words), message


def test_models_are_sampled_and_estimated_as_they_are():
    settings = {"method": HMC(step_size=0.5, num_steps=3, warmup=5), "progress": False}
    run = sample(numpyro_model, 20, 2, model_args=(Y,), **settings)
    assert run.to_arviz().posterior["a"].shape == (2, 20)
    run = sample(pymc_model(), 20, 2, **settings)
    assert run.to_arviz().posterior["a"].shape == (2, 20)
    assert "NUTS is the faster way" in str(estimate(numpyro_model, model_kwargs={"y": Y}))


@pytest.mark.parametrize(
    ("package", "front_end"),
    [("pymc", from_pymc), ("numpyro", from_numpyro), ("bambi", from_bambi)],
)
def test_a_package_that_is_missing_is_named_with_its_remedy(monkeypatch, package, front_end):
    monkeypatch.setitem(sys.modules, package, None)  # what Python does when there is none
    with pytest.raises(PosteriorError) as caught:
        front_end(lambda: None)
    assert f'pip install "nnghmc[{package}]"' in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_package_that_fails_for_its_own_reasons_is_not_called_missing(monkeypatch):
    def failing(name, package=None):
        raise ModuleNotFoundError("No module named 'inner'", name="inner")

    monkeypatch.setattr(importlib, "import_module", failing)
    with pytest.raises(ModuleNotFoundError, match="inner"):
        from_pymc(pymc_model())


def test_packages_are_not_loaded_before_they_are_needed(monkeypatch):
    """The front ends' own files import them, so nothing of ours may import these files."""
    kept = dict(sys.modules)
    strangers = ("nnghmc", "bambi", "pymc", "numpyro", "pytensor")
    for name in list(sys.modules):
        if name.split(".")[0] in strangers:
            monkeypatch.delitem(sys.modules, name)
    for package in strangers[1:]:
        monkeypatch.setitem(sys.modules, package, None)
    try:
        fresh = importlib.import_module("nnghmc")
        importlib.import_module("nnghmc.cli.main")
        assert fresh is not kept["nnghmc"]
        with pytest.raises(ValueError, match="got int"):
            fresh.sample(3)
    finally:
        for name in [name for name in sys.modules if name.split(".")[0] == "nnghmc"]:
            del sys.modules[name]
        sys.modules.update({n: m for n, m in kept.items() if n.split(".")[0] == "nnghmc"})


FILE = """
from functools import partial
import numpy as np, numpyro, numpyro.distributions as dist, pymc as pm, nnghmc

Y = np.array([0.3, -0.4, 1.2])
calls = []

def model(y=Y):
    a = numpyro.sample("a", dist.Normal(0, 1))
    with numpyro.plate("row", len(y)):
        numpyro.sample("y", dist.Normal(a, 1), obs=y)

def with_arguments(y):
    model(y)

bound = partial(with_arguments, Y)
with pm.Model() as in_pymc:
    pm.Normal("y", pm.Normal("a", 0, 1), 1, observed=Y)

def posterior_from_numpyro():
    calls.append("once")
    return nnghmc.from_numpyro(with_arguments, Y)

def returns_a_model():
    return bound

def returns_pymc():
    return in_pymc

def returns_a_number():
    return 5
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    path = tmp_path / "models_of_mine.py"
    path.write_text(FILE)
    return path


@pytest.mark.parametrize(
    "name",
    ["model", "bound", "in_pymc", "posterior_from_numpyro", "returns_a_model", "returns_pymc"],
)
def test_a_target_may_name_any_of_them(file, name):
    posterior = load_target(f"{file}:{name}")
    expected = -0.5 * (0.7**2 + np.sum((Y - 0.7) ** 2)) - 2 * np.log(2 * np.pi)
    assert float(posterior.potential(np.array([0.7]))) == pytest.approx(-expected, rel=1e-7)
    calls = sys.modules["_nnghmc_target_models_of_mine"].calls
    assert calls == (["once"] if name == "posterior_from_numpyro" else [])


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("with_arguments", ["with_arguments()", "failed", "missing 1 required"]),
        ("returns_a_number", ["a Bambi model or a NumPyro model", "int"]),
        ("absent", ["has no 'absent'", "in_pymc"]),
    ],
)
def test_a_target_that_leads_nowhere_is_told(file, name, words):
    with pytest.raises(TargetError) as caught:
        load_target(f"{file}:{name}")
    assert all(word in str(caught.value) for word in words), str(caught.value)
