"""What a run holds, prints, summarises and compares."""

from contextlib import contextmanager

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nnghmc import HMC, GradientMLP, NNgHMC, Posterior, TrainingSchedule, compare, sample
from nnghmc.engine.statistics import bulk_ess, paper_ess, rhat
from nnghmc.errors import SettingsError
from nnghmc.run.arviz import load_arviz

STANDARD = HMC(0.08, 4, warmup=10)
LEARNING = NNgHMC(
    0.08,
    4,
    warmup=10,
    network=GradientMLP(16),
    epochs=10,
    schedule=TrainingSchedule.once(30, tolerance=1.0, probe_draws=5),
)


def posterior():
    data = np.random.default_rng(0).normal(2.0, 3.0, size=50)

    def log_likelihood(p, y):
        return jnp.sum(-0.5 * ((y - p["mu"]) / jnp.exp(p["log_sigma"])) ** 2 - p["log_sigma"])

    def log_prior(p):
        return -0.5 * (p["mu"] / 10) ** 2 - 0.5 * p["log_sigma"] ** 2 - 0.5 * jnp.sum(p["z"] ** 2)

    return Posterior(
        log_likelihood,
        log_prior,
        data,
        {"mu": 2.0, "log_sigma": 1.0, "z": np.zeros(2)},
        constrain=lambda p: {"mu": p["mu"], "sigma": jnp.exp(p["log_sigma"]), "z": p["z"]},
        dims={"z": ["side"]},
        coords={"side": ["left", "right"]},
    )


@pytest.fixture(scope="module")
def runs():
    target = posterior()
    return [sample(target, 60, 2, method=m, progress=False) for m in (STANDARD, LEARNING)]


def test_arviz_names_dims_and_groups(runs):
    run = runs[1]
    data = run.to_arviz()
    assert set(data.posterior.data_vars) == {"mu", "sigma", "z"}
    assert data.posterior["z"].dims == ("chain", "draw", "side")
    assert list(data.posterior["side"].values) == ["left", "right"]
    np.testing.assert_allclose(data.posterior["sigma"], np.exp(run.draws[..., 0]))
    expected = {"lp", "acceptance_rate", "diverging", "energy", "n_steps", "step_size"}
    assert expected <= set(data.sample_stats.data_vars)
    assert data.warmup_posterior.sizes["draw"] == 40
    assert data.warmup_sample_stats["lp"].shape == (2, 40)
    groups = run.to_tree().children
    assert {"posterior", "sample_stats", "warmup_posterior", "warmup_sample_stats"} == set(groups)
    assert all(data[group].attrs["inference_library"] == "nnghmc" for group in groups)


def test_lp_is_the_log_posterior_of_the_draw(runs):
    for run in runs:
        for chain, draw in [(0, 0), (1, 59)]:
            potential = run.posterior.potential(jnp.asarray(run.draws[chain, draw]))
            assert run.stats["lp"][chain, draw] == pytest.approx(-float(potential))


def test_netcdf_round_trip(runs, tmp_path):
    path = str(tmp_path / "run.nc")
    data = runs[1].to_arviz()
    data.to_netcdf(path)
    loaded = load_arviz().from_netcdf(path)
    np.testing.assert_array_equal(loaded.posterior["z"], data.posterior["z"])
    assert loaded.sample_stats["diverging"].dtype == bool
    groups = runs[1].to_tree().children
    assert all(loaded[group].equals(data[group]) for group in groups)


def test_summary_is_arviz_own(runs):
    summary = runs[0].summary()
    assert list(summary.index) == ["mu", "sigma", "z[left]", "z[right]"]
    assert {"mean", "sd", "ess_bulk", "r_hat"} <= set(summary.columns)


def test_printed_run_tells_what_happened(runs):
    text = str(runs[1])
    for words in (
        "NNgHMC",
        "2 chains × 60 draws",
        "handed over",
        "learned from",
        "lowest ESS",
        "R-hat",
        "collect",
        "acceptance",
    ):
        assert words in text
    assert max(len(line) for line in text.splitlines() if "note:" not in line) <= 80


def test_convergence_is_arviz_own(runs):
    found = runs[0].convergence
    np.testing.assert_array_equal(found.bulk_ess, bulk_ess(runs[0].draws))
    np.testing.assert_array_equal(found.rhat, rhat(runs[0].draws))


def test_acceptance_is_that_of_the_kept_draws(runs):
    assert runs[0].acceptance == pytest.approx(runs[0].stats["acceptance_rate"].mean())


@pytest.mark.parametrize(("name", "formula"), [("bulk", bulk_ess), ("paper", paper_ess)])
def test_comparison_table(runs, name, formula):
    table = compare(*runs, ess=name)
    first, second = table.rows
    sizes = formula(runs[1].draws)
    assert (second.ess_min, second.ess_max) == (sizes.min(), sizes.max())
    assert second.acceptance == runs[1].acceptance
    assert second.ess_per_second == pytest.approx(np.median(sizes) / runs[1].cost.total.seconds)
    assert first.speed_up == 1.0
    assert second.speed_up == pytest.approx(second.ess_per_second / first.ess_per_second)
    phases = second.warmup_seconds + second.collect_seconds + second.train_seconds
    assert phases + second.sample_seconds == pytest.approx(second.seconds)
    assert 0 <= second.compile_seconds <= second.seconds


def test_comparison_prints_in_eighty_columns(runs):
    text = str(compare(*runs))
    assert max(map(len, text.splitlines())) <= 80
    for words in ("standard HMC", "NNgHMC", "AP", "ESS/s", "speed-up", "collect", "compiling"):
        assert words in text


def test_comparison_as_a_frame(runs):
    frame = compare(*runs).to_frame()
    assert list(frame["method"]) == ["standard HMC", "NNgHMC, mlp"]


def test_comparison_refuses_too_little(runs):
    with pytest.raises(SettingsError, match="at least 2 runs, got 1"):
        compare(runs[0])
    with pytest.raises(SettingsError, match="bulk, paper; got 'tail'"):
        compare(*runs, ess="tail")


@contextmanager
def compilations():
    """Count how often JAX compiles something inside."""
    seen = []

    def listen(event, duration, **_):
        if event == "/jax/core/compile/backend_compile_duration":
            seen.append(duration)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield seen
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)


def test_compiling_is_timed_apart_and_not_repeated():
    """A second run of the same functions and shapes compiles nothing."""
    target = posterior()
    with compilations() as at_first:
        first = sample(target, 20, 3, 0, STANDARD, progress=False)
    with compilations() as again:
        second = sample(target, 20, 3, 1, STANDARD, progress=False)
    assert len(at_first) > 0
    assert len(again) == 0
    assert first.cost.total.compile_seconds > 0
    for run in (first, second):
        assert run.cost.total.compile_seconds <= run.cost.total.seconds


def test_chains_that_never_moved_are_reported_not_warned_about():
    target = posterior()
    run = sample(target, 20, 2, method=HMC(50.0, 3, warmup=0), progress=False)
    assert run.acceptance == 0
    assert run.divergences == 40
    assert run.summary()["r_hat"].isna().all()
    assert "40 divergences" in str(run)
    note = next(note for note in run.notes if note.kind == "stuck chains")
    assert "2 of 2 chains" in note.text
    assert "smaller step_size" in note.remedy
    assert np.isnan(bulk_ess(run.draws)).all()
