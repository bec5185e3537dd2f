"""One suite over every kernel: a new one joins by a line in KERNELS.

Many independent chains start from exact draws of a known target and make a few transitions, by the
function that advances all chains together. If a kernel is exact, the ends are independent exact
draws again, whatever gradient it follows.
"""

from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from nnghmc import Evaluations, GradientData, Quadratic, fit
from nnghmc.kernels import (
    LearnedGradientHMC,
    MetropolisSGHMCKernel,
    Mixture,
    NaiveSGHMCKernel,
    NoUTurn,
    ProbingHMC,
    SGHMCKernel,
    SGLDKernel,
    TrueGradientHMC,
    Tuning,
    simulate,
)
from nnghmc.kernels.mixture import COMPONENT
from nnghmc.kernels.trajectories import ARVIZ_NAMES
from support import (
    FALSE_ALARMS,
    KNOWN_TARGETS,
    assert_invariant,
    assert_same_distribution,
    moments,
    random_gradient,
)

CHAINS, TRANSITIONS, LEAST_MOVED = 10_000, 6, 0.2


class Functions(NamedTuple):
    """What kernels are made of; `gradient` is the one that may have been learned."""

    potential: Callable
    potential_and_gradient: Callable
    gradient: Callable
    batch_gradient: Callable


KERNELS = {
    "learned": lambda f, tuning: LearnedGradientHMC(f.potential, f.gradient, tuning),
    "probing": lambda f, tuning: ProbingHMC(f.potential_and_gradient, f.gradient, tuning),
    "true": lambda f, tuning: TrueGradientHMC(f.potential_and_gradient, tuning),
    "recording": lambda f, tuning: TrueGradientHMC(f.potential_and_gradient, tuning, 3),
    "nuts": lambda f, tuning: NoUTurn(f.potential_and_gradient, tuning),
    "metropolis sghmc": lambda f, tuning: MetropolisSGHMCKernel(
        f.potential, f.batch_gradient, tuning
    ),
    "mixture": lambda f, tuning: Mixture(
        KERNELS["learned"](f, tuning), KERNELS["true"](f, tuning), 0.4
    ),
    "sgld": lambda f, tuning: SGLDKernel(f.batch_gradient, tuning),
    "sghmc": lambda f, tuning: SGHMCKernel(f.batch_gradient, tuning, 1.0, 0.0),
    "naive sghmc": lambda f, tuning: NaiveSGHMCKernel(f.batch_gradient, tuning),
}
BIASED = ("sgld", "sghmc", "naive sghmc")
EXACT = tuple(name for name in KERNELS if name not in BIASED)
LEARNING = ("learned", "probing", "mixture")
"""Those that can follow a learned gradient."""
REVERSIBLE = tuple(name for name in EXACT if "nuts" not in name)
"""Trajectories by leapfrog with one Metropolis test at the end."""
LEAPFROG = ("learned", "probing", "true", "recording")


@cache
def learned_gradient(name):
    """A quadratic fitted to some gradients: right for a normal target, rough for the others."""
    target = KNOWN_TARGETS[name]
    positions = target.exact_draws(300, seed=9)
    gradients = np.asarray(jax.vmap(jax.grad(target.potential))(jnp.asarray(positions)))
    data = GradientData.of_points(positions, gradients)
    return fit(Quadratic(), data, jax.random.key(0)).learned.gradient


GRADIENTS = {
    "true": lambda name: jax.grad(KNOWN_TARGETS[name].potential),
    "fitted": learned_gradient,
    "random": lambda name: random_gradient(KNOWN_TARGETS[name]),
}
FOLLOWED = [
    *((kernel, "true") for kernel in EXACT),
    *((kernel, kind) for kernel in LEARNING for kind in ("fitted", "random")),
]
"""Every exact kernel with every gradient that it can follow."""


def functions_of(name, kind="true", watch=lambda what, position: None):
    """The functions of a target; `watch` is called with the name of what is evaluated."""
    target, gradient = KNOWN_TARGETS[name], GRADIENTS[kind](name)
    noise = 20.0 if name == "banana" else 1.0  # in units of the gradient

    def potential(q):
        watch("true_potentials", q)
        return target.potential(q)

    def potential_and_gradient(q):
        watch("true_gradients", q)
        return jax.value_and_grad(target.potential)(q)

    def followed(q):
        watch("learned_gradients", q)
        return gradient(q)

    def batch_gradient(key, q):
        watch("batch_gradients", q)
        return jax.grad(target.potential)(q) + noise * jax.random.normal(key, q.shape)

    return Functions(potential, potential_and_gradient, followed, batch_gradient)


def tuning_of(name, scale=1.0):
    """Step sizes and numbers of steps that vary, and a mass matrix that is not the identity."""
    target = KNOWN_TARGETS[name]
    dim = target.exact_draws(1, seed=0).shape[1]
    step = scale * target.step_size
    lengths = (0.5 * step, 1.2 * step), (1, target.num_steps)
    return Tuning.checked(*lengths, np.linspace(0.4, 1.0, dim), dim)


def made(kernel, name, kind="true", **options):
    return KERNELS[kernel](functions_of(name, kind, **options), tuning_of(name))


@eqx.filter_jit
def advanced(kernel, states, key, transitions):
    """The states of all chains after some transitions, and the statistics of each transition."""
    step = kernel.all_chains()

    def transition(states, key):
        states, info = step(key, states)
        return states, kernel.statistics(info)

    return jax.lax.scan(transition, states, jax.random.split(key, transitions))


def from_exact_draws(kernel, name, transitions, chains=CHAINS):
    starts = KNOWN_TARGETS[name].exact_draws(chains, seed=1)
    states = jax.jit(jax.vmap(kernel.init))(jnp.asarray(starts))
    ends, statistics = advanced(kernel, states, jax.random.key(2), transitions)
    return starts, ends, jax.tree.map(np.asarray, statistics)


@pytest.mark.parametrize("name", KNOWN_TARGETS)
@pytest.mark.parametrize(("kernel", "kind"), FOLLOWED)
def test_the_target_is_unchanged(kernel, kind, name):
    transitions = 2 * TRANSITIONS if "mixture" in kernel else TRANSITIONS
    starts, ends, found = from_exact_draws(made(kernel, name, kind), name, transitions)
    if COMPONENT in found:  # the last draw goes on from what the other kernel has left
        np.testing.assert_array_equal(found[COMPONENT][-2:, 0], [1, 0])
    positions = np.asarray(ends.position)
    assert np.any(positions != starts, axis=1).mean() > LEAST_MOVED
    assert_same_distribution(positions, KNOWN_TARGETS[name].exact_draws(40_000, seed=3))


@pytest.mark.parametrize("kernel", EXACT)
def test_the_target_is_unchanged_by_chains_that_step_alone(kernel):
    kind = "fitted" if kernel in LEARNING else "true"
    assert_invariant(KNOWN_TARGETS["skewed"], made(kernel, "skewed", kind), CHAINS, LEAST_MOVED)


@pytest.mark.parametrize(("kernel", "kind"), [case for case in FOLLOWED if case[0] in REVERSIBLE])
def test_start_and_end_of_a_transition_can_be_exchanged(kernel, kind):
    """At stationarity E f(q) g(q') = E g(q) f(q'), for all pairs of moment functions."""
    starts, ends, _ = from_exact_draws(made(kernel, "skewed", kind), "skewed", 1, chains=40_000)
    scale = starts.std(axis=0)
    before, after = moments(starts / scale), moments(np.asarray(ends.position) / scale)
    first, second = np.triu_indices(before.shape[1], k=1)
    differences = before[:, first] * after[:, second] - before[:, second] * after[:, first]
    differences = differences[:, differences.std(axis=0) > 0]
    assert differences.shape[1] > 20
    z = differences.mean(axis=0) / (differences.std(axis=0) / np.sqrt(len(differences)))
    bound = stats.norm.isf(FALSE_ALARMS / 2 / len(z))
    assert np.abs(z).max() < bound, f"z = {np.abs(z).max():.1f}, bound {bound:.1f}"


def field_of(kernel):
    """The gradient that the trajectories of a leapfrog kernel follow."""
    if hasattr(kernel, "gradient"):
        return kernel.gradient
    return lambda position: kernel.potential_and_gradient(position)[1]


@pytest.mark.parametrize("name", KNOWN_TARGETS)
@pytest.mark.parametrize(("kernel", "kind"), [case for case in FOLLOWED if case[0] in LEAPFROG])
def test_trajectories_go_back_where_they_came_from_and_preserve_volume(kernel, kind, name):
    kernel = made(kernel, name, kind)
    field, tuning = field_of(kernel), kernel.tuning
    dim = len(tuning.inverse_mass_matrix)
    settings = (tuning.largest_step, tuning.most_steps, tuning.inverse_mass_matrix)

    def there(point):
        position, momentum, _ = simulate(field, point[:dim], point[dim:], *settings)
        return jnp.concatenate([position, momentum])

    flip = jnp.concatenate([jnp.ones(dim), -jnp.ones(dim)])
    positions = KNOWN_TARGETS[name].exact_draws(20, seed=4)
    momenta = np.random.default_rng(5).normal(size=positions.shape)
    points = jnp.asarray(np.concatenate([positions, momenta], axis=1))
    back = jax.jit(jax.vmap(lambda point: flip * there(flip * there(point))))(points)
    np.testing.assert_allclose(back, points, atol=1e-9)
    jacobians = jax.jit(jax.vmap(jax.jacfwd(there)))(points)
    np.testing.assert_allclose(jnp.linalg.det(jacobians), 1.0, rtol=1e-6)
    assert np.abs(jacobians - jnp.eye(2 * dim)).max() > 0.1  # the map does something


def carried_gradient(kernel):
    """The gradient that the states of a kernel hold; None where each batch has its own."""
    usual = kernel.usual if isinstance(kernel, Mixture) else kernel
    return None if hasattr(usual, "batch_gradient") else field_of(usual)


@pytest.mark.parametrize(("kernel", "kind"), FOLLOWED)
def test_states_hold_the_true_potential_and_the_gradient_they_go_on_with(kernel, kind):
    kernel = made(kernel, "skewed", kind)
    _, states, statistics = from_exact_draws(kernel, "skewed", 12, chains=50)
    if COMPONENT in statistics:
        assert set(statistics[COMPONENT][:, 0]) == {0, 1}
    potentials = jax.vmap(KNOWN_TARGETS["skewed"].potential)(states.position)
    np.testing.assert_allclose(states.potential, potentials, rtol=1e-10)
    gradient = carried_gradient(kernel)
    if gradient is not None:
        gradients = jax.vmap(gradient)(states.position)
        np.testing.assert_allclose(states.gradient, gradients, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_known_potential_makes_no_difference_to_the_first_state(kernel):
    kernel = made(kernel, "gaussian", "random")
    position = jnp.array([0.3, -0.2, 1.0])
    unknown = kernel.init(position)
    known = kernel.init(position, KNOWN_TARGETS["gaussian"].potential(position))
    assert jax.tree.structure(unknown) == jax.tree.structure(known)
    for one, other in zip(jax.tree.leaves(unknown), jax.tree.leaves(known), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
        assert one.dtype == other.dtype
    np.testing.assert_array_equal(unknown.position, position)


class Watch:
    """Counts evaluations on the host, chain by chain."""

    def __init__(self):
        self.counts = Counter()

    def __call__(self, what, position):
        jax.debug.callback(lambda _: self.counts.update({what: 1}), position)

    def taken(self):
        """What was evaluated since the last look."""
        jax.effects_barrier()
        found, self.counts = Evaluations(**self.counts), Counter()
        return found


@pytest.mark.parametrize("kernel", KERNELS)
def test_evaluations_are_counted_as_they_are_made(kernel):
    """NUTS on one chain: where several advance together, they wait for the longest tree."""
    watch = Watch()
    chains = 1 if "nuts" in kernel else 3
    kernel = made(kernel, "gaussian", watch=watch)
    positions = jnp.asarray(KNOWN_TARGETS["gaussian"].exact_draws(chains, seed=1))
    potentials = jax.vmap(KNOWN_TARGETS["gaussian"].potential)(positions)
    states = jax.jit(jax.vmap(kernel.init))(positions, potentials)
    assert watch.taken() == kernel.entering.times(chains)
    _, statistics = advanced(kernel, states, jax.random.key(4), 20)
    taken = watch.taken()
    assert taken == kernel.evaluations(jax.tree.map(np.asarray, statistics))
    assert taken != Evaluations()


@pytest.mark.parametrize("kernel", KERNELS)
def test_statistics_have_the_names_of_arviz(kernel):
    name, kernel = kernel, made(kernel, "skewed")
    _, ends, found = from_exact_draws(kernel, "skewed", 30, chains=4)
    expected = {*ARVIZ_NAMES.values(), COMPONENT} if "mixture" in name else {*ARVIZ_NAMES.values()}
    assert set(found) == expected
    assert all(values.shape == (30, 4) for values in found.values())
    for flag in ("accepted", "diverging", "nonfinite"):
        assert found[flag].dtype == bool
    assert not found["diverging"].any()
    assert np.issubdtype(found["n_steps"].dtype, np.integer)
    assert found["n_steps"].min() >= 1
    low, high = (float(bound) for bound in kernel_tuning(kernel).step_size)
    assert low <= found["step_size"].min() < found["step_size"].max() <= high
    if name in BIASED:
        assert np.isnan(found["acceptance_rate"]).all()
        assert np.isnan(found["energy"]).all()
        assert found["accepted"].all()
        return
    rates = found["acceptance_rate"]
    assert rates.min() >= 0
    assert rates.max() <= 1 + 1e-12  # that of NUTS is a mean over the trajectory
    assert np.isfinite(found["energy"]).all()
    assert (found["energy"][-1] >= ends.potential).all()  # a kinetic energy is not negative


def kernel_tuning(kernel):
    return kernel.usual.tuning if isinstance(kernel, Mixture) else kernel.tuning


@pytest.mark.parametrize("kernel", EXACT)
def test_a_rejection_stays_and_an_acceptance_moves(kernel):
    kernel = made(kernel, "skewed")
    states = jax.vmap(kernel.init)(jnp.asarray(KNOWN_TARGETS["skewed"].exact_draws(200, seed=1)))
    accepted = []
    for number in range(4):
        before = states.position
        states, found = advanced(kernel, states, jax.random.key(number), 1)
        moved = np.any(states.position != before, axis=1)
        np.testing.assert_array_equal(moved, found["accepted"][0])
        accepted.append(found["accepted"])
    assert np.mean(accepted) > 0.5
