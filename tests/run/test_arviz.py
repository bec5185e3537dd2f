"""What a user's ArviZ is given, whichever version it is."""

import numpy as np
import pytest
from arviz_base import from_dict
from xarray import DataTree

from nnghmc.run import arviz as ours

DRAWS = np.random.default_rng(0).normal(size=(2, 100, 3))
ARVIZ = ours.load_arviz()
legacy = pytest.mark.skipif(
    ARVIZ.__version__.startswith("1."), reason="only ArviZ 0.23 has an InferenceData and Numba"
)


@pytest.fixture
def tree():
    return from_dict({"posterior": {"x": DRAWS}, "sample_stats": {"lp": DRAWS[..., 0]}})


def test_results_are_of_the_type_that_the_users_arviz_makes(tree):
    found = ours.for_users_arviz(tree)
    arguments = {"posterior": {"x": DRAWS}}
    if ARVIZ.__version__.startswith("0."):
        assert type(found) is type(ARVIZ.from_dict(**arguments)) is ARVIZ.InferenceData
        assert list(found.groups()) == ["posterior", "sample_stats"]
    else:
        assert type(found) is type(ARVIZ.from_dict(arguments)) is DataTree
        assert list(found.children) == ["posterior", "sample_stats"]
    np.testing.assert_array_equal(found.posterior["x"], DRAWS)


def test_the_summary_is_that_of_the_users_arviz(tree):
    found = ours.summary(tree)
    assert list(found.index) == ["x[0]", "x[1]", "x[2]"]
    expected = ARVIZ.summary(ours.for_users_arviz(tree))
    assert found.equals(expected)
    np.testing.assert_allclose(found["mean"].astype(float), DRAWS.mean(axis=(0, 1)), atol=1e-3)


def test_a_summary_makes_no_remarks(capfd):
    ours.summary(from_dict({"posterior": {"x": np.ones((1, 5))}}))
    assert capfd.readouterr().err == ""


@legacy
def test_the_old_arviz_works_without_numba(monkeypatch, tree):
    """Where PyMC has brought it along, ArviZ 0.23 fails on the error of a standard deviation."""
    seen = []
    monkeypatch.setattr(ARVIZ.Numba, "numba_flag", True)
    monkeypatch.setattr(ARVIZ, "summary", lambda data: seen.append(ARVIZ.Numba.numba_flag))
    ours.summary(tree)
    assert seen == [False]
    assert ARVIZ.Numba.numba_flag
