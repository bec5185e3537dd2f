"""The documentation is true: its Python runs as printed, and its tables agree with the code."""

import ast
import dataclasses
import itertools
import re
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement

import nnghmc
from nnghmc.engine.events import UnknownEvent
from nnghmc.run import notes
from test_layers import KNOWLEDGE

ROOT = Path(__file__).parents[1]
PAGES = {
    "README.md": 1,
    "docs/extending.md": 2,
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
        assert_as_promised(names["run"])
    elif "expected" in names:
        assert names["expected"].pays  # as the page says of it
    else:
        assert names["info"].acceptance_rate > 0


def assert_as_promised(run):
    """Every run of a page is complete, has no notes, and hands over where learning was wanted."""
    assert run.complete
    assert run.notes == ()
    if run.estimate is not None:
        assert run.handed_over or not run.estimate.pays
    elif isinstance(run.method, nnghmc.NNgHMC):
        assert run.handed_over


def test_every_page_has_its_programs():
    assert {page: len(programs(page)) for page in PAGES} == PAGES


def rows(page, header, after=""):
    """Return the cells of the first table with this header after a text, one list per row."""
    text = (ROOT / page).read_text().partition(after)[2] if after else (ROOT / page).read_text()
    lines = text.split(f"| {header}", 1)[1].splitlines()[2:]
    table = itertools.takewhile(lambda line: line.startswith("|"), lines)
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


SAMPLED_BY = {
    "nnghmc: NNgHMC": "surrogate",
    "nnghmc: NNgHMC, sparse": "surrogate",
    "nnghmc: NUTS": "NUTS",
}


def test_the_figures_of_the_payoff_page_are_those_that_were_measured():
    measured = {
        target: (SAMPLED_BY[sampler], seconds, gradients, ratio)
        for target, sampler, seconds, gradients, *_, ratio, _ in rows(
            "benchmarks/results/against_nuts.md", "target | sampler | seconds"
        )
        if target
    }
    assert {row[0]: tuple(row[1:]) for row in rows("docs/payoff.md", "model")} == measured


def test_the_payoff_page_explains_the_estimate_as_it_is_made():
    policy, explained = nnghmc.Policy(), dict(rows("docs/payoff.md", "| what it is"))
    assert explained["by NUTS"].startswith(
        f"{policy.nuts_seconds:g} s to compile, and {policy.gradients_per_nuts_draw} gradients for "
        f"each of {policy.nuts_warmup} draws"
    )
    assert explained["by learning"].startswith(
        f"{policy.learning_seconds:g} s to compile and to fit, {policy.gradients_to_learn} "
    )
    assert explained["by learning"].endswith(f"{policy.learned_steps_per_draw} learned steps")


def test_the_thresholds_are_those_of_the_policy():
    assert rows("docs/thresholds.md", "name | default") == [
        [part.name, f"{part.default:g}", part.metadata["meaning"]]
        for part in dataclasses.fields(nnghmc.Policy)
    ]


def test_the_thresholds_of_notes_are_those_of_the_code():
    listed = {name: float(value) for name, value, _ in rows("docs/thresholds.md", "name | value")}
    assert listed == {
        name: value
        for name, value in vars(notes).items()
        if name.startswith(("LARGEST_", "LEAST_", "LONGEST_"))
        and name != "LEAST_DRAWS_FOR_TAILS"  # it belongs to the statistics
    }


def test_the_guide_lists_every_kind_of_note():
    source = Path(nnghmc.__file__).parent
    made = {
        call.args[0].value
        for path in source.rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "Note"
    }
    listed = [kind.strip("`") for kind, _ in rows("docs/guide.md", "kind | what it says")]
    assert sorted(listed) == sorted(made)


def test_the_guide_lists_every_event_with_its_fields():
    ours = [
        kind
        for kind in nnghmc.Event.known.values()
        if kind.__module__.startswith("nnghmc.") and kind is not UnknownEvent
    ]
    listed = {
        name.strip("`"): described.partition(";")[0].split(", ")
        for name, described in rows("docs/guide.md", "event | fields")
    }
    assert listed == {
        kind.__name__: [part.name for part in dataclasses.fields(kind)] for kind in ours
    }


def test_the_guide_lists_every_method():
    listed = {}
    for names, kinds, _, exact in rows("docs/guide.md", "name | method"):
        for name, kind in zip(names.split(", "), kinds.split(", "), strict=True):
            listed[name.strip('`"')] = (kind.strip("`"), exact)
    assert listed == {
        name: (kind.__name__, "yes" if kind.exact else "no")
        for name, kind in nnghmc.methods.METHODS.items()
    }


def settings_in_the_guide():
    """Return the settings that the guide lists for each method, by the name of its class."""
    listed = {}
    for titles in re.findall(r"^### Settings of (.*)$", (ROOT / "docs/guide.md").read_text(), re.M):
        kinds = re.findall(r"`(\w+)`", titles)
        for names, meaning in rows("docs/guide.md", "setting | meaning", after=f"of {titles}\n"):
            restricted, only, _ = meaning.partition(" only: ")
            for kind in re.findall(r"`(\w+)`", restricted) if only else kinds:
                assert kind in kinds
                listed.setdefault(kind, []).extend(re.findall(r"`(\w+)`", names))
    return listed


def test_the_guide_lists_every_setting_of_every_method():
    listed = settings_in_the_guide()
    assert {kind: sorted(names) for kind, names in listed.items()} == {
        kind.__name__: sorted(part.name for part in dataclasses.fields(kind))
        for kind in nnghmc.methods.METHODS.values()
    }


def test_contributing_has_the_table_of_the_layer_test():
    listed = {
        part.strip("`"): set(re.findall(r"`(\w+)`", knows))
        for part, knows in rows("CONTRIBUTING.md", "part | may import")
    }
    assert listed == {part: set(knows.split()) for part, knows in KNOWLEDGE.items()}


def test_the_files_that_contributing_names_exist():
    source = ROOT / "src/nnghmc"
    text = (ROOT / "CONTRIBUTING.md").read_text()
    paths = set(re.findall(r"`((?:src/|tests/|docs/)?\w+/[\w/]*(?:\.py)?)`", text))
    assert len(paths) > 30
    assert [
        path for path in paths if not ((source / path).exists() or (ROOT / path).exists())
    ] == []


def pinned(package, python):
    """Return the version that the requirements pin for a Python."""
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
    listed = {}
    for pythons, *versions in rows("README.md", "Python | JAX"):
        listed |= dict.fromkeys(pythons.split(", "), versions)
    packages = ("jax", "arviz", "pymc", "bambi", "numpyro")
    assert listed == {python: [pinned(part, python) for part in packages] for python in listed}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    kinds = [kind.rpartition(" :: ")[2] for kind in project["classifiers"] if "Python ::" in kind]
    assert list(listed) == kinds


def test_every_public_name_is_in_the_reference_once():
    pages = "".join(path.read_text() for path in (ROOT / "docs/api").glob("*.md"))
    documented = re.findall(r"^\.\. auto\w+:: (nnghmc\.\w+)$", pages, re.MULTILINE)
    documented += re.findall(r"^\.\. automodule:: (nnghmc\.\w+\.\w+)$", pages, re.MULTILINE)
    public = {name: getattr(nnghmc, name) for name in nnghmc.__all__}
    assert sorted(documented) == sorted(
        value.__name__ if isinstance(value, ModuleType) else f"nnghmc.{name}"
        for name, value in public.items()
    )
