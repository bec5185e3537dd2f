"""The Python in the documentation runs as it stands there."""

import itertools
import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import nnghmc
from nnghmc import payoff

ROOT = Path(__file__).parents[1]
PAGES = {
    "README.md": 1,
    "docs/guide.md": 3,
    "docs/models.md": 2,
    "docs/payoff.md": 1,
    "docs/stores.md": 1,
    "docs/frontends/bambi.md": 1,
    "docs/frontends/callable.md": 1,
    "docs/frontends/jax.md": 1,
    "docs/frontends/numpyro.md": 1,
    "docs/frontends/pymc.md": 1,
}


def programs(page):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    return [block for block in blocks if block.startswith("import ")]


@pytest.mark.parametrize(
    ("page", "number"),
    [(page, i) for page in PAGES for i in range(len(programs(page)))],
)
def test_program_runs(page, number, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(compile(programs(page)[number], page, "exec"), names)
    if "run" in names:
        run = names["run"]
        assert run.handed_over or "NUTS is the faster way" in run.story[0]
        assert run.notes == ()
    elif "expected" in names:
        assert names["expected"].pays  # as the page says of it
    else:
        assert names["info"].acceptance_rate > 0


def test_every_page_has_its_programs():
    assert {page: len(programs(page)) for page in PAGES} == PAGES


def rows(page, header):
    """The cells of the first table with this header, a list a row."""
    lines = (ROOT / page).read_text().split(f"| {header}", 1)[1].splitlines()[2:]
    table = itertools.takewhile(lambda line: line.startswith("|"), lines)
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


def test_the_figures_of_the_payoff_page_are_those_that_were_measured():
    measured = {
        target: (sampler.removeprefix("nnghmc: "), seconds, ratio)
        for target, sampler, seconds, *_, ratio, _ in rows(
            "benchmarks/results/against_nuts.md", "target | sampler | seconds"
        )
        if target
    }
    assert {row[0]: tuple(row[1:]) for row in rows("docs/payoff.md", "model")} == measured


def test_the_payoff_page_explains_the_estimate_as_it_is_made():
    said = dict(rows("docs/payoff.md", "| what it is"))
    assert said["by NUTS"].startswith(
        f"{payoff.NUTS_SECONDS:g} s to compile, and {payoff.GRADIENTS_A_NUTS_DRAW} gradients for "
        f"each of {payoff.NUTS_WARMUP} draws"
    )
    assert said["by learning"].startswith(
        f"{payoff.LEARNING_SECONDS:g} s to compile and to fit, {payoff.ROUNDS_OF_GRADIENTS} "
    )
    assert said["by learning"].endswith(f"{payoff.LEARNED_STEPS_A_DRAW} learned steps")


def pinned(package, python):
    """The version that the requirements pin for a Python."""
    lines = "".join(path.read_text() for path in (ROOT / "requirements").glob("*.txt"))
    pins = re.findall(rf"^({package}==[^\\\n]+)", lines, re.MULTILINE)
    fitting = [
        pin.specifier
        for pin in map(Requirement, pins)
        if pin.marker is None or pin.marker.evaluate({"python_full_version": f"{python}.1"})
    ]
    (version,) = {str(specifier).removeprefix("==") for specifier in fitting}
    return version


def test_the_readme_names_the_versions_that_are_tested():
    told = {}
    for pythons, *versions in rows("README.md", "Python | JAX"):
        told |= dict.fromkeys(pythons.split(", "), versions)
    packages = ("jax", "arviz", "pymc", "bambi", "numpyro")
    assert told == {python: [pinned(package, python) for package in packages] for python in told}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    kinds = [kind.rpartition(" :: ")[2] for kind in project["classifiers"] if "Python ::" in kind]
    assert list(told) == kinds


def test_every_public_name_is_in_the_reference_once():
    pages = "".join(path.read_text() for path in (ROOT / "docs/api").glob("*.md"))
    documented = re.findall(r"^\.\. auto\w+:: nnghmc\.(\w+)$", pages, re.MULTILINE)
    assert sorted(documented) == sorted(nnghmc.__all__)
