"""Exploring on the surrogate: where it ends, and what it finds on the way."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nnghmc import Policy, Posterior, Session, SparseQuadratic, from_log_density
from nnghmc.explore.rounds.examination import Agreement, expected_acceptance
from nnghmc.explore.rounds.expansion import second_derivatives
from nnghmc.explore.rounds.exploration import ASKED, Aim, Exploration
from nnghmc.explore.rounds.outward import number_of_starts
from nnghmc.explore.rounds.truth import Truth
from nnghmc.explore.starts import ChainStarts
from support import logistic_data, logistic_log_likelihood, logistic_log_prior

POLICY = Policy()
AIM = Aim(
    POLICY.good_acceptance,
    POLICY.largest_uncovered,
    POLICY.coverage_points,
    POLICY.largest_closed_off,
)


def begun(posterior, starts=None, chains=4):
    session = Session(0, "exploring")
    states = ChainStarts(posterior, chains, starts).spread(session)
    exploration = Exploration(posterior, posterior.split(), session, AIM, chains)
    arrival = exploration.descend(states)
    exploration.begin(arrival)
    return exploration, arrival


def explored(posterior, most=POLICY.most_rounds):
    exploration, _ = begun(posterior)
    for number in range(most):
        if number:
            exploration.learn()
        if AIM.is_met(exploration.make_round()):
            break
    return exploration


@pytest.fixture(scope="module")
def regression():
    return Posterior(
        logistic_log_likelihood, logistic_log_prior, logistic_data(), {"beta": np.zeros(3)}
    )


def test_a_normal_posterior_takes_one_round_and_no_fit():
    scales = np.geomspace(1e-3, 1e4, 6)
    posterior = from_log_density(lambda q: -0.5 * jnp.sum((q / scales) ** 2), np.zeros(6))
    exploration = explored(posterior)
    (made,) = exploration.rounds
    assert made.acceptance == pytest.approx(1, abs=1e-4)
    assert (made.coverage.mass, made.closed_off) == (0, 0)
    assert exploration.surrogate is None
    spread = exploration.last_draws.std(axis=0)
    np.testing.assert_allclose(spread, scales, rtol=0.3)


def test_a_regression_takes_few_true_gradients(regression):
    exploration = explored(regression)
    last = exploration.rounds[-1]
    assert AIM.is_met(last)
    spent = exploration.session.cost.total.true_gradients
    assert spent <= 10 * regression.dim + 500
    assert exploration.session.cost.total.true_potentials == 0


def test_a_bent_ridge_is_followed_to_its_end():
    """Of an ordinary banana, about one per cent of the mass lies beyond 2.5."""
    posterior = from_log_density(
        lambda q: -0.5 * q[0] ** 2 - 0.5 * (q[1] - q[0] ** 2) ** 2, np.zeros(2)
    )
    exploration = explored(posterior)
    assert AIM.is_met(exploration.rounds[-1])
    along = np.linspace(-2.5, 2.5, 11)
    ridge = jnp.asarray(np.column_stack([along, along**2]))
    surrogate = exploration.tested_surrogate.on(posterior)
    excess = jax.vmap(surrogate.potential)(ridge) - jax.vmap(posterior.potential)(ridge)
    assert np.ptp(excess) < 1.0


@pytest.mark.parametrize("mixing", [np.eye(3), np.array([[1.0, 2, 0], [0, 30, 5], [0, 0, 0.02]])])
def test_a_mode_without_curvature_leads_nowhere_for_long(mixing):
    """The first quadratic does not rise: its draws are so far out that they teach nothing."""
    back = jnp.asarray(np.linalg.inv(mixing))
    posterior = from_log_density(lambda q: -0.25 * jnp.sum((back @ q) ** 4), np.zeros(3))
    exploration = explored(posterior)
    assert AIM.is_met(exploration.rounds[-1])
    assert len(exploration.rounds) <= 9
    variance = 2 * 0.3379891200336423  # 2 Γ(3/4) / Γ(1/4)
    expected = np.sqrt(variance * np.sum(mixing**2, axis=1))
    np.testing.assert_allclose(exploration.last_draws.std(axis=0), expected, rtol=0.3)


def test_a_surrogate_counts_as_good_only_after_the_truth_was_asked_outward():
    """Also if the last look has shown nearly nothing, and that has been learned."""
    posterior = from_log_density(lambda q: -jnp.sum(jnp.cosh(q)), np.zeros(3))
    exploration, _ = begun(posterior)
    for number in range(3):
        before = exploration.truth.asked
        made = exploration.make_round()
        assert AIM.draws_agree(made) == np.isfinite(made.closed_off)
        if np.isfinite(made.closed_off):
            assert exploration.truth.asked - before >= 2 * ASKED + number_of_starts(3)
        if made.closed_off <= POLICY.largest_closed_off:
            assert exploration.truth.asked - before >= POLICY.coverage_points + 2 * ASKED
        exploration.rounds[number] = replace(made, closed_off=0.01)
        exploration.learn()
    assert AIM.draws_agree(made)


def test_a_long_bent_ridge_is_learned_as_far_as_it_holds_mass():
    """Half a per cent of the mass lies beyond 28, where the ridge is narrow and steep."""
    posterior = from_log_density(
        lambda q: -0.5 * (q[0] / 10) ** 2 - 0.5 * (q[1] - 0.03 * (q[0] ** 2 - 100)) ** 2,
        np.zeros(2),
    )
    exploration = explored(posterior)
    assert AIM.is_met(exploration.rounds[-1])
    along = np.linspace(-28, 28, 15)
    ridge = jnp.asarray(np.column_stack([along, 0.03 * (along**2 - 100)]))
    surrogate = exploration.tested_surrogate.on(posterior)
    excess = jax.vmap(surrogate.potential)(ridge) - jax.vmap(posterior.potential)(ridge)
    assert np.max(excess - np.median(excess)) < 1.5


def test_what_was_asked_in_the_last_round_is_held_out(regression):
    exploration = explored(regression)
    surrogate = exploration.tested_surrogate
    assert surrogate.of_inputs
    assert len(surrogate.held_out) == surrogate.report.held_out == 2 * ASKED
    assert surrogate.report.held_out_error < 0.2
    assert not set(surrogate.held_out.potentials) - set(exploration.fresh.values)


def test_transitions_per_draw_are_as_many_as_pay(regression):
    """Correlated draws want more of them, and costly learned steps fewer."""
    exploration, _ = begun(regression)
    noise = np.random.default_rng(0).normal(size=(8, 400, 3))
    slow = np.zeros_like(noise)
    for number in range(1, 400):
        slow[:, number] = 0.9 * slow[:, number - 1] + noise[:, number]
    exploration.chains.steps_per_draw = 10.0
    found = {}
    for name, draws in (("independent", noise), ("slow", slow)):
        exploration.cold = draws
        found[name] = [exploration.transitions_per_draw(cost, 0.0) for cost in (1e-4, 1e-2, 10.0)]
    assert found["slow"][0] == 32
    assert found["slow"] == sorted(found["slow"], reverse=True)
    assert found["independent"][1:] == [1, 1]
    exploration.cold = np.concatenate([slow[..., :1], *[noise] * 20], axis=2)
    assert exploration.transitions_per_draw(1e-4, 0.0) == 32  # for the one slow coordinate of many


def test_arrivals_on_both_sides_of_a_barrier_are_in_separate_modes():
    def log_density(q):
        centres = jnp.array([[-12.0, 0.0], [12.0, 0.0]])
        return jax.nn.logsumexp(-0.5 * jnp.sum((q - centres) ** 2, axis=1))

    posterior = from_log_density(log_density, np.zeros(2))
    both = np.array([[-12.0, 1.0], [11.0, 0.0], [-13.0, 0.0], [12.0, -1.0]])
    exploration, arrival = begun(posterior, both)
    assert exploration.in_separate_modes(arrival)
    exploration, arrival = begun(posterior, -np.abs(both))
    assert not exploration.in_separate_modes(arrival)


def test_a_ridge_is_no_barrier():
    """Chains arrive far apart along a direction that is nearly flat."""
    posterior = from_log_density(
        lambda q: -0.5 * (q[0] - q[1]) ** 2 * 1e4 - 0.5e-4 * jnp.sum(q**2), np.zeros(2)
    )
    exploration, arrival = begun(posterior, np.array([[-90.0, -90], [80, 80], [0, 0], [9, 9]]))
    assert not exploration.in_separate_modes(arrival)


@pytest.mark.parametrize("guess", [1e-6, 1.0, 1e6])
def test_curvatures_do_not_depend_on_the_guess_of_the_scales(guess):
    curvature = np.array([[1e6, 30.0], [30.0, 1e-2]])
    posterior = from_log_density(
        lambda q: -0.5 * q @ jnp.asarray(curvature) @ q - 0.3 * q[0], np.zeros(2)
    )
    truth = Truth(posterior.split(), Session(0, "curvature"), counts_calls=False)
    positions = np.array([[5.0, 5.0], [0.001, 2.0]])
    inputs, gradient, found = second_derivatives(truth, positions, 1, np.full(2, guess))
    np.testing.assert_array_equal(inputs, positions[1])
    np.testing.assert_array_equal(truth.all.positions, positions)
    np.testing.assert_allclose(gradient, curvature @ inputs + [0.3, 0.0])
    np.testing.assert_allclose(found, curvature, rtol=1e-5)


def test_a_direction_in_which_the_function_falls_is_not_believed():
    posterior = from_log_density(lambda q: -0.5 * q[0] ** 2 + 0.1 * q[1] ** 2, np.zeros(2))
    truth = Truth(posterior.split(), Session(0, "curvature"), counts_calls=False)
    _, _, found = second_derivatives(truth, np.zeros((1, 2)), 0, np.ones(2))
    assert np.linalg.eigvalsh(found).min() > 0


def test_the_expected_acceptance_is_that_of_steps_between_draws():
    generator = np.random.default_rng(0)
    excess = generator.normal(0, 0.8, 4000)
    one, other = generator.permutation(excess), generator.permutation(excess)
    expected = np.minimum(1, np.exp(one - other)).mean()
    assert expected_acceptance(excess) == pytest.approx(expected, abs=0.02)
    assert expected_acceptance(np.full(8, 3.0)) == 1
    half = np.where(np.arange(8) < 4, 0.0, np.inf)
    assert expected_acceptance(half) < 0.8
    assert Agreement.of(np.full(8, np.inf)).acceptance == 0


def random_intercepts(groups=250, rows=10_000):
    """A centred logistic regression with more groups than each would have a difference for."""
    generator = np.random.default_rng(0)
    group = np.sort(generator.integers(0, groups, rows))
    y = 1.0 * (generator.random(rows) < 1 / (1 + np.exp(-generator.normal(size=groups)[group])))

    def log_likelihood(p, data):
        linear = p["a"][data["group"]]
        return jnp.sum(data["y"] * linear - jax.nn.softplus(linear))

    def log_prior(p):
        away = (p["a"] - p["mu"]) / jnp.exp(p["t"])
        return -0.5 * jnp.sum(away**2) - groups * p["t"] - 0.5 * (p["mu"] ** 2 + p["t"] ** 2)

    initial = {"a": np.zeros(groups), "mu": 0.0, "t": 0.0}
    return Posterior(log_likelihood, log_prior, {"group": group, "y": y}, initial)


def test_hundreds_of_groups_take_fewer_true_gradients_than_groups():
    exploration = explored(random_intercepts())
    assert isinstance(exploration.model_in_use, SparseQuadratic)
    assert AIM.is_met(exploration.rounds[-1])
    assert exploration.rounds[-1].acceptance > 0.85
    assert exploration.truth.asked < 800
