"""One page of all experiments that were made, in the order in which they are listed."""

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from nnghmc import plots
from nnghmc.paper.experiment import Result
from nnghmc.provenance import provenance

PAGE, PARTS = "reproduction.md", "reproduction"
HEAD = """\
# The paper, reproduced

Every table and figure of Li, Holbrook, Shahbaba and Baldi, *Neural Network Gradient Hamiltonian
Monte Carlo* (arXiv 1711.05307), by one command each. `make reproduce` made this page; each part
tells when, where and with which versions.
"""


def files_of(
    name: str, shows: str, command: str, result: Result
) -> list[tuple[str, Callable[[Path], Any]]]:
    """Names in the folder of the page, and what writes them: figures and the experiment's part."""
    pictures = [f"![{name}]({PARTS}/{file})" for file in result.figures]
    made = f"*`{command}`; {provenance()}*"
    text = "\n\n".join([f"## {name}: {shows}", result.markdown, *pictures, made])
    return [
        *((f"{PARTS}/{file}", partial(plots.save, part)) for file, part in result.figures.items()),
        (f"{PARTS}/{name}.md", lambda path: path.write_text(text + "\n")),
    ]


def write_page(names: Iterable[str], path: Path) -> None:
    """Join the parts that are there."""
    parts = [path.parent / PARTS / f"{name}.md" for name in names]
    path.write_text("\n".join([HEAD, *(part.read_text() for part in parts if part.exists())]))
