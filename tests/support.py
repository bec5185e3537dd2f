"""What the tests share: targets with known moments, random networks, a small regression."""

from dataclasses import dataclass
from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

from nnghmc import GradientMLP, NNgHMC, TrainingSchedule
from nnghmc.paper.data import COVER_TYPE
from nnghmc.paper.regressions import Regression
from nnghmc.paper.targets import Banana
from nnghmc.surrogates.models.gradient_mlp import NetworkGradient
from nnghmc.surrogates.parts.scaling import Standardisation
from nnghmc.surrogates.training import in_precision_of_positions

QUICK = {  # arguments of `sample` for a run of a second or two
    "method": NNgHMC(
        step_size=0.15,
        num_steps=5,
        warmup=20,
        epochs=5,
        network=GradientMLP(16),
        schedule=TrainingSchedule.once(20, tolerance=1.0, probe_draws=5),
    ),
    "progress": False,
}


@dataclass(frozen=True)
class KnownTarget:
    """A density of which independent draws can be made, and so every moment is known."""

    potential: object
    exact_draws: object
    step_size: float
    num_steps: int


def _gaussian_draws(number, seed):
    scales = np.array([0.5, 1.0, 2.0])
    return np.random.default_rng(seed).normal(size=(number, 3)) * scales


def _gaussian_potential(q):
    return 0.5 * jnp.sum((q / jnp.array([0.5, 1.0, 2.0])) ** 2)


def _skewed_draws(number, seed):
    """Logarithms of gamma variables with shapes 0.8 and 2: skewed, a long tail on the left."""
    return np.log(np.random.default_rng(seed).gamma([0.8, 2.0], size=(number, 2)))


def _skewed_potential(q):
    return jnp.sum(jnp.exp(q) - jnp.array([0.8, 2.0]) * q)


def _banana_potential(q):
    return -Banana().log_density(q)


KNOWN_TARGETS = {
    "gaussian": KnownTarget(_gaussian_potential, _gaussian_draws, 0.5, 4),
    "skewed": KnownTarget(_skewed_potential, _skewed_draws, 0.5, 4),
    "banana": KnownTarget(_banana_potential, Banana().exact_draws, 0.08, 4),
}


@cache
def random_gradient(target, seed=0, hidden=16):
    """A network with random weights, scaled to the size of the target's positions and gradients."""
    positions = target.exact_draws(1000, seed)
    gradients = np.asarray(jax.jit(jax.vmap(jax.grad(target.potential)))(positions))
    untrained = GradientMLP(hidden).build(positions.shape[1], jax.random.key(seed))
    network = in_precision_of_positions(untrained)
    return NetworkGradient.between(
        Standardisation.of(positions), network, Standardisation.of(gradients)
    ).gradient


def logistic_data(rows=300, columns=3, seed=0):
    generator = np.random.default_rng(seed)
    features = generator.normal(size=(rows, columns))
    truth = np.linspace(-1, 1, columns)
    labels = generator.random(rows) < 1 / (1 + np.exp(-features @ truth))
    return {"features": features, "labels": labels.astype(float)}


def logistic_log_likelihood(parameters, data):
    logits = data["features"] @ parameters["beta"]
    return jnp.sum(data["labels"] * logits - jax.nn.softplus(logits))


def logistic_log_prior(parameters):
    return -0.5 * jnp.sum(parameters["beta"] ** 2) / 10.0


@eqx.filter_jit
def repeat(step, states, key, times):
    """Apply a kernel step `times` times to a batch of independent chains."""

    def body(index, states):
        keys = jax.random.split(jax.random.fold_in(key, index), len(states.position))
        return jax.vmap(step)(keys, states)[0]

    return jax.lax.fori_loop(0, times, body, states)


def ends_of_chains(target, algorithm, chains, transitions=6):
    """Where independent chains are that started from exact draws, and these draws."""
    starts = target.exact_draws(chains, seed=1)
    states = jax.vmap(algorithm.init)(jnp.asarray(starts))
    ends = repeat(algorithm.step, states, jax.random.key(2), transitions)
    return np.asarray(ends.position), starts


def assert_invariant(target, algorithm, chains=10_000, least_moved=0.2):
    """A kernel leaves a target unchanged, and not by never moving."""
    ends, starts = ends_of_chains(target, algorithm, chains)
    assert np.any(ends != starts, axis=1).mean() > least_moved
    assert_same_distribution(ends, target.exact_draws(40_000, seed=3))


FALSE_ALARMS = 1e-4  # for all comparisons of one test together


def moments(draws):
    """Functions whose means pin down location, scale, skewness, tails and dependence."""
    first, second = draws[:, 0], draws[:, 1]
    scale = draws.std(axis=0)
    return np.column_stack(
        [
            draws,
            draws**2,
            first * second,
            first**2 * second,
            np.abs(draws) > 2 * scale,
            draws > scale,
        ]
    )


def assert_same_distribution(ends, exact):
    """Compare the means of all moment functions by z-tests, with one bound for all of them."""
    scale = exact.std(axis=0)
    a, b = moments(ends / scale), moments(exact / scale)
    error = np.sqrt(a.var(axis=0) / len(a) + b.var(axis=0) / len(b))
    z = (a.mean(axis=0) - b.mean(axis=0)) / error
    bound = stats.norm.isf(FALSE_ALARMS / 2 / len(z))
    assert np.abs(z).max() < bound, f"z = {np.round(z, 1)}, bound {bound:.1f}"


def regression_of_data(rows=1000, columns=4):
    """In the place of one of the paper's data sets."""
    generator = np.random.default_rng(0)
    features = generator.normal(size=(rows, columns))
    labels = features @ np.linspace(-1, 1, columns) + generator.logistic(size=rows) > 0
    return Regression(features, labels.astype(float), COVER_TYPE, "")


def remembered(monkeypatch, module, name):
    """A list of all that a function of a module gives from now on."""
    function, given = getattr(module, name), []

    def remembering(*arguments, **settings):
        given.append(function(*arguments, **settings))
        return given[-1]

    monkeypatch.setattr(module, name, remembering)
    return given


def regression_log_densities(posterior, x, y):
    """Of a front end's linear regression of 3 coefficients and a scale: its own, and the formula's.

    Its parameters are beta ~ N(0, 2) and sigma ~ half N(0, 1), the latter as a logarithm.
    """
    beta, log_sigma = np.array([0.3, -0.2, 0.5]), 0.4
    sigma = np.exp(log_sigma)
    expected = (
        stats.norm.logpdf(beta, 0, 2).sum()
        + stats.halfnorm.logpdf(sigma)
        + log_sigma
        + stats.norm.logpdf(y, x @ beta, sigma).sum()
    )
    return -posterior.potential(jnp.array([*beta, log_sigma])), expected


def assert_natural_scale_of_regression(posterior, x):
    """Its reported variables are beta, sigma and the mean of every row."""
    draws = np.random.default_rng(8).normal(size=(2, 3, 4))
    variables = posterior.variables(draws)
    assert set(variables) == {"beta", "sigma", "mean"}
    np.testing.assert_allclose(variables["sigma"], np.exp(draws[..., 3]))
    np.testing.assert_allclose(variables["mean"], draws[..., :3] @ x.T)


def assert_split(posterior, inputs):
    """The potential splits into an exact part and an expensive function of so many inputs."""
    split = posterior.split()
    assert (split.num_inputs, split.has_exact_part) == (inputs, True)
    position = jnp.asarray(np.random.default_rng(6).normal(size=posterior.dim))
    parts = split.exact(position) + split.expensive(split.inputs(position))
    np.testing.assert_allclose(parts, posterior.potential(position), rtol=1e-10)
