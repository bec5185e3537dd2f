import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest

from nnghmc.run.report import Phase, figures

NOISE = np.random.default_rng(0).normal(size=(4, 200))


def test_ranks_of_chains_that_agree_are_even_and_others_not():
    agreeing = figures._rank_counts(NOISE)
    assert agreeing.shape == (4, 20)
    assert (agreeing.sum(axis=1) == 200).all()
    assert (agreeing.sum(axis=0) == 40).all()
    apart = NOISE.copy()
    apart[2] += 100
    counts = figures._rank_counts(apart)
    assert (counts[2, :15] == 0).all()
    assert (counts[2, 15:] == 40).all()


@pytest.mark.parametrize(
    "draws",
    [NOISE[:1], NOISE[:, :1], np.zeros((2, 9)), np.full((2, 9), np.nan)],
    ids=["one chain", "one draw", "constant", "not finite"],
)
def test_nothing_to_rank(draws):
    assert figures.ranks("x", draws) is None


@pytest.mark.parametrize(
    "energies",
    [NOISE[:, :1], np.zeros((2, 9)), np.full((2, 9), np.nan), np.tile(np.arange(9.0), (2, 1))],
    ids=["one draw", "constant", "not known", "even changes"],
)
def test_energies_without_a_density(energies):
    assert figures.energy(energies) is None


def test_stretches_are_means_in_order():
    places, means = figures._stretches(np.arange(10.0)[np.newaxis], most=5)
    np.testing.assert_array_equal(places, [1, 3, 5, 7, 9])
    np.testing.assert_array_equal(means, [[0.5, 2.5, 4.5, 6.5, 8.5]])
    assert figures._stretches(np.ones((2, 3)), most=5)[1].shape == (2, 3)


def test_no_acceptance_where_nothing_was_tested():
    phases = (Phase("kept", 9),)
    unknown = np.full((2, 9), np.nan)
    assert figures.acceptance(unknown, np.zeros((2, 9), bool), phases, ()) is None


def test_acceptance_names_its_phases():
    phases = (Phase("warm-up", 40), Phase("kept", 160))
    rates = np.linspace(0, 1, 200)[np.newaxis]
    picture = figures.acceptance(rates, rates > 0.9, phases, ())
    assert "warm-up 40, kept 160" in picture.caption
    assert f"{rates[0, 40:].mean():.2f}" in picture.alt


def test_long_traces_are_thinned():
    assert figures.trace_stride(np.empty((4, 10_000))) == 1
    assert figures.trace_stride(np.empty((4, 10_001))) == 2


def test_pictures_are_the_same_whatever_style_is_set():
    """And a name that Matplotlib cannot set does no harm: it is in the caption alone."""
    here = figures.trace("$\\frac{", NOISE)
    with plt.style.context("dark_background"), mpl.rc_context({"font.size": 30}):
        there = figures.trace("$\\frac{", NOISE)
        assert mpl.rcParams["font.size"] == 30
    assert here.svg == there.svg
    assert here.caption == "$\\frac{"


def test_the_caption_of_losses_names_held_out_points_only_where_there_are_any():
    training = np.exp(-np.arange(5.0))
    assert "held-out" in figures.losses(training, 2 * training).caption
    assert "held-out" not in figures.losses(training, np.empty(0)).caption
    assert figures.losses(np.empty(0), np.empty(0)) is None
