"""Every method of `sample` beside standard HMC and NNgHMC, and surrogates used again."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nnghmc import GradientMLP, MiniBatches, from_log_density, sample
from nnghmc.errors import SettingsError
from nnghmc.methods import METHODS
from support import QUICK

MINI_BATCHES = MiniBatches(size=50)


@pytest.mark.parametrize("method", [name for name in METHODS if name != "nuts"])
def test_every_method_gives_a_run_that_says_whether_it_is_exact(logistic, method):
    settings = {**QUICK, "step_size": 0.05, "num_steps": 4}
    run = sample(logistic, 30, 2, method=method, mini_batches=MINI_BATCHES, **settings)
    assert run.draws.shape == (2, 30, 3)
    assert np.isfinite(run.draws).all()
    assert run.exact is (method in ("nnghmc", "hmc", "metropolis-sghmc"))
    assert ("NOT exact" in str(run)) is not run.exact
    assert any("not exact" in note for note in run.notes) is not run.exact
    assert bool(np.isnan(run.acceptance)) is not run.exact
    assert run.to_arviz().posterior.attrs["exact"] == int(run.exact)
    assert "beta[0]" in str(run.summary())
    assert not np.array_equal(run.draws[0], run.draws[1])


@pytest.mark.parametrize(
    ("method", "batches", "potentials"),
    [
        ("sgld", 4 * 60, 0),
        ("sghmc", 4 * 60, 0),
        ("naive-sghmc", 5 * 60, 0),
        ("metropolis-sghmc", 5 * 60, 60),
    ],
)
def test_mini_batch_gradients_are_counted(logistic, method, batches, potentials):
    settings = {**QUICK, "step_size": 0.01, "num_steps": 4}
    run = sample(logistic, 30, 2, method=method, mini_batches=MINI_BATCHES, **settings)
    cost = run.cost.sample
    assert (cost.batch_gradients, cost.true_potentials) == (batches, potentials)
    assert (cost.true_gradients, cost.learned_gradients) == (0, 0)
    assert f"{batches:,}" in str(run)


def test_a_chain_that_is_lost_is_noted(logistic):
    run = sample(
        logistic, 40, 2, method="sgld", mini_batches=MINI_BATCHES, **{**QUICK, "step_size": 1e4}
    )
    assert run.divergences > 0
    assert any("diverged" in note for note in run.notes)


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
    ("settings", "words"),
    [
        ({"method": "sgld", "inverse_mass_matrix": np.ones(3)}, "SGLD has no mass matrix"),
        ({"method": "sghmc", "mini_batches": MiniBatches(10**6)}, "data of 300 rows"),
        ({"network": "perceptron"}, "mlp, blocks, potential, bases, gp"),
        ({"mini_batches": 100}, "mini_batches must be a MiniBatches"),
        ({"surrogate": 3}, "surrogate must be a Surrogate"),
        ({"network": GradientMLP}, "the class GradientMLP; call it"),
        (
            {"method": "sghmc", "step_size": 0.1, "mini_batches": MiniBatches(50, noise=100.0)},
            "noise must be at most 2 friction / step_size, 20 here",
        ),
    ],
)
def test_bad_settings_of_methods_are_told(logistic, settings, words):
    with pytest.raises(SettingsError, match=words):
        sample(logistic, **settings)


def test_mini_batches_need_data():
    with pytest.raises(SettingsError, match="this posterior has none"):
        sample(from_log_density(lambda x: -jnp.sum(x**2), np.zeros(2)), method="sgld")
    with pytest.raises(SettingsError, match="friction"):
        MiniBatches(friction=0.0)


@pytest.mark.parametrize("name", ["gp", "bases"])
def test_surrogate_hmc_is_reached_by_the_name_of_a_model(logistic, name):
    settings = {key: value for key, value in QUICK.items() if key not in ("network", "epochs")}
    run = sample(logistic, 30, 2, network=name, **settings)
    assert run.handed_over
    assert run.title == f"NNgHMC, {name}"
    assert run.cost.sample.true_gradients == 0


def test_a_surrogate_is_used_again(logistic):
    first = sample(logistic, 5, 2, **QUICK)
    again = sample(logistic, 50, 2, surrogate=first.surrogate, **QUICK)
    assert again.handed_over
    assert again.surrogate is first.surrogate
    assert again.decisions[0].draws_collected == 0
    assert "reused: acceptance" in str(again)
    assert again.cost.collect.seconds == 0
    assert again.cost.sample.true_gradients == 0
    assert again.gradient_data is None


def test_a_run_with_a_surrogate_is_independent_of_the_one_it_came_from(logistic):
    """With the same seed: they start apart, and shared randomness would bring them together."""
    settings = {**QUICK, "step_size": 0.05}
    first = sample(logistic, 300, 2, **settings)
    again = sample(logistic, 300, 2, surrogate=first.surrogate, **settings)
    ends = [run.draws[:, 100:].reshape(-1, 3) for run in (first, again)]
    correlations = [np.corrcoef(ends[0][:, i], ends[1][:, i])[0, 1] for i in range(3)]
    assert np.abs(correlations).max() < 0.4
    with pytest.raises(SettingsError, match="use a surrogate, got 'hmc'"):
        sample(logistic, method="hmc", surrogate=first.surrogate)


def test_a_surrogate_that_does_not_fit_is_not_used(logistic):
    """One of the same shape, learned on another posterior: the probe finds out."""
    far = from_log_density(
        lambda p: -5e4 * jnp.sum((p["beta"] - 3) ** 2), {"beta": np.full(3, 3.0)}
    )
    settings = {**QUICK, "step_size": 0.002}
    other = sample(far, 5, 2, **settings).surrogate
    run = sample(logistic, 20, 2, surrogate=other, **QUICK)
    assert not run.handed_over
    assert run.cost.sample.learned_gradients == 0
    assert run.cost.sample.true_gradients > 0
