"""sample() with no tuning: it decides, learns, samples the right thing, and says when it cannot."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import nnghmc.record
import nnghmc.warmup.nuts
from nnghmc import (
    Automatic,
    GradientMLP,
    Posterior,
    Quadratic,
    TrainingSchedule,
    estimate,
    from_log_density,
    sample,
)
from nnghmc.automatic import AutomaticSampling
from nnghmc.chains import Supervision
from nnghmc.diagnostics import standard_errors
from nnghmc.errors import SettingsError
from nnghmc.interrupts import StopRequest
from nnghmc.payoff import Estimate, Timings
from nnghmc.progress import Silent
from nnghmc.record import Record

LEARN = Automatic(way="learn")


@cache
def skewed():
    """Logarithms of gamma variables: means and variances are polygamma functions."""
    shapes = jnp.array([0.8, 2.0, 5.0])
    return from_log_density(lambda q: jnp.sum(shapes * q - jnp.exp(q)), np.zeros(3))


def correlated(dim=12):
    generator = np.random.default_rng(0)
    factor = generator.normal(size=(dim, dim)) / np.sqrt(dim) + np.diag(np.geomspace(0.1, 3, dim))
    covariance = factor @ factor.T
    precision = jnp.asarray(np.linalg.inv(covariance))
    far = 100 * np.sqrt(np.diag(covariance))
    return from_log_density(lambda q: -0.5 * q @ precision @ q, far), covariance


def assert_moments(run, means, variances, false_alarms=1e-3):
    """Means and standard deviations in Monte Carlo standard errors, one bound for all of them."""
    flat = run.draws.reshape(-1, run.draws.shape[2])
    of_means = (flat.mean(axis=0) - means) / standard_errors(run.draws)
    of_spreads = (flat.std(axis=0) - np.sqrt(variances)) / standard_errors(run.draws, "std")
    z = np.concatenate([of_means, of_spreads])
    bound = stats.norm.isf(false_alarms / 2 / len(z))
    assert np.abs(z).max() < bound, f"z = {np.round(z, 1)}, bound {bound:.1f}"


@pytest.fixture(scope="module")
def learned_run():
    return sample(skewed(), 2250, 4, automatic=LEARN, progress=False)


@pytest.fixture(scope="module")
def nuts_run():
    return sample(skewed(), 2250, 4, method="nuts", progress=False)


GAMMA_LOGS = (
    np.array([-0.9650, 0.4228, 1.5061]),  # digamma of the shapes
    np.array([2.2995, 0.6449, 0.2213]),  # trigamma
)


def test_few_draws_of_a_cheap_posterior_are_left_to_nuts():
    run = sample(skewed(), 50, 4, progress=False)
    assert run.method == "nuts"
    assert "NUTS is the faster way" in run.story[0]


def test_nuts_samples_rightly(nuts_run):
    assert nuts_run.method == "nuts"
    assert not nuts_run.handed_over
    assert_moments(nuts_run, *GAMMA_LOGS)
    assert all("diverged" in note for note in nuts_run.notes)


def test_what_is_learned_samples_the_same_posterior(learned_run):
    assert learned_run.method == "nnghmc"
    assert learned_run.handed_over
    assert learned_run.acceptance > 0.8
    assert_moments(learned_run, *GAMMA_LOGS)
    assert learned_run.notes == ()


def test_the_story_tells_what_was_found_and_decided(learned_run):
    words = "\n".join(learned_run.story)
    assert "steps downhill" in words
    assert "in a probe" in words
    assert "predicted" in words
    assert "by the true gradient" in words


def test_the_whole_of_it_is_printed_in_ten_lines(learned_run):
    lines = str(learned_run).splitlines()
    assert len(lines) == 10
    assert [line.strip() for line in lines[1:5]] == list(learned_run.story)
    assert "had the same steps been along the true gradient" in lines[0]
    assert "divergences" in lines[5]
    assert "; R-hat 1.0" in lines[5]
    assert [line.split()[0] for line in lines[-4:]] == ["warmup", "collect", "train", "sample"]


def test_acceptance_that_falls_behind_the_probe_is_told(monkeypatch):
    """As where the probe saw the easy part of the posterior only."""
    original = AutomaticSampling.probe

    def too_good(self, *arguments):
        found, met = original(self, *arguments)
        return found._replace(acceptance=1.0), met

    monkeypatch.setattr(AutomaticSampling, "probe", too_good)
    poor = Automatic(way="learn", network=GradientMLP(1))
    run = sample(skewed(), 300, 4, automatic=poor, progress=False)
    assert run.method == "nnghmc"
    assert any("acceptance fell from 1.00" in note for note in run.notes)


SHORT = Estimate(4, 1000, Timings(1e-3), 20.0, 15.0)
BETWEEN = Estimate(4, 1000, Timings(1e-3), 40.0, 15.0)
LONG = Estimate(4, 1000, Timings(1e-3), 400.0, 15.0)


@pytest.mark.parametrize(("expected", "refits"), [(SHORT, 0), (LONG, 3)])
def test_what_learning_may_cost_depends_on_what_is_at_stake(monkeypatch, expected, refits):
    """Of a short run by NUTS little time may be lost; a gradient far from straight is not tried."""
    monkeypatch.setattr("nnghmc.record.estimate_run", lambda *_, **__: expected)
    hard = Automatic(network=GradientMLP(1), good_acceptance=0.9999, least_acceptance=0.999)
    run = sample(skewed(), 50, 4, automatic=hard, progress=False)
    assert run.method == "nuts"
    told = "\n".join(run.story)
    assert ("too far from a straight line" in told) == (refits == 0)
    assert told.count(", then ") == 2 * refits


def test_every_gradient_goes_into_the_gradient_data(learned_run):
    """Those of the way down, of every round, and of the probe; starts of trajectories as well."""
    spent = learned_run.cost.warmup.true_gradients + learned_run.cost.collect.true_gradients
    data = learned_run.gradient_data
    steps = (data.steps > 0).sum()
    assert steps == pytest.approx(spent - 4, abs=0.02 * spent)  # a start a chain; divergences


@pytest.fixture
def phases(monkeypatch):
    """What every phase that goes through the record was started with."""
    seen = []
    original = nnghmc.record.run_chains

    def spy(move, tuning, key, states, *rest, **options):
        seen.append((key, states))
        return original(move, tuning, key, states, *rest, **options)

    monkeypatch.setattr(nnghmc.record, "run_chains", spy)
    return seen


def test_every_phase_starts_from_a_state_that_is_true_to_its_kernel(phases):
    posterior = skewed()
    run = sample(posterior, 5, 4, automatic=LEARN, progress=False)
    assert len(phases) == 2  # the probe and the kept draws
    for _, states in phases:
        positions = jnp.asarray(states.position)
        potentials = jax.vmap(posterior.potential)(positions)
        np.testing.assert_allclose(states.potential, potentials, rtol=1e-10)
        gradients = jax.vmap(run.surrogate.gradient)(positions)
        np.testing.assert_allclose(states.gradient, gradients, rtol=1e-8, atol=1e-10)
    first, second = (jax.random.key_data(key).tolist() for key, _ in phases)
    assert first != second


def test_the_cost_of_a_kept_draw_is_a_potential_and_now_and_then_a_true_gradient(learned_run):
    cost = learned_run.cost.sample
    insured = learned_run.stats["insurance"]
    assert cost.true_potentials == (~insured).sum()
    steps = learned_run.stats["n_steps"]
    look_beyond = 44  # at 32 points past the outermost draws and 4 for each coordinate
    assert cost.true_gradients == steps[insured].sum() + insured.sum() + look_beyond
    assert cost.learned_gradients == steps[~insured].sum() + insured.sum()
    probe = 4 * 20  # one a proposal
    before_learning = learned_run.cost.collect.true_gradients - probe
    assert 0 < before_learning <= look_beyond
    assert before_learning % 4 == 0


def test_true_gradients_are_counted_as_they_are_made():
    """By a callback in the posterior itself."""
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
    run = sample(from_log_density(counted, np.zeros(2)), 60, 3, automatic=LEARN, progress=False)
    jax.effects_barrier()
    told = run.cost.total.true_gradients
    timing = 3 * 50  # the estimate times the gradient, at most 51 times
    assert told <= calls["gradients"] <= told + timing + 3


@pytest.mark.parametrize("way", ["learn", "nuts"])
def test_from_a_hundred_standard_deviations_off_it_finds_the_bulk(way):
    posterior, covariance = correlated()
    run = sample(posterior, 1000, 4, automatic=Automatic(way=way), progress=False)
    assert_moments(run, np.zeros(12), np.diag(covariance))
    assert run.notes == ()


@pytest.mark.parametrize("way", ["learn", "nuts"])
def test_two_separate_modes_are_told(way):
    """Of like depth; the chains cannot cross between them."""
    centres = jnp.array([[-12.0, 0.0], [12.0, 0.0]])

    def log_density(q):
        return jax.nn.logsumexp(-0.5 * jnp.sum((q - centres) ** 2, axis=1))

    starts = np.array([[-12.0, 1.0], [11.0, 0.0], [-13.0, 0.0], [12.0, -1.0]])
    run = sample(
        from_log_density(log_density, np.zeros(2)),
        200,
        4,
        automatic=Automatic(way=way),
        initial_positions=starts,
        progress=False,
    )
    assert any("R-hat" in note and "several modes" in note for note in run.notes)


@pytest.mark.parametrize("way", ["learn", "nuts"])
def test_a_posterior_without_a_variance_is_told(way):
    run = sample(
        from_log_density(lambda q: -jnp.sum(jnp.log1p(q**2)), np.zeros(2)),
        1000,
        4,
        automatic=Automatic(way=way),
        progress=False,
    )
    assert any("no variance" in note for note in run.notes)


def student():
    """In 5 dimensions with 5 degrees of freedom."""
    return from_log_density(lambda q: -5.0 * jnp.log1p(jnp.sum(q**2) / 5), np.zeros(5))


@pytest.mark.parametrize(("expected", "tried"), [(BETWEEN, False), (LONG, True)])
def test_heavy_tails_are_learned_only_where_there_is_time_to_fail(monkeypatch, expected, tried):
    monkeypatch.setattr("nnghmc.record.estimate_run", lambda *_, **__: expected)
    run = sample(student(), 50, 4, automatic=Automatic(network=Quadratic()), progress=False)
    told = "\n".join(run.story)
    assert ("tails too heavy to be learned" in told) == (not tried)
    assert ("learned from" in told) == tried


def test_tails_that_the_learned_gradient_would_close_off_are_left_to_nuts():
    """A Student distribution with 5 degrees of freedom has a variance, and draws must show it."""
    run = sample(
        student(),
        1500,
        4,
        automatic=Automatic(way="learn", network=Quadratic(), least_acceptance=0.1),
        progress=False,
    )
    assert run.method == "nuts"
    assert "closes off tails" in run.story[-1]
    assert_moments(run, np.zeros(5), np.full(5, 5 / 3))


def test_a_network_that_is_not_good_enough_gives_way_to_nuts():
    poor = Automatic(way="learn", network=GradientMLP(1), most_refits=1, least_acceptance=0.97)
    run = sample(skewed(), 500, 4, automatic=poor, progress=False)
    assert run.method == "nuts"
    assert "not good enough" in run.story[-1]
    assert run.story[-2].count(", then ") == 2  # it was given a second chance
    assert_moments(run, *GAMMA_LOGS)


def test_probes_add_to_what_is_learned_from():
    """What the first fit lacks, true gradients at its own proposals supply."""
    settings = Automatic(way="learn", network=Quadratic(), good_acceptance=0.999, most_refits=2)
    run = sample(skewed(), 50, 4, automatic=settings, progress=False)
    (line,) = (line for line in run.story if line.startswith("learned from"))
    sizes = line.removeprefix("learned from ").split(" gradients")[0].split(", then ")
    numbers = [int(size.replace(",", "")) for size in sizes]
    assert len(numbers) == 3
    assert numbers[0] < numbers[1] < numbers[2]
    assert len(run.gradient_data) > numbers[-1] - 1


@pytest.mark.parametrize("way", ["learn", "nuts"])
def test_same_seed_same_draws_for_any_chunk_size(way):
    first, second = (
        sample(skewed(), 40, 4, 3, automatic=Automatic(way=way), chunk_size=size, progress=False)
        for size in (None, 7)
    )
    np.testing.assert_array_equal(first.draws, second.draws)


def test_what_was_learned_before_is_used_after_a_probe():
    """On other data and under another prior, with nothing fitted; and not where it is of no use."""

    def posterior(rows, prior, centre=0.0):
        data = np.random.default_rng(0).normal(0.3, 1.0, (300, 3))[:rows]
        return Posterior(
            lambda p, rows: -0.5 * jnp.sum((rows - p) ** 2) - 0.01 * jnp.sum(p**4),
            lambda p: -0.5 * jnp.sum(((p - centre) / prior) ** 2),
            data,
            np.zeros(3),
        )

    settings = {"automatic": Automatic(network=Quadratic(), way="learn"), "progress": False}
    first = sample(posterior(200, 1.0), 20, 4, **settings)
    settings["surrogate"] = first.surrogate
    again = sample(posterior(210, 2.0), 1000, 4, **settings)
    assert again.handed_over
    assert again.surrogate is first.surrogate
    assert "what was learned before: acceptance" in again.story[2]
    assert "it is used" in again.story[2]
    assert not any("learned from" in line for line in again.story)
    expected = np.random.default_rng(0).normal(0.3, 1.0, (300, 3))[:210].mean(axis=0)
    z = (again.draws.mean(axis=(0, 1)) - expected) / (1 / np.sqrt(210))
    assert np.abs(z).max() < 0.15  # of a standard deviation; the quartic term and prior are less
    far = sample(posterior(20, 0.01, 2.0), 100, 4, **settings)
    assert "learned anew" in far.story[2]
    assert far.surrogate is not first.surrogate
    np.testing.assert_allclose(far.draws.mean(axis=(0, 1)), 2.0, atol=0.02)


class StopAt(Silent):
    """Presses Ctrl-C when a phase begins."""

    def __init__(self, stop, phase):
        self.stop, self.phase = stop, phase

    def begin(self, phase, total):
        self.note(phase)

    def note(self, phase):
        self.stop.made |= phase == self.phase


@pytest.mark.parametrize(
    ("way", "phase"),
    [("learn", "find"), ("learn", "probe"), ("learn", "sample"), ("nuts", "warmup")],
)
def test_ctrl_c_ends_it_in_any_phase(way, phase):
    stop = StopRequest()
    supervision = Supervision(StopAt(stop, phase), stop)
    record = Record(skewed(), supervision)
    run = AutomaticSampling(record, Automatic(way=way), 50, 4, 0).run()
    assert stop.made
    assert not run.complete
    assert run.draws.shape == (4, 0, 3)
    assert "incomplete" in str(run)


def test_a_single_chain_is_served():
    run = sample(skewed(), 3000, 1, automatic=LEARN, progress=False)
    assert run.method == "nnghmc"
    assert_moments(run, *GAMMA_LOGS)
    assert run.notes == ()


def test_too_few_draws_are_not_called_well():
    run = sample(skewed(), 3, 4, method="nuts", progress=False)
    assert any("so few draws cannot be judged" in note for note in run.notes)


def test_a_funnel_that_swallows_the_descent_is_left_to_nuts():
    """Its density has no bound: downhill is not where the mass is."""

    def log_density(q):
        return -0.5 * (q[0] / 2) ** 2 - 0.5 * jnp.sum(q[1:] ** 2) * jnp.exp(-2 * q[0]) - 20 * q[0]

    run = sample(
        from_log_density(log_density, np.zeros(21)), 200, 4, automatic=LEARN, progress=False
    )
    assert run.method == "nuts"
    assert run.story[-1].endswith("from where it all began")
    assert (run.draws[..., 0].std(axis=1) > 0.1).all()  # no chain stays in the neck


def test_nuts_after_learning_that_failed_starts_from_true_gradients(monkeypatch):
    started = []
    original = nnghmc.warmup.nuts.run_chains

    def spy(move, tuning, key, states, *rest, **options):
        started.append(states)
        return original(move, tuning, key, states, *rest, **options)

    monkeypatch.setattr(nnghmc.warmup.nuts, "run_chains", spy)
    posterior = skewed()
    failing = Automatic(way="learn", network=Quadratic(), least_acceptance=0.9999, most_refits=0)
    run = sample(posterior, 20, 4, automatic=failing, progress=False)
    assert run.method == "nuts"
    gradients = jax.vmap(posterior.gradient)(jnp.asarray(started[0].position))
    np.testing.assert_allclose(started[0].gradient, gradients, rtol=1e-8, atol=1e-10)


def test_a_tuning_of_ones_own_gets_the_fixed_schedule():
    run = sample(skewed(), 5, 2, method="hmc", step_size=0.2, warmup=5, progress=False)
    assert run.story == ()
    once = TrainingSchedule.once(10)
    assert sample(skewed(), 5, 2, warmup=5, schedule=once, progress=False).method == "nnghmc"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"method": "nuts", "step_size": 0.1}, ["nuts", "step_size", "leave it out"]),
        ({"automatic": LEARN, "num_steps": 5}, ["auto", "num_steps"]),
        ({"automatic": LEARN, "method": "hmc"}, ["automatic", "hmc"]),
        ({"automatic": "fast"}, ["automatic", "fast"]),
        ({"chains": 0}, ["chains", "0"]),
        ({"method": "automatic"}, ["method", "auto"]),
    ],
)
def test_bad_settings_are_told_clearly(settings, words):
    with pytest.raises(SettingsError) as caught:
        sample(skewed(), progress=False, **settings)
    assert all(word in str(caught.value) for word in words)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"way": "maybe"}, "way"),
        ({"insurance": 2.0}, "insurance"),
        ({"most_refits": -1}, "most_refits"),
        ({"probe_draws": 0}, "probe_draws"),
        ({"network": GradientMLP}, "call it"),
    ],
)
def test_bad_options_are_told_clearly(options, word):
    with pytest.raises(SettingsError, match=word):
        Automatic(**options)


def test_the_estimate_is_that_of_the_run():
    found = estimate(skewed(), 50, 6)
    assert (found.chains, found.draws) == (6, 50)
    assert not found.pays
