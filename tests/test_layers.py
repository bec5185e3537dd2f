"""The tree shows the flow: a file imports only from those above it in this list."""

import ast
from pathlib import Path

import nnghmc

SOURCE = Path(nnghmc.__file__).parent
LAYERS = [
    "errors",
    "files",
    "description",
    "provenance",
    "arviz_versions",
    "compilation",
    "memory",
    "mass_matrix",
    "precision",
    "parameters",
    "model_checks",
    "calls",
    "quantities",
    "posterior",
    "fingerprint",
    "frontends",
    "kernels",
    "surrogates",
    "assessment",
    "cost",
    "progress",
    "interrupts",
    "journal",
    "store",
    "chains",
    "stored_draws",
    "diagnostics",
    "payoff",
    "tails",
    "warmup",
    "learned_tuning",
    "schedule",
    "methods",
    "transitions",
    "run",
    "record",
    "automatic",
    "stored_arguments",
    "comparison",
    "sampler",
    "plots",
    "report",
    "paper",
    "showcase",
    "loading",
    "resuming",
    "cli",
]
STRANGERS = [("kernels", "surrogates"), ("surrogates", "kernels")]


def layer_of(path):
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_layers(path):
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = (
                [node.module]
                if node.module != "nnghmc"
                else [f"nnghmc.{alias.name}" for alias in node.names]
            )
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "nnghmc":
                yield parts[1]


def test_every_file_has_its_place():
    found = {layer_of(path) for path in SOURCE.rglob("*.py")} - {"__init__"}
    assert found == set(LAYERS)


def test_imports_only_point_upwards():
    for path in SOURCE.rglob("*.py"):
        layer = layer_of(path)
        if layer == "__init__":
            continue
        for imported in imported_layers(path):
            assert LAYERS.index(imported) <= LAYERS.index(layer), f"{path.name} imports {imported}"
            assert (layer, imported) not in STRANGERS, f"{path.name} imports {imported}"
