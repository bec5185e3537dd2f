import numpy as np
import pytest

from nnghmc import GradientData
from nnghmc.errors import GradientDataError, SettingsError


def some_data(trajectories=10, chains=2, steps=4, dim=3):
    generator = np.random.default_rng(0)
    shape = (trajectories, chains, steps)
    positions = generator.normal(size=(*shape, dim))
    return GradientData.from_paths(
        positions,
        generator.normal(size=shape),
        2 * positions,
        np.full((trajectories, chains), steps - 1),
        first_trajectory=5,
    )


def test_every_step_of_every_chain_is_a_point():
    data = some_data()
    assert len(data) == 10 * 2 * 4
    assert data.dim == 3
    assert set(data.chains) == {0, 1}
    assert set(data.trajectories) == set(range(5, 15))
    np.testing.assert_array_equal(data.gradients, 2 * data.positions)


def test_steps_that_were_not_recorded_are_left_out():
    positions = np.arange(2 * 1 * 3 * 1.0).reshape(2, 1, 3, 1)
    data = GradientData.from_paths(
        positions, positions[..., 0], positions, np.array([[2], [1]]), first_trajectory=0
    )
    np.testing.assert_array_equal(data.positions[:, 0], [0, 1, 2, 3, 4])
    np.testing.assert_array_equal(data.trajectories, [0, 0, 0, 1, 1])
    np.testing.assert_array_equal(data.steps, [0, 1, 2, 0, 1])
    np.testing.assert_array_equal(data.without_starts().positions[:, 0], [1, 2, 4])


def test_held_out_points_are_whole_trajectories():
    training, held_out = some_data().split(0.25, seed=1)
    assert len(training) + len(held_out) == 80
    assert len(held_out) == 5 * 4

    def labels(data):
        return set(zip(data.chains, data.trajectories, strict=True))

    assert not labels(training) & labels(held_out)


def test_split_depends_on_the_seed_alone():
    first, again, other = (some_data().split(0.5, seed=s)[1].positions for s in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_points_that_are_not_finite_are_dropped():
    data = some_data()
    data.gradients[3, 1] = np.inf
    data.positions[7, 0] = np.nan
    assert len(data.finite()) == 78


def test_bad_input_raises_a_clear_error():
    data = some_data()
    with pytest.raises(SettingsError, match=r"between 0 and 1, got 1\.5"):
        data.split(1.5, seed=0)
    with pytest.raises(GradientDataError, match="at least 2 trajectories"):
        data.select(data.trajectories == 5).select(np.arange(4)).split(0.5, seed=0)
    data.gradients[:] = np.nan
    with pytest.raises(GradientDataError, match="none of 80"):
        data.finite()
    with pytest.raises(GradientDataError, match="one row per point"):
        GradientData(np.zeros((3, 2)), np.zeros(2), np.zeros((3, 2)), *np.zeros((3, 3)))


def test_trajectories_of_two_runs_stay_apart():
    first, second = some_data(), some_data()
    joined = GradientData.concatenate([first, second])
    assert joined.num_trajectories == 2 * first.num_trajectories
    assert [len(rows) for rows in joined.by_trajectory()] == [4] * 40
    chunks = [first.select(first.trajectories < 9), first.select(first.trajectories >= 9)]
    again = GradientData.concatenate(chunks)
    np.testing.assert_array_equal(np.sort(again.trajectories), np.sort(first.trajectories))


def test_wrong_shapes_raise_a_clear_error():
    with pytest.raises(GradientDataError, match="must have shape"):
        GradientData.of_points([1.0, 2.0], [1.0, 2.0])
    with pytest.raises(GradientDataError, match="must have shape"):
        GradientData.of_points(np.ones((3, 2)), np.ones((3, 2)), np.ones((3, 1)))
    with pytest.raises(GradientDataError, match="at least one part"):
        GradientData.concatenate([])
    lists = GradientData.of_points([[1.0, 2.0], [3.0, 4.0]], [[1.0, 2.0], [3.0, 4.0]])
    assert lists.dim == 2
