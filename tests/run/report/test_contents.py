"""The contents of a report, from runs of several methods."""

import dataclasses

import jax
import numpy as np
import pytest

from nnghmc import Auto, Policy, Posterior, sample
from nnghmc.engine.events import UnknownEvent
from nnghmc.run.report import Contents, Phase, Probe, write_report
from support import QUICK, logistic_data, logistic_log_likelihood, logistic_log_prior
from support_report import HOSTILE, LEARNING_PAYS, made_up, made_up_learned, made_up_stats


@pytest.fixture(scope="module")
def learned_run():
    posterior = Posterior(
        logistic_log_likelihood,
        logistic_log_prior,
        logistic_data(),
        {"beta": np.zeros(3)},
        dims={"beta": ["feature"]},
        coords={"feature": ["age", "income", HOSTILE]},
    )
    return sample(posterior, 100, 2, **QUICK)


@pytest.fixture(scope="module")
def learned_contents(learned_run):
    return Contents.of_run(learned_run)


def test_contents_tell_what_the_run_was(learned_run, learned_contents):
    contents = learned_contents
    assert contents.model == repr(learned_run.posterior)
    assert (contents.chains, contents.draws, contents.dim) == learned_run.draws.shape
    assert (contents.method, contents.seed) == (learned_run.title, learned_run.seed)
    assert contents.notes == learned_run.notes
    assert contents.story == learned_run.story
    assert str(learned_run.decisions[-1]) in contents.story
    assert contents.fit.lines == tuple(learned_run.surrogate.report.lines)
    assert "nnghmc 0." in contents.made
    assert contents.calls == learned_run.calls
    assert contents.store == ""
    assert list(contents.scalars) == ["beta[age]", "beta[income]", f"beta[{HOSTILE}]"]
    np.testing.assert_array_equal(contents.scalars["beta[income]"], learned_run.draws[..., 1])


def test_phases_follow_the_schedule(learned_run, learned_contents):
    warmup, collected, kept = learned_contents.phases
    assert warmup == Phase("warm-up", 20)
    assert collected == Phase("collect", 20)
    assert kept == Phase("kept", 100)
    acceptance = learned_run.decisions[0].learned_acceptance
    assert learned_contents.probes == (Probe(40, acceptance),)
    rates = learned_contents.acceptance
    assert rates.shape == learned_contents.diverged.shape == (2, 140)
    np.testing.assert_array_equal(rates[:, :40], learned_run.warmup_stats["acceptance_rate"])
    np.testing.assert_array_equal(rates[:, 40:], learned_run.stats["acceptance_rate"])


def test_probes_of_the_automatic_run_are_at_the_end_of_its_warm_up(logistic):
    method = Auto(way="learn", estimate=LEARNING_PAYS)
    run = sample(logistic, 20, 2, method=method, progress=False)
    contents = Contents.of_run(run)
    assert [phase.name for phase in contents.phases] == ["warm-up", "kept"]
    assert contents.phases[0].draws == run.warmup_draws.shape[1] == Policy().probe_draws
    (probed,) = run.events_of("Probed")
    assert contents.probes == (Probe(Policy().probe_draws, probed.acceptance),)


def test_probes_of_another_version_are_told_but_not_drawn(learned_run):
    unknown = UnknownEvent("Probed", "a probe of another version", {"rate": 0.5})
    contents = Contents.of_run(dataclasses.replace(learned_run, events=(unknown,)))
    assert contents.story == ("a probe of another version",)
    assert contents.probes == ()


def test_gradients_are_those_of_held_out_points(learned_run, learned_contents):
    held_out = learned_run.surrogate.held_out
    gradients = learned_contents.fit.gradients
    unit = held_out.positions.std(axis=0)
    expected = jax.vmap(learned_run.posterior.gradient)(held_out.positions) * unit
    np.testing.assert_allclose(gradients.true, expected, rtol=1e-5, atol=1e-5)
    learned = jax.vmap(learned_run.surrogate.gradient)(held_out.positions) * unit
    np.testing.assert_allclose(gradients.learned, learned, rtol=1e-5, atol=1e-5)
    size = np.linalg.norm(expected, axis=0)
    error = np.linalg.norm(learned - expected, axis=0) / size
    np.testing.assert_allclose(gradients.errors, error, rtol=1e-3)


@pytest.mark.parametrize("group", ["warmup_stats", "stats"])
def test_statistics_that_a_phase_does_not_have_are_unknown(group):
    known = made_up_learned()
    changes = {"warmup_stats": known.warmup_stats, "stats": known.stats} | {group: {}}
    contents = made_up(np.zeros((2, 80, 3)), phases=known.phases, **changes)
    unknown, others = slice(0, 20), slice(20, None)
    if group == "stats":
        unknown, others = slice(20, None), slice(0, 20)
    assert np.isnan(contents.acceptance[:, unknown]).all()
    np.testing.assert_array_equal(contents.acceptance[:, others], known.acceptance[:, others])
    assert contents.diverged.shape == (2, 100)
    assert not contents.diverged.any()


def test_a_run_that_was_stopped_in_its_warm_up_has_its_phases():
    phases = (Phase("warm-up", 9),)
    stopped = made_up(np.empty((3, 0, 2)), phases=phases, warmup_stats=made_up_stats(3, 9))
    assert stopped.acceptance.shape == (3, 9)
    assert stopped.draws == 0


@pytest.mark.parametrize("name", ["acceptance_rate", "no such statistic"])
def test_what_is_not_known_is_empty(name):
    nothing = made_up(np.empty((3, 0, 2)))
    assert nothing.statistic(name).shape == (3, 0)
    assert nothing.acceptance.shape == nothing.diverged.shape == (3, 0)


def test_a_report_of_the_run_tells_its_story(learned_run, learned_contents, tmp_path):
    path = tmp_path / "report.html"
    write_report(learned_run, path)
    text = path.read_text()
    for words in (
        "2 × 100 draws of 3 dimensions",
        *learned_run.story,
        "warm-up 20, collect 20, kept 100",
        f"{learned_run.cost.sample.learned_gradients:,}",
        "A kept draw took 1 true potential, 5 learned gradients on average",
        *learned_contents.fit.lines,
    ):
        assert words in text, words
