"""Bambi models: results as Bambi itself reports them, of the posterior that PyMC samples."""

import bambi
import numpy as np
import pandas as pd
import pytest
from arviz_base import from_dict
from scipy import stats

from nnghmc import HMC, from_bambi, sample
from nnghmc.engine.statistics import standard_errors
from nnghmc.errors import PosteriorError
from nnghmc.model.frontends import from_pymc
from nnghmc.model.targets import load_target
from nnghmc.run.arviz import for_users_arviz
from support import FALSE_ALARMS

GENERATOR = np.random.default_rng(0)
GROUPS = np.repeat(list("abcdefgh"), 25)
LEVELS = dict(zip("abcdefgh", GENERATOR.normal(0, 0.5, 8), strict=True))
X = GENERATOR.normal(3, 1, size=200)
ROWS = pd.DataFrame(
    {
        "y": 1 + 0.5 * X + [LEVELS[group] for group in GROUPS] + GENERATOR.normal(0, 1.5, 200),
        "x": X,
        "kind": pd.Categorical(GENERATOR.choice(["u", "v", "w"], 200)),
        "group": GROUPS,
        "choice": GENERATOR.choice(["A", "B", "C"], 200),
        "passed": GENERATOR.integers(0, 2, 200),
    }
)


def group_effects():
    return bambi.Model("y ~ x + kind + (1 + x|group)", ROWS)


def categorical_response():
    """Every coefficient has an axis for the levels of the response, which Bambi puts first."""
    return bambi.Model("choice ~ x + kind + (1|group)", ROWS, family="categorical")


def two_predictors():
    """A linear predictor for the spread too, each with an intercept of its own."""
    return bambi.Model(bambi.Formula("y ~ x + (1|group)", "sigma ~ x + kind"), ROWS)


def not_centred():
    return bambi.Model("y ~ x + kind", ROWS, center_predictors=False)


def other_names():
    model = bambi.Model("passed ~ x*kind", ROWS, family="bernoulli")
    model.build()
    model.set_alias({"Intercept": "level", "x": "slope"})
    return model


def no_intercept():
    return bambi.Model("y ~ 0 + x + kind", ROWS)


MODELS = [group_effects, categorical_response, two_predictors, not_centred, other_names]
MODELS.append(no_intercept)


def results_of_bambi(model, positions):
    """What Bambi makes of the draws of its PyMC model."""
    plain = from_pymc(model.backend.model)
    values = plain.variables(positions)
    of_responses = {variable.name for variable in model.backend.model.deterministics}
    for name in of_responses & set(model.family.likelihood.params):
        del values[name]
    tree = from_dict({"posterior": values}, dims=plain.dims, coords=plain.coords)
    return model.backend._clean_results(for_users_arviz(tree), True, False).posterior


@pytest.mark.parametrize("make", MODELS)
def test_variables_are_those_that_bambi_reports(make):
    model = make()
    posterior = from_bambi(model)
    positions = GENERATOR.normal(size=(2, 3, posterior.dim))
    expected = results_of_bambi(model, positions)
    found = posterior.variables(positions)
    assert set(found) == set(expected.data_vars)
    for name, values in expected.data_vars.items():
        assert tuple(posterior.dims.get(name, ())) == values.dims[2:]
        np.testing.assert_allclose(found[name], values, rtol=1e-10, atol=1e-12)
        for dim in values.dims[2:]:
            assert list(posterior.coords[dim]) == list(values[dim].values)


@pytest.mark.parametrize("make", [group_effects, two_predictors])
def test_bambi_predicts_from_the_results_what_the_model_says(make):
    """Its predictions use the predictors as they are: the intercept must be that of these."""
    model = make()
    run = sample(from_bambi(model), 5, 2, method=HMC(1e-3, 2), progress=False)
    data = run.to_arviz()
    model.predict(data, kind="response_params")
    plain = from_pymc(model.backend.model).variables(run.draws)
    for name in ("mu", "sigma"):
        np.testing.assert_allclose(data.posterior[name], plain[name], rtol=1e-8)


def test_simulated_data_are_those_of_the_model():
    model = group_effects()
    posterior = from_bambi(model)
    positions = np.tile(GENERATOR.normal(0, 0.3, size=posterior.dim), (2, 200, 1))
    plain = from_pymc(model.backend.model).variables(positions[:1, :1])
    z = (posterior.predictions(positions, seed=0)["y"] - plain["mu"]) / plain["sigma"]
    assert z.shape == (2, 200, 200)
    assert abs(z.mean()) < 5 / np.sqrt(z.size)
    assert abs(z.std() - 1) < 5 / np.sqrt(2 * z.size)


def moments(posterior):
    """First and second moments of every variable that both have, each with its error."""
    found = []
    for name in sorted(posterior.data_vars):
        values = posterior[name].values
        draws = values.reshape(*values.shape[:2], -1)
        draws = draws - REFERENCE.get(name, 0.0)
        found += [(power.mean(axis=(0, 1)), standard_errors(power)) for power in (draws, draws**2)]
    return np.concatenate(found, axis=1)


REFERENCE = {"Intercept": 1.0, "x": 0.5}
"""Where squares are taken around: those around zero would say little of the spread."""


def test_a_formula_with_group_effects_agrees_with_pymc_own_sampler():
    # A prior away from zero: near it the posterior is a funnel, and some trajectories diverge.
    scale = bambi.Prior("Gamma", alpha=4, beta=4)
    priors = {"1|group": bambi.Prior("Normal", mu=0, sigma=scale)}
    model = bambi.Model("y ~ x + kind + (1|group)", ROWS, priors=priors)
    run = sample(model, 1000, 4, progress=False)
    assert run.notes == ()
    options = {"cores": 1, "chains": 2, "random_seed": 9, "progressbar": False}
    theirs = model.fit(700, 500, compile_kwargs={"mode": "JAX"}, **options).posterior
    ours = run.to_arviz().posterior
    assert set(ours.data_vars) == set(theirs.data_vars)
    assert {name: ours[name].dims for name in ours} == {name: theirs[name].dims for name in ours}
    (means, errors), (others, other_errors) = moments(ours), moments(theirs)
    z = (means - others) / np.hypot(errors, other_errors)
    assert len(z) == 2 * (8 + 6)
    assert np.abs(z).max() < stats.norm.isf(FALSE_ALARMS / 2 / len(z)), np.round(z, 1)


def test_only_a_model_of_bambi_will_do():
    with pytest.raises(PosteriorError, match=r"needs a bambi\.Model, got int"):
        from_bambi(3)


def test_the_command_line_takes_a_model_from_a_file(tmp_path):
    file = tmp_path / "people.py"
    file.write_text(
        "import bambi, pandas\n"
        "rows = pandas.DataFrame({'y': [1.0, 2.0, 4.0, 4.5], 'x': [0.0, 1.0, 2.0, 3.0]})\n"
        "model = bambi.Model('y ~ x', rows)\n"
    )
    posterior = load_target(f"{file}:model")
    assert set(posterior.variables(np.zeros((1, 1, 3)))) == {"Intercept", "x", "sigma"}
