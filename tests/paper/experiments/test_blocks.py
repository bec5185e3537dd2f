"""The remark on disjoint networks, on a regression of a size for tests."""

import jax
import pytest

from nnghmc import BlockMLP, GradientMLP, QuadraticPlus, Training, fit, plots
from nnghmc.paper.experiments import blocks


@pytest.fixture(scope="module")
def surrogates():
    data = blocks.collect_gradients(rows=5_000, columns=48, progress=False)
    assert len(data.without_starts()) == 4000
    quick = Training(epochs=20)
    models = {
        "one network of 400 units": (GradientMLP(96), quick),
        "one network of 50 units": (GradientMLP(12), quick),
        "8 disjoint networks of 50 units": (BlockMLP(8, 12), quick),
        "the default": (QuadraticPlus(), None),
    }
    return {
        name: fit(model, data, jax.random.key(0), training)
        for name, (model, training) in models.items()
    }


def test_disjoint_networks_learn_better_than_one_and_the_default_best(surrogates):
    large, small, disjoint, default = (part.report for part in surrogates.values())
    assert disjoint.losses[-1] < large.losses[-1] < small.losses[-1]
    assert default.held_out_error < disjoint.held_out_error < small.held_out_error


def test_the_figure_can_be_drawn(surrogates, tmp_path):
    plots.save(blocks.figure(surrogates), tmp_path / "losses.png")
    assert (tmp_path / "losses.png").stat().st_size > 10_000
