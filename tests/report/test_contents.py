import jax
import numpy as np
import pytest

from nnghmc import Posterior, sample
from nnghmc.report import Contents, Phase, Probe, write_report
from support import QUICK, logistic_data, logistic_log_likelihood, logistic_log_prior
from support_report import HOSTILE, made_up


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
    return sample(posterior, 100, 2, method="nnghmc", **QUICK)


@pytest.fixture(scope="module")
def learned_contents(learned_run):
    return Contents.of_run(learned_run)


def test_contents_tell_what_the_run_was(learned_run, learned_contents):
    contents = learned_contents
    assert contents.model == repr(learned_run.posterior)
    assert (contents.chains, contents.draws, contents.dim) == learned_run.draws.shape
    assert (contents.method, contents.seed) == (learned_run.title, learned_run.seed)
    assert contents.notes == learned_run.notes
    assert "handed over" in contents.story[-1]
    assert contents.fit.lines == tuple(learned_run.surrogate.report.lines)
    assert "nnghmc 0." in contents.made
    assert list(contents.scalars) == ["beta[age]", "beta[income]", f"beta[{HOSTILE}]"]
    np.testing.assert_array_equal(contents.scalars["beta[income]"], learned_run.draws[..., 1])


def test_phases_follow_the_schedule(learned_run, learned_contents):
    warmup, collected, kept = learned_contents.phases
    assert warmup == Phase("warm-up", 20)
    assert collected == Phase("collect", 20)
    assert kept == Phase("kept", 100)
    acceptance = learned_run.decisions[0].learned_acceptance
    assert learned_contents.probes == (Probe(40, acceptance),)
    rates = learned_contents.whole_statistic("acceptance_rate")
    assert rates.shape == (2, 140)
    np.testing.assert_array_equal(rates[:, 40:], learned_run.stats["acceptance_rate"])


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


def test_without_phases_the_kept_draws_are_told_from_the_others(learned_contents):
    draws = np.random.default_rng(0).normal(size=(2, 30, 1))
    assert made_up(draws).all_phases == (Phase("kept", 30),)
    wrong = made_up(draws, data=learned_contents.data, phases=(Phase("kept", 3),))
    assert wrong.all_phases == (Phase("warm-up", 40), Phase("kept", 100))


@pytest.mark.parametrize("name", ["acceptance_rate", "no such statistic"])
def test_what_is_not_known_is_empty(name):
    assert made_up(np.empty((3, 0, 2))).whole_statistic(name).shape == (3, 0)


def test_a_report_of_the_run_tells_its_story(learned_run, learned_contents, tmp_path):
    path = tmp_path / "report.html"
    write_report(learned_contents, path)
    text = path.read_text()
    for words in (
        "2 × 100 draws of 3 dimensions",
        "handed over",
        "warm-up 20, collect 20, kept 100",
        f"{learned_run.cost.sample.learned_gradients:,}",
        "A kept draw took 1 true potential, 5 learned gradients on average",
        *learned_contents.fit.lines,
    ):
        assert words in text, words
