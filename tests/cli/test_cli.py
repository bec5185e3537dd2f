"""The command line as a person meets it: what it prints, writes, refuses, and its exit codes."""

import io
import os
import signal
import subprocess
import sys
import time
from dataclasses import fields

import numpy as np
import pytest

from nnghmc.cli.main import main
from nnghmc.cli.options import OPTIONS
from nnghmc.methods import METHODS
from nnghmc.paper import banana
from nnghmc.run.arviz import load_arviz
from support import remembered

QUICK = ["--draws", "30", "--chains", "2", "--warmup", "10", "--num-steps", "3"]
NNGHMC = ["--method", "nnghmc"]
SCHEDULE = ["--epochs", "2", "--start", "10", "--stop", "20", "--every", "10", "--tolerance", "1.0"]

MODEL = """
import jax.numpy as jnp
import numpy as np
from nnghmc import from_log_density

normal = from_log_density(lambda p: -0.5 * jnp.sum(p["theta"] ** 2), {"theta": np.zeros(2)})
number = 5
def make():
    return normal
def broken():
    return 1 / 0
def bad_start():
    return from_log_density(lambda x: jnp.log(x[0]), np.array([-1.0]))
def vector():
    return from_log_density(lambda x: -x**2, np.zeros(3))
def markup():
    raise ValueError("[/bold] is no markup")
"""
MODEL_WITH_DATA = """
import jax.numpy as jnp
import numpy as np
from nnghmc import Posterior

regression = Posterior(lambda m, y: -0.5 * jnp.sum((y - m) ** 2), None, np.arange(50.0), 20.0)
"""


@pytest.fixture
def command(capsys, monkeypatch):
    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["nnghmc", *map(str, arguments)])
        monkeypatch.setenv("COLUMNS", "100")
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        return ended.value.code, captured.out, captured.err

    return run


@pytest.fixture
def model(tmp_path, monkeypatch):
    (tmp_path / "my_model.py").write_text(MODEL)
    (tmp_path / "typo.py").write_text("import numpy\n\nnumpy.zeroes(3)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path / "my_model.py"


@pytest.mark.parametrize(
    ("name", "options", "title"),
    [("normal", [*NNGHMC, *SCHEDULE], "NNgHMC"), ("make", ["--method", "hmc"], "standard HMC")],
)
def test_samples_a_posterior_of_a_file(command, model, name, options, title):
    code, out, _ = command("sample", f"{model}:{name}", *QUICK, *options)
    assert code == 0
    assert f"{title}: 2 chains × 30 draws" in out
    assert "theta[0]" in out


def test_samples_a_posterior_of_a_module(command, model):
    code, out, _ = command("sample", "my_model:normal", *QUICK, "--method", "hmc")
    assert code == 0
    assert "standard HMC" in out


def test_compares_methods_and_writes_everything(command, tmp_path):
    out_folder = tmp_path / "deep" / "results"
    methods = ["--method", "hmc", "--method", "nnghmc", "--ess", "paper"]
    code, out, _ = command("sample", "banana", *methods, *QUICK, *SCHEDULE, "--out", out_folder)
    assert code == 0
    assert "speed-up" in out
    assert "the paper's formula" in out
    assert {path.name for path in out_folder.iterdir()} == {
        "hmc.nc",
        "hmc-summary.csv",
        "hmc-trace.png",
        "nnghmc.nc",
        "nnghmc.surrogate",
        "nnghmc-summary.csv",
        "nnghmc-trace.png",
        "marginals.png",
        "comparison.csv",
    }
    data = load_arviz().from_netcdf(str(out_folder / "nnghmc.nc"))
    assert data.posterior["x"].shape == (2, 30, 2)
    assert data.warmup_posterior.sizes["draw"] > 10


def test_learns_by_the_network_that_is_named(command, model):
    network = [*NNGHMC, "--network", "quadratic"]
    code, out, _ = command("sample", f"{model}:normal", *QUICK, *SCHEDULE, *network)
    assert code == 0
    assert "handed over" in out
    assert "loss" not in out  # there is nothing to train


def test_ranges_and_a_mass_matrix_from_a_file(command, model, tmp_path):
    np.save(tmp_path / "matrix.npy", np.array([0.5, 0.5]))
    lengths = ["--step-size", "0.1:0.3", "--num-steps", "2:5"]
    code, _, _ = command(
        "sample",
        f"{model}:normal",
        "--method",
        "hmc",
        *QUICK,
        *lengths,
        "--inverse-mass",
        tmp_path / "matrix.npy",
        "--out",
        tmp_path / "out",
    )
    assert code == 0
    steps = load_arviz().from_netcdf(str(tmp_path / "out" / "hmc.nc")).sample_stats["n_steps"]
    assert set(np.unique(steps)) == {2, 3, 4, 5}


def test_a_file_may_be_called_as_a_module_of_python_is(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "copy.py").write_text(MODEL)
    code, _, err = command("sample", "copy.py:normal", *QUICK, "--method", "hmc")
    assert code == 0, err


def test_results_that_cannot_be_written_are_told(command, model, tmp_path):
    (tmp_path / "out" / "hmc.nc").mkdir(parents=True)
    where = ["--method", "hmc", "--out", tmp_path / "out"]
    code, _, err = command("sample", f"{model}:normal", *QUICK, *where)
    assert code == 2
    assert "could not be written" in err


def test_demo_writes_its_figures_and_shows_where_learning_pays(command, tmp_path, monkeypatch):
    monkeypatch.setattr("nnghmc.paper.showcase.ROWS", 500)
    monkeypatch.setattr("nnghmc.paper.showcase.COLUMNS", 3)
    experiments = remembered(monkeypatch, banana, "run_banana")
    code, out, _ = command("demo", "--draws", 50, "--out", tmp_path)
    assert code == 0
    both_ways, payoff = out.split("A logistic regression of 500 rows and 3 columns")
    assert "speed-up" in both_ways
    assert "truth" in both_ways
    assert "speed-up" in payoff
    assert "a gradient of all 4 chains takes" in payoff  # how the automatic run decided
    written = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    assert set(written) == {"banana.png", "marginals.png", "hmc-trace.png", "nnghmc-trace.png"}
    assert min(written.values()) > 10_000

    monkeypatch.setattr(banana, "run_banana", lambda *_: experiments[0])
    code, out, _ = command("demo", "--no-payoff")
    assert code == 0
    assert "truth" in out
    assert "A logistic regression" not in out


def test_estimate_tells_whether_learning_pays_and_samples_nothing(command):
    code, out, _ = command("estimate", "banana", "--draws", 100)
    assert code == 0
    assert "NUTS is the faster way" in out


def test_a_stored_run_is_resumed_and_reported(command, model, tmp_path, monkeypatch):
    store = tmp_path / "run"
    code, _, _ = command(
        "sample", "my_model.py:normal", *QUICK, "--method", "hmc", "--store", store
    )
    assert code == 0
    monkeypatch.chdir("/")  # wherever we are
    code, out, _ = command("resume", store, "--out", tmp_path / "results")
    assert code == 0
    assert f"The store names its model, {model}:normal, and going on runs that code." in out
    assert "HMC: 2 chains × 30 draws" in out
    assert (tmp_path / "results" / "hmc.nc").exists()
    code, out, _ = command("report", store)
    assert code == 0
    assert str(store / "report.html") in out
    assert "2 × 30 draws of 2 dimensions" in (store / "report.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["sample", "banana", "--store", "my_model.py"], ["must be a folder", "is a file"]),
        (["sample", "banana", "--store", "."], ["new or empty folder"]),
        (
            ["sample", "banana", "--method", "hmc", "--method", "nuts", "--store", "x"],
            ["--store holds one run"],
        ),
        (["resume", "nowhere"], ["nowhere", "no such folder"]),
        (["resume", "."], ["sample(..., store=...) has made"]),
        (["report", "nowhere"], ["nowhere", "no such folder"]),
    ],
)
def test_bad_stores_are_told(command, model, arguments, words):
    code, _, err = command(*arguments)
    assert code == 2
    assert err.startswith("error: ")
    assert all(word in err for word in words), err


def test_help_is_enough_to_work_from(command):
    code, out, _ = command("sample", "--help")
    assert code == 0
    for word in ("TARGET", "banana", "file.py:name", "--step-size", "--start", "--out"):
        assert word in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["unknown"], ["TARGET must be a built-in name", "'unknown'", "file.py:name"]),
        (["nowhere.py:thing"], ["nowhere.py", "no such file"]),
        (["typo.py:thing"], ["typo.py could not be imported", "AttributeError", "line 3"]),
        (["no_such_module:thing"], ["could not be imported", "ModuleNotFoundError"]),
        (["my_model.py:absent"], ["has no 'absent'", "normal"]),
        (["my_model.py:number"], ["must name a Posterior", "int"]),
        (
            ["my_model.py:broken"],
            ["broken() of my_model.py failed", "ZeroDivisionError", "line 11"],
        ),
        (["my_model.py:bad_start"], ["must be finite", "nan", "initial point"]),
        (["my_model.py:vector"], ["one real number", "(3,)", "Sum"]),
        (["my_model.py:markup"], ["[/bold] is no markup"]),
        (["[/x]:y"], ["[/x] could not be imported"]),
        (["banana", *NNGHMC, "--step-size", "-0.1"], ["step_size", "-0.1"]),
        (["banana", *NNGHMC, "--step-size", "small"], ["--step-size", "LOW:HIGH", "'small'"]),
        (["banana", *NNGHMC, "--num-steps", "0"], ["num_steps", "0"]),
        (["banana", "--warmup", "9"], ["--warmup", "nnghmc, hmc", "not of auto"]),
        (["banana", "--method", "nuts", "--step-size", "1"], ["--step-size", "not of nuts"]),
        (["banana", "--way", "left"], ["way must be one of estimate, learn, nuts", "'left'"]),
        (["banana", "--draws", "0"], ["draws", "0"]),
        (["banana", "--chains", "-2"], ["chains", "-2"]),
        (["banana", *NNGHMC, "--start", "50", "--stop", "10"], ["start=50", "stop=10"]),
        (
            ["banana", *NNGHMC, "--inverse-mass", "absent.npy"],
            ["--inverse-mass", "absent.npy"],
        ),
        (["banana", "--out", "my_model.py/results"], ["--out", "folder"]),
    ],
)
def test_bad_input_is_a_short_message_and_an_exit_code(command, model, arguments, words):
    code, out, err = command("sample", *arguments)
    assert code == 2
    assert out == ""
    assert err.startswith("error: ")
    assert "Traceback" not in err
    assert len(err.strip().splitlines()) <= 2
    assert all(word in err for word in words), err


SLOW_MODEL = """
import time
import jax, jax.numpy as jnp, numpy as np
from nnghmc import from_log_density

def wait(_):
    time.sleep(0.005)
    with open("evaluations", "a") as file:
        file.write(".")

def log_density(x):
    jax.debug.callback(wait, x)
    return -0.5 * jnp.sum(x**2)

slow = from_log_density(log_density, np.zeros(2))
"""


def test_ctrl_c_saves_what_was_made(tmp_path):
    (tmp_path / "slow.py").write_text(SLOW_MODEL)
    program = [sys.executable, "-c", "from nnghmc_command import main; main()"]
    store = tmp_path / "store"
    sizes = ["--draws", "100000", "--chains", "1", "--warmup", "5", "--num-steps", "1"]
    process = subprocess.Popen(
        [
            *program,
            "sample",
            "slow.py:slow",
            *sizes,
            "--method",
            "hmc",
            "--out",
            "out",
            "--store",
            store,
        ],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ},
    )
    marker = tmp_path / "evaluations"
    deadline = time.monotonic() + 120
    while not (marker.exists() and marker.stat().st_size > 100):  # warm-up takes 6 of them
        assert time.monotonic() < deadline
        assert process.poll() is None, process.communicate()
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "incomplete" in out
    assert f"nnghmc resume {store}" in out
    data = load_arviz().from_netcdf(str(tmp_path / "out" / "hmc.nc"))
    assert 0 < data.posterior.sizes["draw"] < 100_000
    assert data.posterior.attrs["complete"] == 0


def test_experiments_are_listed_and_a_wrong_name_is_told(command):
    code, out, _ = command("reproduce", "--list")
    assert code == 0
    names = ("banana", "gaussian", "logistic", "priors", "blocks", "garch", "gp", "covertype")
    names += ("bias", "surrogates", "uci", "theory")
    assert [line.split()[0] for line in out.splitlines()] == list(names)
    assert "needs Online News, Census Income, Dota2" in out
    assert command("reproduce")[1] == out
    code, _, err = command("reproduce", "everything")
    assert code == 2
    assert "banana, gaussian" in err


def test_experiments_print_their_tables_and_write_one_page(command, tmp_path, monkeypatch):
    from matplotlib.figure import Figure

    from nnghmc.paper import experiments
    from nnghmc.paper.experiment import Result, Table

    def run(full, seed, progress):
        words = f"seed {seed}, {'full' if full else 'quick'}"
        return Result([words, Table("a table", ("", "a"), [("b", "1")])], {"empty.png": Figure()})

    def interrupted(full, seed, progress):
        raise KeyboardInterrupt

    known = {
        name: experiments.Experiment(f"shows {name}", "1", "2", what)
        for name, what in (("one", run), ("two", run), ("three", interrupted))
    }
    monkeypatch.setattr(experiments, "EXPERIMENTS", known)
    code, out, _ = command("reproduce", "two", "--seed", 7, "--out", tmp_path)
    assert code == 0
    assert "seed 7, quick" in out
    assert (tmp_path / "reproduction" / "empty.png").exists()
    page = tmp_path / "reproduction.md"
    assert "shows one" not in page.read_text()
    code, out, _ = command("reproduce", "all", "--full", "--out", tmp_path)
    assert code == 130
    assert "interrupted" in out
    text = page.read_text()
    assert text.index("## one: shows one") < text.index("## two: shows two")
    assert text.count("seed 0, full") == 2
    assert "| b | 1 |" in text
    assert text.count("![one](reproduction/empty.png)") == 1
    assert text.count("`nnghmc reproduce two --full`") == 1


@pytest.mark.parametrize(
    ("options", "title"),
    [
        (["--network", "mlp", "--hidden", "8,8"], "NNgHMC, mlp"),
        (["--network", "potential", "--hidden", "20"], "NNgHMC, potential"),
    ],
)
def test_every_surrogate_is_reached_from_the_command_line(command, model, options, title):
    code, out, _ = command("sample", f"{model}:normal", *QUICK, *NNGHMC, *SCHEDULE, *options)
    assert code == 0
    assert f"{title}: 2 chains" in out


def test_stochastic_gradients_are_reached_from_the_command_line(command, model):
    model.write_text(MODEL_WITH_DATA)
    arguments = ["--method", "sghmc", "--method", "metropolis-sghmc", "--batch-size", "20"]
    code, out, _ = command("sample", f"{model}:regression", *QUICK, *arguments, "--friction", "2")
    assert code == 0
    assert "SGHMC with friction: 2 chains × 30 draws of 1 dimension, NOT exact" in out
    assert "SGHMC with Metropolis test: 2 chains × 30 draws of 1 dimension, exact" in out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([*NNGHMC, "--network", "gp", "--hidden", "5"], "--hidden is not a setting"),
        ([*NNGHMC, "--network", "mlp", "--hidden", "many"], "50,50; got 'many'"),
        (["--method", "sgld"], "this posterior has none"),
    ],
)
def test_bad_options_of_models_and_methods_are_told(command, model, options, words):
    code, _, err = command("sample", f"{model}:normal", *QUICK, *options)
    assert code == 2
    assert words in err


def test_what_was_learned_is_written_and_used_again(command, model, tmp_path):
    arguments = ["sample", f"{model}:normal", *QUICK, *SCHEDULE, *NNGHMC]
    code, _, _ = command(*arguments, "--out", tmp_path)
    assert code == 0
    learned = ["--surrogate", tmp_path / "nnghmc.surrogate"]
    code, out, _ = command(*arguments, "--method", "hmc", *learned)
    assert code == 0
    assert "given surrogate: acceptance" in out
    code, _, err = command(*arguments, "--surrogate", model)
    assert code == 2
    assert "not a surrogate's file" in err


def test_a_person_at_a_terminal_is_asked_before_a_store_runs_code(
    command, model, tmp_path, monkeypatch
):
    """Whoever made the folder decides what the code does."""
    marker = tmp_path / "was run"
    store = tmp_path / "run"
    command("sample", "my_model.py:normal", *QUICK, "--method", "hmc", "--store", store)
    model.write_text(f"from pathlib import Path\nPath({str(marker)!r}).touch()\n" + MODEL)
    monkeypatch.setattr("sys.stdin", Terminal("n\n"))
    code, out, _ = command("resume", store)
    assert code == 2
    assert "Go on?" in out
    assert not marker.exists()
    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    assert command("resume", store)[0] == 0
    assert marker.exists()
    assert command("resume", store, "--yes")[0] == 0


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_control_characters_do_not_reach_the_terminal(command, model, tmp_path):
    (tmp_path / "hostile.py").write_text("raise ValueError('\\x1b[2J gone')\n")
    code, _, err = command("sample", "hostile.py:x")
    assert code == 2
    assert "\x1b" not in err.replace("\x1b[31m", "").replace("\x1b[0m", "")
    assert "gone" in err


INTERRUPTED_IMPORT = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored
class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == "nnghmc":
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Slow())
from nnghmc_command import main
main()
"""


def test_ctrl_c_while_the_package_is_loading_is_quiet():
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_IMPORT], capture_output=True, text=True
    )
    assert done.returncode == 130
    assert done.stderr == "interrupted\n"


def test_every_setting_of_a_method_is_an_option_or_says_that_it_is_none():
    """The options come from the dataclasses: nobody writes them out again."""
    for name, kind in METHODS.items():
        for part in fields(kind):
            assert "meaning" in part.metadata, f"{kind.__name__}.{part.name}"
            if part.metadata["option"] is not None and part.metadata["kind"] != "group":
                option = part.metadata["option"] or part.name
                assert name in OPTIONS[option.replace("-", "_")].methods
