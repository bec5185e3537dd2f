"""One suite over every kernel: a new one joins by a line in KERNELS.

Many independent chains start from exact draws of a known target and make a few transitions, by the
function that advances all chains together. If a kernel is exact, the ends are independent exact
draws again, whatever gradient it follows. Compiling takes longer than running, so each kernel runs
once with each gradient on each target, and several tests read what that run has recorded.
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
    DefensiveTails,
    LearnedGradientHMC,
    MetropolisSGHMCKernel,
    Mixture,
    NaiveSGHMCKernel,
    NoUTurn,
    SGHMCKernel,
    SGLDKernel,
    SurrogateTransition,
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

CHAINS, TRANSITIONS = 10_000, 6


class Functions(NamedTuple):
    """What kernels are made of; `gradient` and `surrogate` may have been learned."""

    potential: Callable
    potential_and_gradient: Callable
    gradient: Callable
    surrogate: Callable
    batch_gradient: Callable


KERNELS = {
    "learned": lambda f, tuning: LearnedGradientHMC(f.potential, f.gradient, tuning),
    "true": lambda f, tuning: TrueGradientHMC(f.potential_and_gradient, tuning),
    "recording": lambda f, tuning: TrueGradientHMC(f.potential_and_gradient, tuning, 3),
    "nuts": lambda f, tuning: NoUTurn(f.potential_and_gradient, tuning),
    "surrogate transition": lambda f, tuning: SurrogateTransition(
        f.potential, f.surrogate, tuning, transitions=2
    ),
    "defensive tails": lambda f, tuning: SurrogateTransition(
        f.potential, f.surrogate, tuning, tails=DefensiveTails(1.0, 3.0, 0.5)
    ),
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
LEARNING = ("learned", "mixture", "surrogate transition", "defensive tails")
"""Those that can follow a learned gradient."""
TREES = ("nuts", "surrogate transition", "defensive tails")
"""Those whose trajectories are trees, with chains that wait for the longest of them."""
FIELDS = (("learned", "true"), ("learned", "fitted"), ("learned", "random"), ("true", "true"))
"""What the kernels by leapfrog follow; recording follows the same functions."""


@cache
def learned(name):
    """A quadratic fitted to some gradients: right for a normal target, rough for the others."""
    target = KNOWN_TARGETS[name]
    positions = target.exact_draws(300, seed=9)
    gradients = np.asarray(jax.jit(jax.vmap(jax.grad(target.potential)))(positions))
    data = GradientData.of_points(positions, gradients)
    return fit(Quadratic(), data, jax.random.key(0)).learned


@cache
def random_potential(name):
    """Random waves on a normal that is wider than the target: it has learned nothing of it."""
    draws = KNOWN_TARGETS[name].exact_draws(1000, seed=0)
    centre, scale = draws.mean(axis=0), 1.2 * draws.std(axis=0)
    waves = jax.random.normal(jax.random.key(0), (8, len(centre)))

    def potential(position):
        white = (position - centre) / scale
        return 0.5 * white @ white + 0.3 * jnp.sum(jnp.sin(waves @ white + jnp.arange(8.0)))

    return potential


GRADIENTS = {
    "true": lambda name: jax.grad(KNOWN_TARGETS[name].potential),
    "fitted": lambda name: learned(name).gradient,
    "random": lambda name: random_gradient(KNOWN_TARGETS[name]),
}
POTENTIALS = {
    "true": lambda name: KNOWN_TARGETS[name].potential,
    "fitted": lambda name: learned(name).potential,
    "random": random_potential,
}
FOLLOWED = [
    *((kernel, "true") for kernel in EXACT),
    *((kernel, kind) for kernel in LEARNING for kind in ("fitted", "random")),
]
"""Every exact kernel with every gradient that it can follow."""
BY_SURROGATE = ("surrogate transition", "defensive tails")
REVERSIBLE = [case for case in FOLLOWED if case[0] not in BY_SURROGATE or case[1] == "random"]
"""NUTS is among them: the surrogate transition is exact only because NUTS is reversible."""


def functions_of(name, kind="true", watch=lambda what, position: None):
    """The functions of a target; `watch` is called with the name of what is evaluated."""
    target, gradient = KNOWN_TARGETS[name], GRADIENTS[kind](name)
    surrogate_potential = POTENTIALS[kind](name)
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

    def surrogate(q):
        watch("learned_gradients", q)
        return jax.value_and_grad(surrogate_potential)(q)

    def batch_gradient(key, q):
        watch("batch_gradients", q)
        return jax.grad(target.potential)(q) + noise * jax.random.normal(key, q.shape)

    return Functions(potential, potential_and_gradient, followed, surrogate, batch_gradient)


def tuning_of(name, scale=1.0):
    """Step sizes and numbers of steps that vary, and a mass matrix that is not the identity."""
    target = KNOWN_TARGETS[name]
    dim = target.exact_draws(1, seed=0).shape[1]
    step = scale * target.step_size
    lengths = (0.5 * step, 1.2 * step), (1, target.num_steps)
    return Tuning.checked(*lengths, np.linspace(0.4, 1.0, dim), dim)


@cache
def made(kernel, name, kind="true"):
    short = kernel not in TREES or (kind, name) == ("true", "skewed")
    scale = 1.0 if short else 2.0  # trees of short steps take long; the others may diverge
    return KERNELS[kernel](functions_of(name, kind), tuning_of(name, scale))


@eqx.filter_jit
def first_states(kernel, positions, potentials=None):
    return jax.vmap(kernel.init)(positions, potentials)


@eqx.filter_jit
def transition(kernel, states, key):
    """The states of all chains after one transition, and its statistics."""
    states, info = kernel.all_chains()(key, states)
    return states, kernel.statistics(info)


def advanced(kernel, states, key, transitions):
    """The states after each of some transitions, and the statistics of all of them."""
    after, statistics = [], []
    for part in jax.random.split(key, transitions):
        states, found = transition(kernel, states, part)
        after.append(jax.tree.map(np.asarray, states))
        statistics.append(jax.tree.map(np.asarray, found))
    return after, jax.tree.map(lambda *parts: np.stack(parts), *statistics)


class Recorded(NamedTuple):
    """A run of many chains from exact draws: all its states, the first ones too."""

    kernel_name: str
    kernel: object
    target: object
    states: list
    statistics: dict

    @property
    def starts(self):
        return self.states[0].position


@pytest.fixture(scope="module")
def run(request):
    """The run of a kernel along a kind of gradient on a target, made once for all its tests."""
    kernel_name, kind, name = request.param
    kernel, target = made(kernel_name, name, kind), KNOWN_TARGETS[name]
    states = first_states(kernel, jnp.asarray(target.exact_draws(CHAINS, seed=1)))
    number = 2 * TRANSITIONS if name == "skewed" else to_unchanged(kernel_name)
    after, statistics = advanced(kernel, states, jax.random.key(2), number)
    states = jax.tree.map(np.asarray, states)
    return Recorded(kernel_name, kernel, target, [states, *after], statistics)


def over_runs(runs):
    """Parametrise a test over runs."""
    return pytest.mark.parametrize("run", runs, indirect=True, ids="-".join, scope="module")


def least_moved(kernel_name):
    """At least this share of the chains must have moved."""
    return 0.9 if kernel_name == "nuts" else 0.2


def to_unchanged(kernel_name):
    """After so many transitions the distribution is looked at."""
    return 2 * TRANSITIONS if "mixture" in kernel_name else TRANSITIONS


@over_runs([(*case, name) for case in FOLLOWED for name in KNOWN_TARGETS])
def test_the_target_is_unchanged(run):
    number = to_unchanged(run.kernel_name)
    if COMPONENT in run.statistics:  # the last draw goes on from what the other kernel has left
        np.testing.assert_array_equal(run.statistics[COMPONENT][number - 2 : number, 0], [1, 0])
    ends = run.states[number].position
    assert np.any(ends != run.starts, axis=1).mean() > least_moved(run.kernel_name)
    assert_same_distribution(ends, run.target.exact_draws(40_000, seed=3))


@pytest.mark.parametrize("kernel", EXACT)
def test_the_target_is_unchanged_by_chains_that_step_alone(kernel):
    kind = "fitted" if kernel in LEARNING else "true"
    assert_invariant(
        KNOWN_TARGETS["skewed"], made(kernel, "skewed", kind), CHAINS, least_moved(kernel)
    )


def single_transitions(kernel, target, batches):
    """Where chains start from exact draws, and where one transition each has led them."""
    starts = target.exact_draws(batches * CHAINS, seed=1)
    ends, components = [], set()
    for number, batch in enumerate(np.split(starts, batches)):
        states = first_states(kernel, jnp.asarray(batch))
        (after,), statistics = advanced(kernel, states, jax.random.key(number), 1)
        ends.append(after.position)
        components |= set(statistics.get(COMPONENT, np.zeros((1, 1)))[:, 0].tolist())
    return starts, np.concatenate(ends), components


@over_runs([(*case, "skewed") for case in REVERSIBLE])
def test_start_and_end_of_a_transition_can_be_exchanged(run):
    """At stationarity E f(q) g(q') = E g(q) f(q'), for all pairs of moment functions.

    The draws of the run are not taken for it: a kernel that balances a wrong density leaves the
    right one, and the difference is largest in the first transition. Each batch of chains has a
    trajectory length of its own.
    """
    starts, ends, components = single_transitions(run.kernel, run.target, 8)
    assert components == ({0, 1} if "mixture" in run.kernel_name else {0})
    scale = starts.std(axis=0)
    before, after = moments(starts / scale), moments(ends / scale)
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
    name = "learned_potential_and_gradient"
    both = getattr(kernel, name, None) or kernel.potential_and_gradient
    return lambda position: both(position)[1]


@pytest.mark.parametrize("name", KNOWN_TARGETS)
@pytest.mark.parametrize(("kernel", "kind"), FIELDS)
def test_trajectories_go_back_where_they_came_from_and_preserve_volume(kernel, kind, name):
    kernel = made(kernel, name, kind)
    field, tuning = field_of(kernel), kernel.tuning
    dim = len(tuning.inverse_mass_matrix)
    settings = (tuning.largest_step, tuning.most_steps, tuning.inverse_mass_matrix)

    def there(point):
        position, momentum, _ = simulate(field, point[:dim], point[dim:], *settings)
        return jnp.concatenate([position, momentum])

    def back_and_jacobian(point):
        return flip * there(flip * there(point)), jax.jacfwd(there)(point)

    flip = jnp.concatenate([jnp.ones(dim), -jnp.ones(dim)])
    positions = KNOWN_TARGETS[name].exact_draws(20, seed=4)
    momenta = np.random.default_rng(5).normal(size=positions.shape)
    points = jnp.asarray(np.concatenate([positions, momenta], axis=1))
    back, jacobians = jax.jit(jax.vmap(back_and_jacobian))(points)
    np.testing.assert_allclose(back, points, atol=1e-9)
    np.testing.assert_allclose(jnp.linalg.det(jacobians), 1.0, rtol=1e-6)
    assert np.abs(jacobians - jnp.eye(2 * dim)).max() > 0.1  # the map does something


def carried_gradient(kernel):
    """The gradient that the states of a kernel hold; None where each batch has its own."""
    usual = kernel.usual if isinstance(kernel, Mixture) else kernel
    return None if hasattr(usual, "batch_gradient") else field_of(usual)


@over_runs([(*case, "skewed") for case in FOLLOWED])
def test_states_hold_the_true_potential_and_the_gradient_they_go_on_with(run):
    if COMPONENT in run.statistics:
        assert set(run.statistics[COMPONENT][:, 0]) == {0, 1}
    states = jax.tree.map(lambda *parts: np.stack(parts)[:, :50], *run.states)
    potentials = everywhere(run.target.potential, states.position)
    np.testing.assert_allclose(states.potential, potentials, rtol=1e-10)
    gradient = carried_gradient(run.kernel)
    if gradient is not None:
        gradients = everywhere(gradient, states.position)
        np.testing.assert_allclose(states.gradient, gradients, rtol=1e-8, atol=1e-10)


@eqx.filter_jit
def everywhere(function, positions):
    """The values of a function at the positions of all chains after all transitions."""
    return jax.vmap(jax.vmap(function))(positions)


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
    """Trees on one chain: where several advance together, they wait for the longest tree."""
    watch = Watch()
    chains = 1 if kernel in TREES else 3
    kernel = KERNELS[kernel](functions_of("gaussian", watch=watch), tuning_of("gaussian"))
    positions = jnp.asarray(KNOWN_TARGETS["gaussian"].exact_draws(chains, seed=1))
    potentials = jax.vmap(KNOWN_TARGETS["gaussian"].potential)(positions)
    states = first_states(kernel, positions, potentials)
    assert watch.taken() == kernel.entering.times(chains)
    _, statistics = advanced(kernel, states, jax.random.key(4), 30)
    taken = watch.taken()
    assert taken == kernel.evaluations(statistics)
    assert taken != Evaluations()
    assert_step_sizes_vary_in_their_range(kernel, statistics)


@over_runs([(name, "true", "skewed") for name in KERNELS])
def test_statistics_have_the_names_of_arviz(run):
    name, found = run.kernel_name, run.statistics
    expected = {*ARVIZ_NAMES.values(), COMPONENT} if "mixture" in name else {*ARVIZ_NAMES.values()}
    assert set(found) == expected
    assert all(values.shape == (2 * TRANSITIONS, CHAINS) for values in found.values())
    for flag in ("accepted", "diverging", "nonfinite"):
        assert found[flag].dtype == bool
    assert not found["diverging"].any()
    assert np.issubdtype(found["n_steps"].dtype, np.integer)
    assert found["n_steps"].min() >= 1
    assert_step_sizes_vary_in_their_range(run.kernel, found)
    if name in BIASED:
        assert np.isnan(found["acceptance_rate"]).all()
        assert np.isnan(found["energy"]).all()
        assert found["accepted"].all()
        return
    rates = found["acceptance_rate"]
    assert rates.min() >= 0
    assert rates.max() <= 1 + 1e-12  # that of NUTS is a mean over the trajectory
    assert np.isfinite(found["energy"]).all()
    potentials = np.stack([state.potential for state in run.states[1:]])
    assert (found["energy"] >= potentials).all()  # a kinetic energy is not negative


def assert_step_sizes_vary_in_their_range(kernel, statistics):
    tuning = kernel.usual.tuning if isinstance(kernel, Mixture) else kernel.tuning
    low, high = (float(bound) for bound in tuning.step_size)
    assert low <= statistics["step_size"].min() < statistics["step_size"].max() <= high


@over_runs([(name, "true", "skewed") for name in EXACT])
def test_a_rejection_stays_and_an_acceptance_moves(run):
    positions = np.stack([state.position for state in run.states])
    moved = np.any(positions[1:] != positions[:-1], axis=2)
    np.testing.assert_array_equal(moved, run.statistics["accepted"])
    assert run.statistics["accepted"].mean() > 0.5
