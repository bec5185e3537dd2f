"""Write one page of all experiments that were run, in the order in which they are listed."""

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from nnghmc import plots, provenance
from nnghmc.paper.experiment import Result

PAGE, PARTS = "reproduction.md", "reproduction"
HEAD = """\
# The paper, reproduced

Every table and figure of Li, Holbrook, Shahbaba and Baldi, *Neural Network Gradient Hamiltonian
Monte Carlo* (arXiv 1711.05307), by one command each. `make reproduce` made this page; each part
says when, where and with which versions it was made.
"""


def files_of(
    name: str, shows: str, command: str, result: Result
) -> list[tuple[str, Callable[[Path], Any]]]:
    """Return file names in the folder of the page, each with the function that writes the file."""
    pictures = [f"![{name}]({PARTS}/{file})" for file in result.figures]
    origin = f"*`{command}`; {provenance()}*"
    text = "\n\n".join([f"## {name}: {shows}", result.markdown, *pictures, origin])
    return [
        *((f"{PARTS}/{file}", partial(plots.save, part)) for file, part in result.figures.items()),
        (f"{PARTS}/{name}.md", lambda path: path.write_text(text + "\n")),
    ]


def write_page(names: Iterable[str], path: Path) -> None:
    """Join the parts of all experiments that were run into one page."""
    parts = [path.parent / PARTS / f"{name}.md" for name in names]
    path.write_text("\n".join([HEAD, *(part.read_text() for part in parts if part.exists())]))
