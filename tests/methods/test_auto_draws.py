"""The automatic run samples the right thing, counts what it takes, and says what is wrong."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nnghmc import Auto, Estimate, Policy, from_log_density, sample
from nnghmc.kernels import Mixture, ProbingHMC, TrueGradientHMC
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
    estimate, explored, *attempts, handed_over = learned_run.events
    assert estimate is learned_run.estimate
    fits, probes = attempts[::2], attempts[1::2]
    names = [event.event for event in (explored, *fits, *probes, handed_over)]
    number = len(probes)
    assert names == ["Explored", *["Fitted"] * number, *["Probed"] * number, "HandedOver"]
    assert explored.descent_steps > 0
    assert explored.draws == learned_run.warmup_draws.shape[1]
    assert explored.rhat < 1.1
    assert [fit.attempt for fit in fits] == [probe.attempt for probe in probes] == [*range(number)]
    assert 0 < fits[0].predicted_acceptance <= 1
    assert np.isnan([fit.predicted_acceptance for fit in fits[1:]]).all()
    assert all(probe.acceptance < 0.8 for probe in probes[:-1])
    assert 0.8 <= probes[-1].acceptance <= 1
    for probe in probes:
        assert probe.worst_chain <= probe.acceptance
        assert probe.after == explored.draws
        assert not probe.reused
    by_learned = learned_run.stats["component"] == 0
    assert handed_over.step_size == learned_run.stats["step_size"][by_learned].max()
    assert handed_over.num_steps == learned_run.stats["n_steps"][by_learned].max()
    assert handed_over.true_share == Policy().true_share


def test_the_whole_of_it_is_printed_a_line_for_each_event_and_phase(learned_run):
    lines = str(learned_run).splitlines()
    story = learned_run.story
    assert len(story) == 3 + 2 * len(learned_run.events_of("Probed"))
    assert len(lines) == 1 + len(story) + 1 + 4
    assert [line.strip() for line in lines[1:-5]] == list(story)
    rounds = learned_run.cost.sample.learned_gradients / 4
    along_the_true_gradient = in_words(rounds * learned_run.estimate.gradient_seconds)
    assert along_the_true_gradient in lines[0].split(";")[1]
    assert "divergences" in lines[-5]
    assert "; R-hat 1.0" in lines[-5]
    assert [line.split()[0] for line in lines[-4:]] == ["warmup", "collect", "train", "sample"]


def test_every_gradient_goes_into_the_gradient_data(learned_run):
    """Those of the way down, of every round, and of the probe; starts of trajectories as well."""
    spent = learned_run.cost.warmup.true_gradients + learned_run.cost.collect.true_gradients
    data = learned_run.gradient_data
    steps = (data.steps > 0).sum()
    assert steps == pytest.approx(spent - 4, abs=0.02 * spent)  # a start per chain; divergences


def gradient_of(kernel, posterior):
    """The gradient that the states of a kernel carry."""
    if isinstance(kernel, TrueGradientHMC):
        return posterior.gradient
    return kernel.usual.gradient if isinstance(kernel, Mixture) else kernel.gradient


def test_every_phase_starts_from_a_state_that_is_true_to_its_kernel():
    posterior = skewed()
    run, phases = watched_run(posterior, 5, 4, LEARN)
    probes, kept = len(run.events_of("Probed")), phases[-1]
    assert probes > 0
    types = [type(phase.kernel) for phase in phases]
    rounds = len(phases) - probes - 1
    assert types == [*[TrueGradientHMC] * rounds, *[ProbingHMC] * probes, Mixture]
    for phase in phases:
        positions = jnp.asarray(phase.states.position)
        potentials = jax.vmap(posterior.potential)(positions)
        np.testing.assert_allclose(phase.states.potential, potentials, rtol=1e-10)
        gradients = jax.vmap(gradient_of(phase.kernel, posterior))(positions)
        np.testing.assert_allclose(phase.states.gradient, gradients, rtol=1e-8, atol=1e-10)
    learned = jax.vmap(run.surrogate.gradient)(jnp.asarray(kept.states.position))
    np.testing.assert_allclose(kept.states.gradient, learned, rtol=1e-8, atol=1e-10)
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
    look_beyond = 44  # at 32 points past the outermost draws and 4 for each coordinate
    assert cost.true_gradients == steps[by_true].sum() + by_true.sum() + look_beyond
    assert cost.learned_gradients == steps[~by_true].sum() + by_true.sum()
    probes = 4 * 20 * len(learned_run.events_of("Probed"))  # one per proposal
    before_learning = learned_run.cost.collect.true_gradients - probes
    assert 0 < before_learning <= look_beyond
    assert before_learning % 4 == 0


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
