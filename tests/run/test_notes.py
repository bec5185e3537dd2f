"""What kept draws call for: the kind of each note, its number, and a remedy."""

import numpy as np
import pytest

from nnghmc.engine.statistics import Convergence, bfmi, longest_stay, tail_shapes
from nnghmc.run.notes import LEARNED_GRADIENT, OWN_TUNING, TRUE_GRADIENT, Kept, judge


def normal_draws(chains=4, length=1000):
    return np.random.default_rng(0).normal(size=(chains, length, 2))


def stats_like(draws, acceptance=0.9, diverging=0):
    rates = np.full(draws.shape[:2], acceptance)
    flags = np.zeros(draws.shape[:2], bool)
    flags.flat[:diverging] = True
    lp = -(draws**2).sum(axis=2)
    energy = np.random.default_rng(1).normal(size=lp.shape)
    return {"acceptance_rate": rates, "diverging": flags, "lp": lp, "energy": energy}


def notes_on(draws, stats=None, remedies=OWN_TUNING):
    """The notes by their kinds, each of which comes once."""
    names = ["a", "b", "c"][: draws.shape[2]]
    stats = stats_like(draws) if stats is None else stats
    notes = judge(Kept(draws, stats, names, Convergence.if_enough(draws), remedies))
    kinds = {note.kind: note for note in notes}
    assert len(kinds) == len(notes)
    return kinds


def energies_with(correlation, chains=4, length=1000):
    noise = np.random.default_rng(0).normal(size=(chains, length))
    energies = np.empty_like(noise)
    energies[:, 0] = noise[:, 0] / np.sqrt(1 - correlation**2)
    for t in range(1, length):
        energies[:, t] = correlation * energies[:, t - 1] + noise[:, t]
    return energies


@pytest.mark.parametrize(("correlation", "noted"), [(0.0, False), (0.5, False), (0.8, True)])
def test_energies_that_change_too_little_are_noted(correlation, noted):
    """E-BFMI is 2 (1 - φ) for energies of autocorrelation φ."""
    draws, energies = normal_draws(), energies_with(correlation)
    assert bfmi(energies).mean() == pytest.approx(2 * (1 - correlation), rel=0.05)
    assert ("low E-BFMI" in notes_on(draws, stats_like(draws) | {"energy": energies})) is noted


def test_energies_are_not_judged_by_a_few_draws():
    draws = normal_draws(length=20)
    stats = stats_like(draws) | {"energy": np.cumsum(np.ones((4, 20)), axis=1)}
    assert "low E-BFMI" not in notes_on(draws, stats)


@pytest.mark.parametrize("remedies", [OWN_TUNING, TRUE_GRADIENT, LEARNED_GRADIENT])
def test_good_draws_need_no_note(remedies):
    assert notes_on(normal_draws(), remedies=remedies) == {}


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        (lambda draws: draws * 0, "stuck chains", ["4 of 4 chains"]),
        (
            lambda draws: draws * np.array([0, 1, 1, 1])[:, None, None],
            "stuck chains",
            ["1 of 4 chains"],
        ),
        (
            lambda draws: draws + np.arange(4)[:, None, None] * [0, 1],
            "chains disagree",
            ["R-hat", "for b"],
        ),
        (lambda draws: draws[:, :50], "low effective sample size", ["below 100 per chain"]),
    ],
)
def test_poor_draws_are_noted_with_a_number_and_a_remedy(change, kind, words):
    note = notes_on(change(normal_draws()))[kind]
    assert all(word in note.text for word in words), note.text
    assert note.remedy
    assert str(note) == f"{note.text}; {note.remedy}"


@pytest.mark.parametrize("remedies", [OWN_TUNING, TRUE_GRADIENT, LEARNED_GRADIENT])
def test_the_remedy_is_one_that_the_method_allows(remedies):
    """A step size is no advice for a method that finds its own."""
    note = notes_on(normal_draws() * 0, remedies=remedies)["stuck chains"]
    assert note.remedy == remedies.rejected
    assert ("step_size" in note.remedy) is (remedies is OWN_TUNING)


def test_a_divergence_now_and_then_is_noted_unless_the_truth_has_been_asked_there():
    draws = np.random.default_rng(0).normal(size=(4, 1000, 2))
    for number, remedies, noted in (
        (1, TRUE_GRADIENT, True),
        (8, LEARNED_GRADIENT, False),
        (9, LEARNED_GRADIENT, True),
    ):
        found = notes_on(draws, stats_like(draws, diverging=number), remedies=remedies)
        assert ("divergences" in found) == noted


def test_low_acceptance_and_divergences_are_noted():
    draws = normal_draws()
    notes = notes_on(draws, stats_like(draws, acceptance=0.1, diverging=3))
    assert list(notes) == ["low acceptance", "divergences"]
    assert "0.10" in notes["low acceptance"].text
    assert notes["divergences"].text.startswith("3 ")


def test_low_acceptance_of_one_chain_is_noted():
    """In the mean over all chains it does not show."""
    draws = normal_draws()
    stats = stats_like(draws)
    stats["acceptance_rate"][2] = 0.1
    notes = notes_on(draws, stats)
    assert list(notes) == ["low acceptance"]
    assert "0.10 in one chain" in notes["low acceptance"].text


def test_a_chain_that_stays_is_noted():
    """For a while only: it moves before and after, and by the mean of all draws little is lost."""
    draws = normal_draws()
    draws[2, 300:450] = draws[2, 300]
    stats = stats_like(draws)
    assert longest_stay(stats["lp"]) == 150
    assert "150 draws" in notes_on(draws, stats)["long stay"].text


def test_chains_that_disagree_in_the_log_density_alone_are_noted():
    draws = normal_draws()
    stats = stats_like(draws)
    stats["lp"][0] -= 2
    notes = notes_on(draws, stats)
    assert list(notes) == ["chains disagree"]
    assert "for the log density" in notes["chains disagree"].text


def test_a_single_chain_that_drifts_is_noted():
    draws = normal_draws(chains=1)
    assert notes_on(draws) == {}
    draws[..., 1] += np.linspace(0, 2, 1000)
    assert "for b" in notes_on(draws)["chains disagree"].text


@pytest.mark.parametrize(("freedom", "heavy"), [(1, True), (1.5, True), (5, False), (50, False)])
def test_tails_without_a_variance_are_distinguished_from_tails_with_one(freedom, heavy):
    draws = np.random.default_rng(0).standard_t(freedom, size=(4, 1000, 3))
    assert ("heavy tails" in notes_on(draws)) is heavy


def test_a_log_density_that_is_not_known_is_not_judged():
    draws = normal_draws(length=500)
    stats = stats_like(draws) | {"lp": np.full(draws.shape[:2], np.nan)}
    assert notes_on(draws, stats) == {}


def test_three_draws_cannot_be_judged():
    assert list(notes_on(normal_draws(length=3))) == ["few draws"]


def test_a_chain_that_stays_in_the_tail_does_not_hide_the_tails_of_others():
    """All draws in the tail of the first coordinate are the same; the second has no variance."""
    draws = np.random.default_rng(0).standard_t(1, size=(4, 1000, 2))
    draws[..., 0] = np.clip(draws[..., 0], -1, 1)
    draws[1, :400, 0] = 9.0
    shapes = tail_shapes(draws)
    assert np.isnan(shapes[0])
    assert shapes[1] > 0.5
    assert " b " in notes_on(draws)["heavy tails"].text
