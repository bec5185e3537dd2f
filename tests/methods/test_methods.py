"""Every method with a tuning of one's own, how it is chosen, and surrogates used again."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nnghmc import (
    HMC,
    SGHMC,
    SGLD,
    Auto,
    GradientMLP,
    MetropolisSGHMC,
    NaiveSGHMC,
    NNgHMC,
    from_log_density,
    sample,
)
from nnghmc.errors import SettingsError
from nnghmc.methods import METHODS, as_method
from support import QUICK

LEARNING = QUICK["method"]
MINI_BATCHES = {"num_steps": 4, "warmup": 20, "batch_size": 50}
TUNED = {
    "nnghmc": replace(LEARNING, step_size=0.05, num_steps=4),
    "hmc": HMC(0.05, 4, warmup=20),
    "sgld": SGLD(0.05, **MINI_BATCHES),
    "sghmc": SGHMC(0.05, **MINI_BATCHES),
    "naive-sghmc": NaiveSGHMC(0.05, **MINI_BATCHES),
    "metropolis-sghmc": MetropolisSGHMC(0.05, **MINI_BATCHES),
}


def kinds(run):
    return {note.kind for note in run.notes}


def test_every_method_is_here_or_among_those_that_tune_themselves():
    assert set(METHODS) == {"auto", "nuts", *TUNED}
    for name, method in TUNED.items():
        assert type(method) is METHODS[name]
        assert as_method(name) == METHODS[name]()
        assert as_method(method) is method


@pytest.mark.parametrize("name", TUNED)
def test_every_method_gives_a_run_that_says_whether_it_is_exact(logistic, name):
    run = sample(logistic, 30, 2, method=TUNED[name], progress=False)
    assert run.draws.shape == (2, 30, 3)
    assert np.isfinite(run.draws).all()
    assert run.exact is (name in ("nnghmc", "hmc", "metropolis-sghmc"))
    assert ("NOT exact" in str(run)) is not run.exact
    assert ("not exact" in kinds(run)) is not run.exact
    assert bool(np.isnan(run.acceptance)) is not run.exact
    assert run.to_arviz().posterior.attrs["exact"] == int(run.exact)
    assert "beta[0]" in str(run.summary())
    assert not np.array_equal(run.draws[0], run.draws[1])


@pytest.mark.parametrize(
    ("name", "batches", "potentials"),
    [
        ("sgld", 4 * 60, 0),
        ("sghmc", 4 * 60, 0),
        ("naive-sghmc", 5 * 60, 0),
        ("metropolis-sghmc", 5 * 60, 60),
    ],
)
def test_mini_batch_gradients_are_counted(logistic, name, batches, potentials):
    method = replace(TUNED[name], step_size=0.01)
    run = sample(logistic, 30, 2, method=method, progress=False)
    cost = run.cost.sample
    assert (cost.batch_gradients, cost.true_potentials) == (batches, potentials)
    assert (cost.true_gradients, cost.learned_gradients) == (0, 0)
    assert f"{batches:,}" in str(run)


def test_a_chain_that_is_lost_is_noted(logistic):
    method = SGLD(1e4, 5, warmup=20, batch_size=50)
    run = sample(logistic, 40, 2, method=method, progress=False)
    assert run.divergences > 0
    assert "divergences" in kinds(run)


def test_mini_batches_average_to_the_gradient(logistic):
    """An unbiased estimate whose error falls with the number of batches."""
    position = jnp.array([0.3, -0.2, 0.5])
    batch_gradient = logistic.batch_gradient(20)
    keys = jax.random.split(jax.random.key(0), 20_000)
    estimates = np.asarray(jax.vmap(batch_gradient, (0, None))(keys, position))
    error = estimates.std(axis=0) / np.sqrt(len(keys))
    z = (estimates.mean(axis=0) - logistic.gradient(position)) / error
    assert np.abs(z).max() < 4


@pytest.mark.parametrize(
    ("method", "words"),
    [
        (lambda: SGHMC(batch_size=10**6), "data of 300 rows"),
        (lambda: NNgHMC(network="perceptron"), "mlp, blocks, potential, bases, gp"),
        (lambda: Auto(network="perceptron"), "mlp, blocks, potential, bases, gp"),
        (lambda: SGLD(batch_size="many"), "batch_size must be a positive whole number"),
        (lambda: NNgHMC(surrogate=3), "surrogate must be a Surrogate"),
        (lambda: Auto(surrogate=3), "surrogate must be a Surrogate"),
        (lambda: NNgHMC(network=GradientMLP), "the class GradientMLP; call it"),
        (
            lambda: SGHMC(0.1, batch_size=50, noise=100.0),
            "noise must be at most 2 friction / step_size, 20 here",
        ),
        (lambda: SGHMC(friction=0.0), "friction"),
        (lambda: NNgHMC, r"the class NNgHMC; call it, as NNgHMC\(\)"),
        (lambda: 3, r"method such as nnghmc.NUTS\(\), got 3"),
    ],
)
def test_bad_settings_of_methods_are_refused(logistic, method, words):
    with pytest.raises(SettingsError, match=words):
        sample(logistic, method=method(), progress=False)


def test_methods_without_a_mass_matrix_take_none():
    for kind in (SGLD, SGHMC):
        with pytest.raises(TypeError, match="inverse_mass_matrix"):
            kind(inverse_mass_matrix=np.ones(3))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"step_size": 0.1}, r"method=nnghmc\.NNgHMC\(step_size=0\.1\)"),
        ({"method": "nuts", "step_size": 0.1}, r"method=nnghmc\.NNgHMC\(step_size=0\.1\)"),
        ({"method": "auto", "num_steps": 5}, r"method=nnghmc\.NNgHMC\(num_steps=5\)"),
        ({"method": "hmc", "surrogate": None}, r"method=nnghmc\.NNgHMC\(surrogate=\.\.\.\)"),
        ({"way": "learn"}, r"method=nnghmc\.Auto\(way='learn'\)"),
        ({"batch_size": 100}, r"batch_size.*SGLD"),
        ({"mini_batches": 100}, "no argument 'mini_batches'"),
    ],
)
def test_a_setting_in_the_wrong_place_is_refused_with_the_right_one(logistic, settings, words):
    with pytest.raises(TypeError, match=words):
        sample(logistic, progress=False, **settings)


def test_mini_batches_need_data():
    posterior = from_log_density(lambda x: -jnp.sum(x**2), np.zeros(2))
    with pytest.raises(SettingsError, match="this posterior has none"):
        sample(posterior, method="sgld")


@pytest.mark.parametrize("name", ["gp", "bases"])
def test_surrogate_hmc_is_reached_by_the_name_of_a_model(logistic, name):
    method = replace(LEARNING, network=name, epochs=None)
    run = sample(logistic, 30, 2, method=method, progress=False)
    assert run.handed_over
    assert run.title == f"NNgHMC, {name}"
    assert run.cost.sample.true_gradients == 0


def test_a_surrogate_is_used_again(logistic):
    first = sample(logistic, 5, 2, **QUICK)
    again = sample(
        logistic, 50, 2, method=replace(LEARNING, surrogate=first.surrogate), progress=False
    )
    assert again.handed_over
    assert again.surrogate is first.surrogate
    (decision,) = again.decisions
    assert decision.draws_collected == 0
    assert again.cost.collect.seconds == 0
    assert again.cost.sample.true_gradients == 0
    assert again.gradient_data is None


def test_a_run_with_a_surrogate_is_independent_of_the_one_it_came_from(logistic):
    """With the same seed: they start apart, and shared randomness would bring them together."""
    method = replace(LEARNING, step_size=0.05)
    first = sample(logistic, 300, 2, method=method, progress=False)
    reusing = replace(method, surrogate=first.surrogate)
    again = sample(logistic, 300, 2, method=reusing, progress=False)
    assert not np.array_equal(first.warmup_draws[:, 0], again.warmup_draws[:, 0])
    ends = [run.draws[:, 100:].reshape(-1, 3) for run in (first, again)]
    correlations = [np.corrcoef(ends[0][:, i], ends[1][:, i])[0, 1] for i in range(3)]
    assert np.abs(correlations).max() < 0.4


def test_a_surrogate_that_does_not_fit_is_not_used(logistic):
    """One of the same shape, learned on another posterior: the probe finds out."""
    far = from_log_density(
        lambda p: -5e4 * jnp.sum((p["beta"] - 3) ** 2), {"beta": np.full(3, 3.0)}
    )
    method = replace(LEARNING, step_size=0.002)
    other = sample(far, 5, 2, method=method, progress=False).surrogate
    run = sample(logistic, 20, 2, method=replace(LEARNING, surrogate=other), progress=False)
    assert not run.handed_over
    assert run.cost.sample.learned_gradients == 0
    assert run.cost.sample.true_gradients > 0
