"""The automatic run decides: what pays, what can be learned, and when NUTS takes over instead."""

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nnghmc import (
    HMC,
    NUTS,
    Auto,
    GradientData,
    GradientMLP,
    NNgHMC,
    Policy,
    Posterior,
    QuadraticPlus,
    Training,
    TrainingSchedule,
    fit,
    from_log_density,
    sample,
)
from nnghmc.engine.statistics import standard_errors
from nnghmc.errors import SettingsError
from nnghmc.kernels import LearnedGradientHMC, NoUTurn, SurrogateTransition
from support_auto import (
    CHEAP,
    GAMMA_LOGS,
    LEARN,
    LONG,
    SHORT,
    assert_moments,
    kinds,
    reasons,
    skewed,
    student,
)
from support_sessions import run_stopped_in, watched_run


def run_of(posterior, draws, method, chains=4, **arguments):
    return sample(posterior, draws, chains, method=method, progress=False, **arguments)


def test_few_draws_of_a_cheap_posterior_are_left_to_nuts():
    """By a clock that stands still, no evaluation takes any time."""
    run, _ = watched_run(skewed(), 50, 4, Auto(), clock=lambda: 0.0)
    assert not run.estimate.pays
    assert run.title == "NUTS"
    assert run.complete
    assert not run.handed_over
    assert reasons(run) == []  # nothing else was tried


@pytest.mark.parametrize(("expected", "learned"), [(CHEAP, False), (LONG, True)])
def test_the_estimate_decides_which_way_is_taken(expected, learned):
    run = run_of(skewed(), 20, Auto(estimate=expected))
    assert run.estimate is expected
    assert run.estimate.pays is learned
    assert run.handed_over is learned
    assert bool(run.events_of("Explored")) is learned


@dataclass(frozen=True)
class AutoThatProbedTheEasyPart(Auto):
    """A probe in which everything was accepted; apart from that, the same run."""

    streams = "Auto"

    def prepare(self, posterior, starts, session):
        prepared = super().prepare(posterior, starts, session)
        return replace(prepared, parts={**prepared.parts, "probed_acceptance": 1.0})


def test_acceptance_that_falls_behind_the_probe_is_noted():
    """As where the probe saw the easy part of the posterior only."""
    lenient = Policy(least_acceptance=0.0, least_acceptance_of_a_chain=0.0)
    poor = AutoThatProbedTheEasyPart(way="learn", network=GradientMLP(1), policy=lenient)
    run = run_of(skewed(), 300, poor)
    assert reasons(run) == []
    assert run.handed_over
    note = next(note for note in run.notes if note.kind == "acceptance fell")
    assert "from 1.00" in note.text
    assert f"to {run.kept.worst_acceptance:.2f}" in note.text


@pytest.mark.parametrize(("expected", "rounds"), [(SHORT, 3), (LONG, 4)])
def test_what_learning_may_cost_depends_on_what_is_at_stake(expected, rounds):
    """Of a short run by NUTS little time may be lost."""
    hard = Policy(largest_uncovered=1e-6, most_rounds=4, round_seconds=1.0)
    run = run_of(student(), 50, Auto(estimate=expected, policy=hard))
    assert run.title == "NUTS"
    assert reasons(run) == ["uncovered"]
    (explored,) = run.events_of("Explored")
    assert explored.rounds == rounds


def test_a_surrogate_that_would_close_off_places_with_mass_is_left_to_nuts():
    """After two rounds a Student distribution is learned near its middle only."""
    policy = Policy(most_rounds=2)
    run = run_of(student(), 1500, Auto(way="learn", policy=policy))
    assert run.title == "NUTS"
    assert reasons(run)[0] in ("closed off", "uncovered")
    assert_moments(run, np.zeros(5), np.full(5, 5 / 3))


def test_a_network_that_is_not_good_enough_gives_way_to_nuts():
    strict = Policy(least_acceptance=0.97)
    run = run_of(skewed(), 500, Auto(way="learn", network=GradientMLP(1), policy=strict))
    assert run.title == "NUTS"
    assert reasons(run) == ["low acceptance"]
    assert run.events_of("FellBack")[0].value == run.events_of("Probed")[-1].acceptance < 0.97
    (fitted,) = run.events_of("Fitted")
    assert fitted.model == "GradientMLP"
    assert_moments(run, *GAMMA_LOGS)


@pytest.mark.parametrize("network", [QuadraticPlus(), GradientMLP(20)])
def test_any_model_learns_from_what_the_rounds_found(network):
    """With a potential it makes surrogate transitions, without one HMC follows its gradient."""
    lenient = Policy(least_acceptance=0.05, least_acceptance_of_a_chain=0.0)
    run, phases = watched_run(skewed(), 600, 4, Auto(way="learn", network=network, policy=lenient))
    assert run.handed_over
    assert type(network).__name__ == run.surrogate.report.model
    expected = SurrogateTransition if run.surrogate.conservative else LearnedGradientHMC
    kept = next(phase for phase in phases if phase.numbers == range(600))
    assert isinstance(kept.kernel.usual, expected)
    assert_moments(run, *GAMMA_LOGS)


def test_only_the_expensive_function_is_learned():
    """Group effects on a scale of their own: what depends on the scale alone stays exact."""
    groups = np.arange(200) % 4
    y = np.random.default_rng(0).normal(np.array([-1.0, 0.0, 0.5, 2.0])[groups])

    def log_likelihood(p, data):
        return -0.5 * jnp.sum((data["y"] - (jnp.exp(p["t"]) * p["z"])[data["group"]]) ** 2)

    posterior = Posterior(
        log_likelihood,
        lambda p: -0.5 * p["t"] ** 2 - 0.5 * jnp.sum(p["z"] ** 2),
        {"y": y, "group": groups},
        {"t": 0.0, "z": np.zeros(4)},
    )
    as_learned = replace(LEARN.policy, defensive_share=0.0)
    run = run_of(posterior, 1000, replace(LEARN, policy=as_learned))
    assert run.handed_over
    (split,) = run.events_of("Split")
    assert (split.inputs, split.dim, split.has_exact_part) == (4, 5, True)
    assert run.surrogate.of_inputs
    assert run.acceptance > 0.97  # the expensive function is quadratic in its inputs
    by_nuts = run_of(posterior, 2000, "nuts")
    together = [standard_errors(part.draws) for part in (run, by_nuts)]
    z = (run.draws.mean(axis=(0, 1)) - by_nuts.draws.mean(axis=(0, 1))) / np.hypot(*together)
    assert np.abs(z).max() < 4


def normal_data(rows, prior, centre=0.0):
    """The mean of some rows, with a light quartic term, under a prior."""
    data = np.random.default_rng(0).normal(0.3, 1.0, (300, 3))[:rows]
    return Posterior(
        lambda p, rows: -0.5 * jnp.sum((rows - p) ** 2) - 0.01 * jnp.sum(p**4),
        lambda p: -0.5 * jnp.sum(((p - centre) / prior) ** 2),
        data,
        np.zeros(3),
    )


def test_what_was_learned_before_is_used_if_the_truth_agrees():
    """Under another prior, with nothing fitted; and not on data of which it knows nothing."""
    first = run_of(normal_data(200, 1.0), 20, LEARN)
    reusing = replace(LEARN, surrogate=first.surrogate)
    again = run_of(normal_data(200, 0.5), 1000, reusing)
    assert again.handed_over
    assert again.surrogate is first.surrogate
    (probe,) = again.events_of("Probed")
    assert probe.reused
    assert again.events_of("Explored") == ()
    assert again.acceptance > 0.9
    expected = np.random.default_rng(0).normal(0.3, 1.0, (300, 3))[:200].mean(axis=0)
    z = (again.draws.mean(axis=(0, 1)) - expected * 200 / 204) * np.sqrt(204)
    assert np.abs(z).max() < 0.15  # of a standard deviation; the quartic term is less
    far = run_of(normal_data(20, 0.01, 2.0), 100, reusing)
    assert len(far.events_of("Explored")) == 1
    (probe,) = far.events_of("Probed")
    assert not probe.reused
    assert far.surrogate is not first.surrogate
    np.testing.assert_allclose(far.draws.mean(axis=(0, 1)), 2.0, atol=0.02)


def test_a_surrogate_of_other_inputs_is_refused():
    first = run_of(normal_data(200, 1.0), 20, LEARN)
    with pytest.raises(SettingsError, match="of 3 inputs cannot serve"):
        run_of(student(), 20, Auto(surrogate=first.surrogate))


def test_a_surrogate_without_a_potential_is_refused():
    positions = np.random.default_rng(0).normal(size=(40, 5))
    data = GradientData.of_points(positions, positions)
    learned = fit(GradientMLP(4), data, jax.random.key(0), training=Training(epochs=1))
    with pytest.raises(SettingsError, match=r"a GradientMLP has none. Use NNgHMC"):
        run_of(student(), 20, Auto(surrogate=learned))


def test_a_run_with_a_surrogate_is_independent_of_the_one_it_came_from():
    first, before = watched_run(normal_data(200, 1.0), 5, 4, LEARN)
    reusing = replace(LEARN, surrogate=first.surrogate)
    _, after = watched_run(normal_data(200, 1.0), 5, 4, reusing)
    used = [
        (tuple(jax.random.key_data(phase.key).tolist()), number)
        for phase in (*before, *after)
        for number in phase.numbers
    ]
    assert len(set(used)) == len(used)


@pytest.mark.parametrize(
    ("way", "phase"),
    [
        ("learn", "find"),
        ("learn", "explore"),
        ("learn", "train"),
        ("learn", "probe"),
        ("learn", "sample"),
        ("nuts", "warmup"),
    ],
)
def test_stopped_in_any_phase_it_ends(way, phase):
    run = run_stopped_in(phase, skewed(), 50, 4, Auto(way=way))
    assert not run.complete
    assert run.draws.shape == (4, 0, 3)
    assert "incomplete" in str(run)


def test_too_few_draws_are_not_called_well():
    run = run_of(skewed(), 3, NUTS(estimate=CHEAP))
    assert "few draws" in kinds(run)


def test_a_funnel_that_swallows_the_descent_is_left_to_nuts():
    """Its density has no bound: downhill is not where the mass is."""

    def log_density(q):
        return -0.5 * (q[0] / 2) ** 2 - 0.5 * jnp.sum(q[1:] ** 2) * jnp.exp(-2 * q[0]) - 20 * q[0]

    posterior = from_log_density(log_density, np.zeros(21))
    run, phases = watched_run(posterior, 200, 4, LEARN)
    assert run.title == "NUTS"
    (reason,) = reasons(run)
    assert reason in ("nothing learned", "low acceptance", "chains disagree", "uncovered")
    started = next(phase for phase in phases if type(phase.kernel) is NoUTurn)
    assert (started.states.position[:, 0] > -4).all()  # not in the neck: two standard deviations
    assert (run.draws[..., 0].std(axis=1) > 0.1).all()  # no chain stays in the neck


def test_nuts_after_learning_that_failed_starts_from_true_gradients():
    posterior = skewed()
    strict = Policy(good_acceptance=0.9999, least_acceptance=0.9999, most_rounds=1)
    failing = Auto(way="learn", policy=strict)
    run, phases = watched_run(posterior, 20, 4, failing)
    assert run.title == "NUTS"
    assert reasons(run) == ["low acceptance"]
    states = next(phase for phase in phases if type(phase.kernel) is NoUTurn).states
    gradients = jax.vmap(posterior.gradient)(jnp.asarray(states.position))
    np.testing.assert_allclose(states.gradient, gradients, rtol=1e-8, atol=1e-10)


def test_a_tuning_of_ones_own_decides_nothing():
    """There is no estimate and nothing is explored; NNgHMC follows its schedule."""
    run = run_of(skewed(), 5, HMC(0.2, warmup=5), chains=2)
    assert run.events == ()
    assert run.story == ()
    once = TrainingSchedule.once(10)
    run = run_of(skewed(), 5, NNgHMC(warmup=5, schedule=once), chains=2)
    assert run.title.startswith("NNgHMC")
    assert run.estimate is None
    assert len(run.decisions) == 1


@pytest.mark.parametrize(
    ("kind", "options", "word"),
    [
        (Auto, {"way": "maybe"}, "way"),
        (Auto, {"network": GradientMLP}, "call it"),
        (Auto, {"policy": 3}, "policy must be a Policy"),
        (Auto, {"estimate": 3}, "estimate must be a Estimate"),
        (Policy, {"true_share": 2.0}, "true_share"),
        (Policy, {"most_rounds": 0}, "most_rounds"),
        (Policy, {"probe_draws": 0}, "probe_draws"),
    ],
)
def test_bad_options_are_refused_clearly(kind, options, word):
    with pytest.raises(SettingsError, match=word):
        kind(**options)
