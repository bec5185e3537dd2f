import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nnghmc import GradientData, GradientMLP, Training, fit
from nnghmc.errors import GradientDataError, SettingsError
from nnghmc.surrogates.training import _Points


def gradient_data(number=600, seed=0):
    """Return points of a curved field whose coordinates have very different scales."""
    positions = np.random.default_rng(seed).normal(size=(number, 2)) * [1.0, 100.0] + [0.0, 50.0]
    gradients = np.column_stack([np.sin(positions[:, 0]), positions[:, 1] / 1e4 + 3.0])
    return GradientData.of_points(positions, gradients)


def relative_error(surrogate, data):
    learned = jax.jit(jax.vmap(surrogate.gradient))(jnp.asarray(data.positions))
    spread = data.gradients.std(axis=0)
    return float(np.sqrt(np.mean(((learned - data.gradients) / spread) ** 2)))


def test_learns_on_points_it_has_not_seen():
    surrogate = fit(GradientMLP(50), gradient_data(), jax.random.key(0), Training(epochs=60))
    assert relative_error(surrogate, gradient_data(seed=1)) < 0.08
    assert surrogate.report.losses[-1] < surrogate.report.losses[0] / 30


def test_same_key_same_network():
    first, again, other = (
        fit(GradientMLP(8), gradient_data(), jax.random.key(k), Training(epochs=3))
        for k in (0, 0, 1)
    )
    q = jnp.array([0.3, 20.0])
    assert jnp.array_equal(first.gradient(q), again.gradient(q))
    assert not jnp.array_equal(first.gradient(q), other.gradient(q))


def test_stopping_rule_ends_training_early():
    training = Training(epochs=200, stop_change=0.2)
    report = fit(GradientMLP(20), gradient_data(), jax.random.key(0), training).report
    losses = report.losses
    changes = np.abs(np.diff(losses)) / losses[:-1]
    assert 2 <= len(losses) < 200
    assert changes[-1] < 0.2
    assert (changes[:-1] >= 0.2).all()


def test_padding_comes_after_a_permutation_of_the_points():
    points = _Points.of({"inputs": np.zeros((33, 2)), "outputs": np.zeros((33, 2))})
    assert points.capacity == 64
    orders = [np.asarray(points.shuffled(key)) for key in jax.random.split(jax.random.key(0), 3)]
    for order in orders:
        assert sorted(order[:33]) == list(range(33))
        assert sorted(order[33:]) == list(range(33, 64))
    assert not np.array_equal(orders[0], orders[1])


def test_fewer_points_than_a_batch():
    surrogate = fit(
        GradientMLP(30), gradient_data(5), jax.random.key(0), Training(epochs=300, held_out=0.0)
    )
    assert relative_error(surrogate, gradient_data(5)) < 0.05


def test_constant_gradient_is_harmless():
    data = gradient_data()
    data.gradients[:, 1] = 7.0
    surrogate = fit(GradientMLP(10), data, jax.random.key(0), Training(epochs=20))
    learned = np.asarray(surrogate.gradient(jnp.array([0.5, 50.0])))
    assert np.isfinite(learned).all()
    assert learned[1] == pytest.approx(7.0, abs=0.2)


def test_points_that_are_not_finite_are_counted():
    data = gradient_data()
    data.gradients[:17, 0] = np.nan
    report = fit(GradientMLP(5), data, jax.random.key(0), Training(epochs=1)).report
    assert (report.points, report.dropped, report.held_out) == (525, 17, 58)
    assert "17 points that were not finite" in str(report)


def test_more_data_reuse_compiled_code():
    fit(GradientMLP(5), gradient_data(300), jax.random.key(0), Training(epochs=1))
    names = []

    def listen(event, seconds, fun_name="", **_):
        names.append(fun_name)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        fit(GradientMLP(5), gradient_data(500), jax.random.key(1), Training(epochs=1))
        again = len(names)
        fit(GradientMLP(6), gradient_data(500), jax.random.key(1), Training(epochs=1))
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    assert not any("_train" in name for name in names[:again])
    assert any("_train" in name for name in names[again:])  # another network does


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: GradientMLP(hidden=0), ["hidden", "0"]),
        (lambda: GradientMLP(activation="sine"), ["activation", "silu", "'sine'"]),
        (lambda: Training(epochs=-1), ["epochs", "-1"]),
        (lambda: Training(batch_size=0), ["batch_size", "0"]),
        (lambda: Training(learning_rate=0.0), ["learning_rate", "0.0"]),
        (lambda: Training(stop_change=-1.0), ["stop_change", "-1.0"]),
    ],
)
def test_bad_settings_raise_a_clear_error(make, words):
    with pytest.raises(SettingsError) as caught:
        make()
    assert all(word in str(caught.value) for word in words)


def test_data_without_a_finite_point_cannot_be_learned_from():
    data = gradient_data(10)
    data.gradients[:] = np.inf
    with pytest.raises(GradientDataError, match="none of 10"):
        fit(GradientMLP(5), data, jax.random.key(0))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((GradientMLP, gradient_data(), jax.random.key(0)), "the class GradientMLP; call it"),
        ((3, gradient_data(), jax.random.key(0)), "network must be a GradientModel"),
        ((GradientMLP(5), np.ones((3, 2)), jax.random.key(0)), "gradient_data must be a Grad"),
        ((GradientMLP(5), gradient_data(), jax.random.key(0), 5), "training must be a Training"),
    ],
)
def test_arguments_of_the_wrong_type_raise_a_clear_error(arguments, words):
    with pytest.raises(SettingsError, match=words):
        fit(*arguments)


def test_a_single_point_and_starts_alone_are_not_enough():
    with pytest.raises(GradientDataError, match="at least 2 points"):
        fit(GradientMLP(5), gradient_data(2), jax.random.key(0))
    data = gradient_data()
    data.steps[:] = 0
    with pytest.raises(GradientDataError, match="at least 2 points"):
        fit(GradientMLP(5), data, jax.random.key(0))


def test_settings_may_be_numbers_of_any_type():
    training = Training(
        epochs=np.int64(2),
        batch_size=jnp.asarray(8),
        learning_rate=np.float32(0.01),
        held_out=np.float32(0.1),
        patience=np.array(3),
    )
    model = GradientMLP(np.array(4))
    assert len(fit(model, gradient_data(50), jax.random.key(0), training).report.losses) == 2
