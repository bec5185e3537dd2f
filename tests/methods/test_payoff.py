"""Will it pay? By a clock that the evaluations themselves move on."""

import jax.numpy as jnp
import numpy as np
import pytest

from nnghmc import Estimate, Policy, Session, estimate, from_log_density
from nnghmc.errors import SettingsError
from nnghmc.methods.nuts import expect
from nnghmc.methods.payoff import estimate_run
from nnghmc.platform.text import in_words
from support_clock import Clock, timed_posterior

CHAINS = 4


def estimated(potential_seconds, gradient_seconds, draws, **options):
    """The estimate for evaluations that take so long for each of four chains."""
    clock = Clock()
    posterior = timed_posterior(clock, potential_seconds, gradient_seconds)
    positions = jnp.ones((CHAINS, 3))
    return estimate_run(posterior, positions, draws, Policy(), clock=clock, **options)


def test_a_cheap_gradient_is_left_to_nuts():
    found = estimated(1e-6, 2e-6, 200)
    assert not found.pays
    assert found.gradient_seconds > found.potential_seconds > 0


def test_an_expensive_one_pays():
    found = estimated(1e-3, 2e-3, 5000)
    assert found.pays
    assert found.gradient_seconds > found.learned_step_seconds
    assert 0 < found.potential_seconds < 1


def test_the_estimate_is_the_sum_of_what_was_timed():
    policy, found = Policy(), estimated(1e-3, 2e-3, 5000)
    assert found.gradient_seconds == pytest.approx(CHAINS * 2e-3)
    assert found.potential_seconds == pytest.approx(CHAINS * 1e-3)
    assert found.learned_step_seconds == 0.0  # it does not touch the posterior
    gradients = (policy.nuts_warmup + 5000) * policy.gradients_per_nuts_draw
    nuts = policy.nuts_seconds + gradients * CHAINS * 2e-3
    assert found.nuts_seconds == pytest.approx(nuts)
    learning = policy.learning_seconds + policy.gradients_to_learn * CHAINS * 2e-3
    assert found.learned_seconds == pytest.approx(learning + 5000 * CHAINS * 1e-3)
    assert (found.chains, found.draws) == (CHAINS, 5000)


def test_what_cannot_pay_is_not_timed_any_further():
    found = estimated(1e-6, 2e-6, 200, thorough=False)
    assert not found.pays
    assert np.isinf(found.learned_seconds)
    assert np.isnan(found.potential_seconds)
    assert np.isnan(found.learned_step_seconds)


@pytest.mark.parametrize(("seconds", "pays"), [(1e-6, False), (2e-3, True)])
def test_a_session_has_its_estimate_timed_by_its_own_clock(seconds, pays):
    clock = Clock()
    session = Session(0, "estimate", wanted_draws=5000, clock=clock)
    posterior = timed_posterior(clock, seconds / 2, seconds)
    found = expect(session, posterior, jnp.ones((CHAINS, 3)), None, Policy(), thorough=True)
    assert found.pays is pays
    assert found.gradient_seconds == pytest.approx(CHAINS * seconds)
    assert session.events == [found]
    assert np.isnan(session.flops)  # nothing can be counted outside JAX


def test_the_cheaper_way_is_the_one_that_takes_less_time():
    assert Estimate(4, 1000, 2e-3, 10.0, 7.9).pays
    assert not Estimate(4, 1000, 2e-3, 10.0, 8.1).pays  # the gain must be clear
    assert not Estimate(4, 1000, 2e-3, 9.0, 10.0).pays


def test_an_estimate_is_printed_with_its_times():
    words = str(Estimate(4, 1000, 2e-3, 10.0, 900.0, 0.0, 1e-3, 1e-5))
    for part in ("2 ms", "1 ms", "10 µs", "10 s", "15 min", "1,000"):
        assert part in words
    short = str(Estimate(4, 1000, 2e-3, 10.0, float("inf")))
    assert "2 ms" in short
    assert "10 s" in short


def test_a_short_run_has_no_time_for_learning_that_fails():
    policy = Policy(most_rounds=1000)
    short, long, longer = 5.0, 100.0, 1000.0
    rounds = [policy.affordable_rounds(seconds) for seconds in (short, long, longer)]
    assert rounds[0] == policy.least_rounds
    assert rounds[0] < rounds[1] < rounds[2]
    assert policy.round_seconds * rounds[2] <= policy.time_at_stake * longer
    assert Policy(most_rounds=7).affordable_rounds(longer) == 7


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(99.7e-6, "100 µs"), (2e-3, "2 ms"), (0.0123, "12 ms"), (37.94, "38 s"), (900, "15 min")],
)
def test_times_have_two_digits(seconds, words):
    assert in_words(seconds) == words


def test_the_estimate_is_that_of_the_run():
    found = estimate(from_log_density(lambda q: -0.5 * jnp.sum(q**2), np.zeros(3)), 50, 6)
    assert (found.chains, found.draws) == (6, 50)
    gradients = (Policy.nuts_warmup + 50) * Policy.gradients_per_nuts_draw
    expected = Policy.nuts_seconds + gradients * found.gradient_seconds
    assert found.nuts_seconds == pytest.approx(expected)
    assert found.flops > 0


def test_bad_sizes_are_refused():
    posterior = from_log_density(lambda q: -0.5 * jnp.sum(q**2), np.zeros(3))
    with pytest.raises(SettingsError, match="chains"):
        estimate(posterior, chains=0)
