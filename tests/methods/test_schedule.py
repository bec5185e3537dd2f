import pytest

from nnghmc import TrainingSchedule
from nnghmc.errors import SettingsError
from nnghmc.methods.schedule import Decision


def test_training_points():
    assert list(TrainingSchedule(100, 300, 100).training_points) == [100, 200, 300]
    assert list(TrainingSchedule(100, 299, 100).training_points) == [100, 200]
    assert list(TrainingSchedule.once(50).training_points) == [50]


@pytest.mark.parametrize(
    ("true", "learned", "hand_over"),
    [(0.8, 0.9, True), (0.8, 0.71, True), (0.8, 0.69, False), (0.8, float("nan"), False)],
)
def test_close_enough_means_within_the_tolerance(true, learned, hand_over):
    decision = Decision(50, true, learned, learned, tolerance=0.1, least_acceptance=0.02)
    assert decision.hand_over is hand_over
    assert ("; handed over" in str(decision)) is hand_over


def test_nothing_is_handed_over_where_a_chain_stands_still():
    """Also where standard HMC itself hardly accepts anything, so that any network is close."""
    for mean, worst in [(0.0, 0.0), (0.7, 0.0)]:
        decision = Decision(50, mean, mean, worst, tolerance=0.25, least_acceptance=0.02)
        assert not decision.hand_over
        assert "0.00 in the worst chain, not handed over" in str(decision)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"start": 300, "stop": 200}, ["no earlier than it starts", "start=300", "stop=200"]),
        ({"start": 0}, ["schedule start", "0"]),
        ({"every": 0}, ["schedule every", "0"]),
        ({"probe_draws": -5}, ["schedule probe_draws", "-5"]),
        ({"tolerance": 1.5}, ["between 0 and 1", "1.5"]),
        ({"tolerance": "much"}, ["between 0 and 1", "'much'"]),
        ({"least_acceptance": -0.1}, ["least_acceptance", "between 0 and 1", "-0.1"]),
    ],
)
def test_a_schedule_that_cannot_fit_is_refused_clearly(settings, words):
    with pytest.raises(SettingsError) as caught:
        TrainingSchedule(**settings)
    assert all(word in str(caught.value) for word in words), str(caught.value)
