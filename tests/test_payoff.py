import jax.numpy as jnp
import numpy as np
import pytest

from nnghmc import Posterior, estimate, from_log_density
from nnghmc.errors import SettingsError
from nnghmc.payoff import ATTEMPT_SECONDS, REFIT_SECONDS, Estimate, Timings, in_words


def test_a_cheap_gradient_is_left_to_nuts():
    found = estimate(from_log_density(lambda q: -0.5 * jnp.sum(q**2), np.zeros(3)), draws=200)
    assert not found.pays
    assert "NUTS is the faster way" in str(found)


def test_an_expensive_one_pays():
    features = np.random.default_rng(0).normal(size=(40_000, 100))
    posterior = Posterior(
        lambda q, data: -0.5 * jnp.sum((data @ q - 1.0) ** 2), None, features, np.zeros(100)
    )
    found = estimate(posterior, draws=5000)
    assert found.pays
    assert "learning the gradient pays" in str(found)
    assert found.timings.gradient > found.timings.learned_step
    assert 0 < found.timings.potential < 1


def test_the_cheaper_way_is_the_one_that_takes_less_time():
    timings = Timings(2e-3, 1e-3, 1e-5)
    assert Estimate(4, 1000, timings, 10.0, 9.0).pays
    assert not Estimate(4, 1000, timings, 9.0, 10.0).pays
    assert "2 ms" in str(Estimate(4, 1000, timings, 10.0, 900.0))
    assert "15 min" in str(Estimate(4, 1000, timings, 10.0, 900.0))


def test_a_short_run_has_no_time_for_learning_that_fails():
    timings = Timings(2e-3)
    short, long, longer = (Estimate(4, 1000, timings, s, 1.0) for s in (20.0, 100.0, 1000.0))
    assert [part.can_afford_to_fail for part in (short, long, longer)] == [False, True, True]
    likely = [part.can_afford_a_likely_failure for part in (short, long, longer)]
    assert likely == [False, True, True]
    between = Estimate(4, 1000, timings, 50.0, 1.0)
    assert between.can_afford_to_fail
    assert not between.can_afford_a_likely_failure
    assert short.affordable_refits == 0
    assert long.affordable_refits < longer.affordable_refits
    assert ATTEMPT_SECONDS + REFIT_SECONDS * longer.affordable_refits <= 0.15 * 1000


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(99.7e-6, "100 µs"), (2e-3, "2 ms"), (0.0123, "12 ms"), (37.94, "38 s"), (900, "15 min")],
)
def test_times_are_told_in_two_digits(seconds, words):
    assert in_words(seconds) == words


def test_bad_sizes_are_told():
    posterior = from_log_density(lambda q: -0.5 * jnp.sum(q**2), np.zeros(3))
    with pytest.raises(SettingsError, match="chains"):
        estimate(posterior, chains=0)
