"""The tree shows the flow: each folder knows only what the table says it may know."""

import ast
from pathlib import Path

import pytest

import nnghmc

SOURCE = Path(nnghmc.__file__).parent

KNOWLEDGE = {
    "errors": "",
    "platform": "errors",
    "model": "errors platform",
    "kernels": "errors platform",
    "surrogates": "errors platform model",
    "engine": "errors platform model kernels",
    "explore": "errors platform model kernels engine surrogates",
    "store": "errors platform model kernels engine surrogates",
    "run": "errors platform model kernels engine surrogates store",
    "methods": "errors platform model kernels engine surrogates explore",
    "api": "errors platform model engine explore methods run store",
    "cli": "errors platform model surrogates methods run store api paper",
    "paper": "nnghmc",
}
"""What each folder or file at the top may import, beside itself; `nnghmc` is the public names."""

MOST_FILES_AT_THE_TOP, MOST_FILES_IN_A_FOLDER, MOST_LINES = 5, 13, 400


def part_of(path):
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported(path):
    """The parts of the package that a file imports, inside functions too."""
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "nnghmc":
                yield parts[1] if len(parts) > 1 else "nnghmc"


FILES = sorted(path for path in SOURCE.rglob("*.py") if part_of(path) != "__init__")


def test_every_part_is_in_the_table():
    assert {part_of(path) for path in FILES} == set(KNOWLEDGE)


@pytest.mark.parametrize("part", KNOWLEDGE)
def test_a_part_knows_only_what_the_table_says(part):
    allowed = {part, *KNOWLEDGE[part].split()}
    own = [path for path in FILES if part_of(path) == part]
    found = {(path.name, name) for path in own for name in imported(path)}
    assert [(file, name) for file, name in sorted(found) if name not in allowed] == []


def test_no_two_parts_know_each_other():
    for part, knows in KNOWLEDGE.items():
        assert [other for other in knows.split() if part in KNOWLEDGE.get(other, "").split()] == []


def test_folders_and_files_are_small():
    assert len(list(SOURCE.glob("*.py"))) <= MOST_FILES_AT_THE_TOP
    for folder in {path.parent for path in FILES} - {SOURCE}:
        if folder.name != "paper":  # one file per experiment
            assert len(list(folder.glob("*.py"))) <= MOST_FILES_IN_A_FOLDER, folder
    long = [path.name for path in FILES if len(path.read_text().splitlines()) > MOST_LINES]
    assert long == []
