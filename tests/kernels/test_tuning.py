import jax
import numpy as np
import pytest

from nnghmc.errors import SettingsError
from nnghmc.kernels import Tuning


def test_rounding_of_a_matrix_is_mended():
    matrix = np.array([[2.0, 0.5], [0.5 + 1e-12, 1.0]])
    used = np.asarray(Tuning.checked(0.1, 5, matrix, 2).inverse_mass_matrix)
    np.testing.assert_array_equal(used, used.T)


def test_arrays_without_axes_and_lists_will_do():
    tuning = Tuning.checked(np.array(0.1), [3, 7], None, 2)
    assert float(tuning.step_size) == 0.1
    assert tuning.most_steps == 7


def test_numbers_and_pairs():
    tuning = Tuning.checked(0.1, (3, 7), None, 2)
    sizes, numbers = zip(
        *(tuning.drawn_length(key) for key in jax.random.split(jax.random.key(0), 50)), strict=True
    )
    assert set(map(float, sizes)) == {0.1}
    assert {int(n) for n in numbers} == {3, 4, 5, 6, 7}
    assert tuning.most_steps == 7
    np.testing.assert_array_equal(tuning.inverse_mass_matrix, [1.0, 1.0])


def test_the_largest_lengths_are_the_upper_ends_of_pairs():
    tuning = Tuning.checked((0.1, 0.2), (3, 7), None, 2)
    assert (tuning.largest_step, tuning.most_steps) == (0.2, 7)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((-0.1, 5, None), ["step_size must be a positive", "-0.1"]),
        ((0.0, 5, None), ["step_size", "0.0"]),
        ((float("nan"), 5, None), ["step_size", "nan"]),
        (("fast", 5, None), ["step_size", "'fast'"]),
        (((0.2, 0.1), 5, None), ["low <= high", "(0.2, 0.1)"]),
        (((0.1, 0.2, 0.3), 5, None), ["pair (low, high)"]),
        ((0.1, 0, None), ["num_steps must be a positive whole number", "0"]),
        ((0.1, 2.5, None), ["num_steps", "2.5"]),
        ((0.1, True, None), ["num_steps", "True"]),
        ((0.1, 5, np.ones(3)), ["shape (2,) or (2, 2)", "(3,)"]),
        ((0.1, 5, np.ones((2, 3))), ["shape (2,) or (2, 2)", "(2, 3)"]),
        ((0.1, 5, np.array([1.0, -1.0])), ["positive definite", "smallest value -1"]),
        ((0.1, 5, np.array([[1.0, 2.0], [2.0, 1.0]])), ["positive definite", "eigenvalue -1"]),
        ((0.1, 5, np.array([[1.0, 0.5], [0.0, 1.0]])), ["symmetric", "transpose by 0.5"]),
        ((0.1, 5, np.array([1.0, np.inf])), ["not finite"]),
        ((0.1, 5, 1e-9 * np.array([[1.0, 0.0], [0.9, 1.0]])), ["symmetric", "transpose by 9e-10"]),
        ((0.1, 5, "identity"), ["array of numbers", "'identity'"]),
    ],
)
def test_bad_input_is_refused_clearly(arguments, words):
    with pytest.raises(SettingsError) as caught:
        Tuning.checked(*arguments, dim=2)
    assert all(word in str(caught.value) for word in words), str(caught.value)
