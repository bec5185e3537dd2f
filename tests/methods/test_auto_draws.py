"""The automatic run samples the right thing, counts what it takes, and says what is wrong."""

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nnghmc import Auto, Estimate, Policy, QuadraticPlusProcess, from_log_density, sample
from nnghmc.explore.rounds.outward import number_of_starts
from nnghmc.kernels import Mixture, SurrogateNoUTurn
from nnghmc.platform.text import in_words
from support_auto import GAMMA_LOGS, LEARN, LONG, assert_moments, kinds, skewed
from support_sessions import watched_run


def run_of(posterior, draws, method, chains=4, **arguments):
    return sample(posterior, draws, chains, method=method, progress=False, **arguments)


@pytest.fixture(scope="module")
def learned_run():
    return run_of(skewed(), 2250, LEARN)


@pytest.fixture(scope="module")
def nuts_run():
    return run_of(skewed(), 2250, "nuts")


def test_nuts_samples_rightly(nuts_run):
    assert nuts_run.title == "NUTS"
    assert not nuts_run.handed_over
    assert_moments(nuts_run, *GAMMA_LOGS)
    assert kinds(nuts_run) <= {"divergences"}


def test_what_is_learned_samples_the_same_posterior(learned_run):
    assert learned_run.title == "NNgHMC"
    assert learned_run.handed_over
    assert learned_run.acceptance > 0.8
    assert_moments(learned_run, *GAMMA_LOGS)
    assert learned_run.notes == ()


def test_the_events_say_what_was_found_and_decided(learned_run):
    estimate, split, explored, before, probe, handed_over, afterwards = learned_run.events
    assert estimate is learned_run.estimate
    names = [event.event for event in (split, explored, before, probe, handed_over, afterwards)]
    assert names == ["Split", "Explored", "Covered", "Probed", "HandedOver", "Covered"]
    assert (split.inputs, split.dim, split.has_exact_part) == (3, 3, False)
    assert explored.descent_steps > 0
    assert 1 <= explored.rounds <= Policy().most_rounds
    assert explored.points >= 32 * explored.rounds
    assert 0.8 < explored.acceptance <= 1
    assert explored.rhat < 1.5
    for covered in (before, afterwards):
        assert 0 <= covered.mass <= covered.bound < Policy().largest_uncovered
        assert covered.points == Policy().coverage_points
        assert covered.temperature > 1
    assert probe.worst_chain <= probe.acceptance <= 1
    assert not probe.reused
    by_learned = learned_run.stats["component"] == 0
    np.testing.assert_allclose(
        handed_over.step_size, learned_run.stats["step_size"][by_learned], rtol=1e-12
    )
    assert handed_over.true_share == Policy().true_share


def test_the_whole_of_it_is_printed_a_line_for_each_event_and_phase(learned_run):
    lines = str(learned_run).splitlines()
    story = learned_run.story
    assert len(story) == len(learned_run.events)
    assert len(lines) == 1 + len(story) + 1 + 4
    assert [line.strip() for line in lines[1:-5]] == list(story)
    rounds = learned_run.cost.sample.learned_gradients / 4
    along_the_true_gradient = in_words(rounds * learned_run.estimate.gradient_seconds)
    assert along_the_true_gradient in lines[0].split(";")[1]
    assert "divergence" in lines[-5]
    assert "; R-hat 1.0" in lines[-5]
    assert [line.split()[0] for line in lines[-4:]] == ["warmup", "collect", "train", "sample"]


def test_the_gradient_data_are_what_the_truth_said_in_the_rounds(learned_run):
    data = learned_run.gradient_data
    (explored,) = learned_run.events_of("Explored")
    assert len(data) <= explored.points <= learned_run.cost.collect.true_gradients
    posterior = skewed()
    expected = jax.vmap(posterior.potential_and_gradient)(jnp.asarray(data.positions))
    np.testing.assert_allclose(data.potentials, expected[0], rtol=1e-10)
    np.testing.assert_allclose(data.gradients, expected[1], rtol=1e-8, atol=1e-10)
    assert data.weights.max() == 1
    assert (data.weights > 0).all()


def potential_and_gradient_of(kernel):
    """The function whose values the states of a kernel carry."""
    if isinstance(kernel, Mixture):
        return kernel.usual.learned_potential_and_gradient
    return kernel.potential_and_gradient


def test_every_phase_starts_from_a_state_that_is_true_to_its_kernel():
    posterior = skewed()
    _, phases = watched_run(posterior, 5, 4, LEARN)
    *before, probe, kept = phases
    assert {type(phase.kernel) for phase in before} == {SurrogateNoUTurn}
    assert isinstance(probe.kernel, Mixture)
    assert isinstance(kept.kernel, Mixture)
    for phase in phases:
        positions = jnp.asarray(phase.states.position)
        found, gradients = jax.vmap(potential_and_gradient_of(phase.kernel))(positions)
        np.testing.assert_allclose(phase.states.gradient, gradients, rtol=1e-6, atol=1e-8)
        learned = isinstance(phase.kernel, Mixture)
        potentials = phase.states.learned_potential if learned else phase.states.potential
        np.testing.assert_allclose(potentials, found, rtol=1e-6, atol=1e-8)
    for phase in (probe, kept):
        true = jax.vmap(posterior.potential)(jnp.asarray(phase.states.position))
        np.testing.assert_allclose(phase.states.potential, true, rtol=1e-10)
    used = [
        (tuple(jax.random.key_data(phase.key).tolist()), number)
        for phase in phases
        for number in phase.numbers
    ]
    assert len(set(used)) == len(used)


def test_the_cost_of_a_kept_draw_is_a_potential_and_now_and_then_a_true_gradient(learned_run):
    cost = learned_run.cost.sample
    by_true = learned_run.stats["component"] == 1
    assert 0 < by_true.sum() < 0.02 * by_true.size
    assert cost.true_potentials == (~by_true).sum()
    steps = learned_run.stats["n_steps"]
    afterwards = cost.true_gradients - steps[by_true].sum() - by_true.sum()
    rays = 44  # at 32 points past the outermost draws and 4 for each coordinate
    hot, outward = Policy().coverage_points, afterwards - rays - Policy().coverage_points
    assert hot == 64
    starts = number_of_starts(3)
    assert outward % starts == 0
    assert 2 * starts <= outward <= 9 * starts  # starts, and a few leapfrog steps of each
    assert cost.learned_gradients > steps[~by_true].sum() + by_true.sum()


def test_true_gradients_are_counted_as_they_are_made():
    """By a callback in the posterior itself; with an estimate given, nothing is timed."""
    calls = {"gradients": 0}

    @jax.custom_vjp
    def counted(q):
        return -0.5 * jnp.sum(q**2) - 0.05 * jnp.sum(q**4)

    def forward(q):
        return counted(q), q

    def count(q):
        calls["gradients"] += 1

    def backward(q, weight):
        jax.debug.callback(count, q)
        return (weight * (-q - 0.2 * q**3),)

    counted.defvjp(forward, backward)
    method = Auto(way="learn", estimate=Estimate(3, 60, 1e-3, 400.0, 15.0))
    run = run_of(from_log_density(counted, np.zeros(2)), 60, method, chains=3)
    jax.effects_barrier()
    assert run.handed_over
    assert calls["gradients"] == run.cost.total.true_gradients


def correlated(dim=12):
    generator = np.random.default_rng(0)
    factor = generator.normal(size=(dim, dim)) / np.sqrt(dim) + np.diag(np.geomspace(0.1, 3, dim))
    covariance = factor @ factor.T
    precision = jnp.asarray(np.linalg.inv(covariance))
    far = 100 * np.sqrt(np.diag(covariance))
    return from_log_density(lambda q: -0.5 * q @ precision @ q, far), covariance


@pytest.mark.parametrize("way", ["learn", "nuts"])
def test_from_a_hundred_standard_deviations_off_it_finds_the_typical_set(way):
    posterior, covariance = correlated()
    run = run_of(posterior, 1000, Auto(way=way))
    assert_moments(run, np.zeros(12), np.diag(covariance))
    assert run.notes == ()


@pytest.mark.parametrize("way", ["learn", "nuts"])
def test_two_separate_modes_are_noted(way):
    """Of like depth; the chains cannot cross between them."""
    centres = jnp.array([[-12.0, 0.0], [12.0, 0.0]])

    def log_density(q):
        return jax.nn.logsumexp(-0.5 * jnp.sum((q - centres) ** 2, axis=1))

    starts = np.array([[-12.0, 1.0], [11.0, 0.0], [-13.0, 0.0], [12.0, -1.0]])
    posterior = from_log_density(log_density, np.zeros(2))
    run = run_of(posterior, 200, Auto(way=way), initial_positions=starts)
    note = next(note for note in run.notes if note.kind == "chains disagree")
    assert "several modes" in note.remedy
    assert run.convergence.rhat.max() > 1.5


def test_a_negligible_mode_is_left_and_noted():
    """Two of four chains start in a local mode sixty units above the other one."""

    def log_density(q):
        deep, shallow = -0.5 * jnp.sum((q + 50) ** 2) + 60, -0.5 * jnp.sum((q - 50) ** 2)
        return jnp.logaddexp(deep, shallow)

    starts = np.array([[-49.0, -50.0], [51.0, 50.0], [-51.0, -50.0], [49.5, 50.0]])
    posterior = from_log_density(log_density, np.full(2, -50.0))
    run = run_of(posterior, 200, LEARN, initial_positions=starts)
    note = next(note for note in run.notes if note.kind == "local mode")
    assert note.text.startswith("2 of 4 chains")
    assert "initial_positions" in note.remedy
    assert (run.draws < 0).all()


@dataclass(frozen=True)
class AutoWithANormalSurrogate(Auto):
    """The truth has been asked about one surrogate, and a normal one makes the draws."""

    def prepare(self, posterior, starts, session):
        prepared = super().prepare(posterior, starts, session)
        zeros, curvature = np.zeros(posterior.dim), 1.5 * np.eye(posterior.dim)
        normal = QuadraticPlusProcess().at_point(zeros, zeros, curvature)
        surrogate = replace(prepared.parts["surrogate"], learned=normal)
        parts = {**prepared.parts, "surrogate": surrogate}
        states = session.begin(self.kernel(posterior, parts), prepared.states.position)
        return replace(prepared, states=states, parts=parts)


def test_places_that_the_surrogate_closes_off_are_noted_after_the_draws():
    """A normal approximation of a skewed posterior, about which nobody has asked the truth."""
    run = run_of(skewed(), 1000, AutoWithANormalSurrogate(way="learn"))
    assert run.handed_over
    assert "coverage" in kinds(run)
    assert run.events_of("Covered")[-1].bound > run.events_of("Covered")[0].bound


@pytest.mark.parametrize("way", ["learn", "nuts"])
def test_a_posterior_without_a_variance_is_noted(way):
    posterior = from_log_density(lambda q: -jnp.sum(jnp.log1p(q**2)), np.zeros(2))
    run = run_of(posterior, 1000, Auto(way=way))
    assert "heavy tails" in kinds(run)


@pytest.mark.parametrize("way", ["learn", "nuts"])
def test_same_seed_same_draws_for_any_chunk_size(way):
    first, second = (
        run_of(skewed(), 40, Auto(way=way, estimate=LONG), seed=3, chunk_size=size)
        for size in (None, 7)
    )
    np.testing.assert_array_equal(first.draws, second.draws)


def test_a_single_chain_is_served():
    run = run_of(skewed(), 3000, LEARN, chains=1, seed=1)
    assert run.title == "NNgHMC"
    assert run.handed_over
    assert_moments(run, *GAMMA_LOGS)
    assert run.notes == ()
