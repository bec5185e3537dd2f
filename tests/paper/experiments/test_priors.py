"""A gradient learned under one prior samples the posterior of another, as standard HMC does."""

from functools import partial

import pytest

from nnghmc import plots
from nnghmc.paper.experiments.priors import agreement, bound, figure, four_runs, largest_z
from nnghmc.paper.targets import logistic

DRAWS = 800


@pytest.fixture(scope="module")
def runs():
    make = partial(logistic, rows=300, columns=6)
    return four_runs(make, DRAWS, progress=False, step_size=0.12, num_steps=(2, 12), warmup=100)


def test_nothing_was_learned_anew(runs):
    moved = runs["new, NNgHMC"]
    assert moved.handed_over
    assert moved.gradient_data is None
    assert moved.cost.sample.true_gradients == 0
    assert moved.cost.sample.true_potentials == 8 * 4 * DRAWS


def test_means_and_spreads_are_those_of_standard_hmc_under_the_new_prior(runs):
    assert max(largest_z(runs["new, HMC"], runs["new, NNgHMC"])) < bound(2 * 6)


def test_the_prior_matters_here(runs):
    """Else the agreement would prove nothing."""
    assert min(largest_z(runs["old, HMC"], runs["new, HMC"])) > 10


def test_agreement_is_stated_and_so_is_the_lack_of_it(runs):
    assert agreement(runs).startswith(
        "Under the new prior both methods agree: the largest |z| of 6"
    )
    wrong = runs | {"new, NNgHMC": runs["old, NNgHMC"]}
    assert agreement(wrong).startswith("Under the new prior both methods do not agree")


def test_the_figure_can_be_drawn(runs, tmp_path):
    plots.save(figure(runs), tmp_path / "priors.png")
    assert (tmp_path / "priors.png").stat().st_size > 10_000
