import numpy as np
import pytest

from nnghmc.diagnostics import (
    Convergence,
    bfmi,
    bulk_ess,
    judgements,
    longest_stay,
    paper_ess,
    rhat,
    split_rhat,
    standard_errors,
    tail_ess,
)


def autoregression(correlation, chains=4, length=20_000, seed=0):
    noise = np.random.default_rng(seed).normal(size=(chains, length, 1))
    draws = np.empty_like(noise)
    draws[:, 0] = noise[:, 0] / np.sqrt(1 - correlation**2)
    for t in range(1, length):
        draws[:, t] = correlation * draws[:, t - 1] + noise[:, t]
    return draws


@pytest.mark.parametrize("ess", [bulk_ess, paper_ess])
@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.8])
def test_ess_of_an_autoregression(ess, correlation):
    """The integrated autocorrelation time is (1 + φ) / (1 - φ)."""
    draws = autoregression(correlation)
    expected = draws.shape[0] * draws.shape[1] * (1 - correlation) / (1 + correlation)
    assert ess(draws)[0] == pytest.approx(expected, rel=0.1)


def test_a_value_for_each_coordinate():
    draws = np.random.default_rng(0).normal(size=(3, 100, 5))
    assert bulk_ess(draws).shape == paper_ess(draws).shape == rhat(draws).shape == (5,)


def test_only_bulk_ess_sees_chains_that_sit_apart():
    draws = np.random.default_rng(0).normal(size=(2, 1000, 1)) + np.array([0.0, 9.0])[:, None, None]
    assert bulk_ess(draws)[0] < 10
    assert paper_ess(draws)[0] > 1000
    assert rhat(draws)[0] > 1.5


@pytest.mark.parametrize("ess", [bulk_ess, tail_ess, paper_ess])
def test_chains_that_never_moved_have_no_ess(ess):
    draws = np.random.default_rng(0).normal(size=(2, 50, 2))
    draws[..., 1] = 0.1
    moving, still = ess(draws)
    assert moving > 0
    assert np.isnan(still)


def stats_like(draws, acceptance=0.9, diverging=0):
    rates = np.full(draws.shape[:2], acceptance)
    flags = np.zeros(draws.shape[:2], bool)
    flags.flat[:diverging] = True
    lp = -(draws**2).sum(axis=2)
    energy = np.random.default_rng(1).normal(size=lp.shape)
    return {"acceptance_rate": rates, "diverging": flags, "lp": lp, "energy": energy}


@pytest.mark.parametrize(("correlation", "noted"), [(0.0, False), (0.5, False), (0.8, True)])
def test_energies_that_change_too_little_are_told(correlation, noted):
    """E-BFMI is 2 (1 - φ) for energies of autocorrelation φ."""
    draws = np.random.default_rng(0).normal(size=(4, 1000, 2))
    energies = autoregression(correlation, length=1000)[..., 0]
    assert bfmi(energies).mean() == pytest.approx(2 * (1 - correlation), rel=0.05)
    stats = stats_like(draws) | {"energy": energies}
    notes = judgements(draws, stats, Convergence.of(draws), ["a", "b"])
    assert any("E-BFMI" in note for note in notes) is noted


def test_energies_are_not_judged_by_a_few_draws():
    draws = np.random.default_rng(0).normal(size=(4, 20, 2))
    stats = stats_like(draws) | {"energy": np.cumsum(np.ones((4, 20)), axis=1)}
    notes = judgements(draws, stats, Convergence.of(draws), ["a", "b"])
    assert not any("E-BFMI" in note for note in notes)


def test_good_draws_need_no_words():
    draws = np.random.default_rng(0).normal(size=(4, 1000, 2))
    assert judgements(draws, stats_like(draws), Convergence.of(draws), ["a", "b"]) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda draws: draws * 0, ["4 of 4 chains never moved", "step_size"]),
        (lambda draws: draws * np.array([0, 1, 1, 1])[:, None, None], ["1 of 4 chains"]),
        (
            lambda draws: draws + np.arange(4)[:, None, None] * [0, 1],
            ["R-hat", "for b", "disagree"],
        ),
        (lambda draws: draws[:, :50], ["effective sample size", "below 100 a chain"]),
    ],
)
def test_poor_draws_are_told_with_a_remedy(change, words):
    draws = change(np.random.default_rng(0).normal(size=(4, 1000, 2)))
    text = "; ".join(judgements(draws, stats_like(draws), Convergence.of(draws), ["a", "b"]))
    assert all(word in text for word in words), text


def test_low_acceptance_and_divergences_are_told():
    draws = np.random.default_rng(0).normal(size=(4, 1000, 2))
    stats = stats_like(draws, acceptance=0.1, diverging=3)
    notes = judgements(draws, stats, Convergence.of(draws), ["a", "b"])
    assert [note.split(";")[0] for note in notes] == [
        "acceptance is only 0.10",
        "3 trajectories diverged",
    ]


def test_a_chain_that_stays_is_told():
    """For a while only: it moves before and after, and by the mean of all draws little is lost."""
    draws = np.random.default_rng(0).normal(size=(4, 1000, 2))
    assert longest_stay(stats_like(draws)["lp"]) == 1
    draws[2, 300:450] = draws[2, 300]
    stats = stats_like(draws)
    assert longest_stay(stats["lp"]) == 150
    notes = judgements(draws, stats, Convergence.of(draws), ["a", "b"])
    assert "a chain stayed in one place for 150 draws" in notes[0]


def test_chains_that_disagree_in_the_log_density_alone_are_told():
    draws = np.random.default_rng(0).normal(size=(4, 1000, 2))
    stats = stats_like(draws)
    stats["lp"][0] -= 2
    (note,) = judgements(draws, stats, Convergence.of(draws), ["a", "b"])
    assert "for the log density" in note


def test_a_single_chain_that_drifts_is_told():
    draws = np.random.default_rng(0).normal(size=(1, 1000, 2))
    assert judgements(draws, stats_like(draws), Convergence.of(draws), ["a", "b"]) == []
    draws[..., 1] += np.linspace(0, 2, 1000)
    notes = judgements(draws, stats_like(draws), Convergence.of(draws), ["a", "b"])
    assert any("R-hat" in note and "for b" in note for note in notes)


@pytest.mark.parametrize(("freedom", "heavy"), [(1, True), (1.5, True), (5, False), (50, False)])
def test_tails_without_a_variance_are_told_from_tails_with_one(freedom, heavy):
    draws = np.random.default_rng(0).standard_t(freedom, size=(4, 1000, 3))
    notes = judgements(draws, stats_like(draws), Convergence.of(draws), ["a", "b", "c"])
    assert any("no variance" in note for note in notes) == heavy


def test_split_rhat_sees_chains_apart_and_drifts():
    draws = np.random.default_rng(0).normal(size=(4, 200, 3))
    assert np.abs(split_rhat(draws) - 1).max() < 0.03
    draws[0, :, 1] += 3
    draws[:, :, 2] += np.linspace(0, 4, 200)
    found = split_rhat(draws)
    assert found[0] < 1.03
    assert found[1:].min() > 1.2
    np.testing.assert_allclose(found[0], rhat(draws)[0], atol=0.02)


def test_arviz_keeps_its_remarks_to_itself(capfd):
    assert np.isnan(rhat(np.arange(5.0).reshape(1, 5, 1))).all()
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("correlation", [-0.6, 0.0, 0.8])
def test_errors_of_a_mean_and_a_standard_deviation(correlation):
    """Squares of an autoregression have the autocorrelation φ², also where φ is negative."""
    draws = autoregression(correlation)
    number, variance = draws[..., 0].size, 1 / (1 - correlation**2)
    times = [(1 + power) / (1 - power) for power in (correlation, correlation**2)]
    expected = np.sqrt(variance * np.array([times[0], times[1] / 2]) / number)
    found = [standard_errors(draws, of)[0] for of in ("mean", "std")]
    np.testing.assert_allclose(found, expected, rtol=0.1)


def test_a_log_density_that_is_not_known_is_not_judged():
    draws = np.random.default_rng(0).normal(size=(4, 500, 2))
    stats = stats_like(draws) | {"lp": np.full(draws.shape[:2], np.nan)}
    assert judgements(draws, stats, Convergence.of(draws), ["a", "b"]) == []
