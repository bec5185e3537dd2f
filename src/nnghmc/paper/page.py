"""One page of all experiments that were made, in the order in which they are listed."""

from collections.abc import Iterable
from pathlib import Path

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


def write_part(folder: Path, name: str, shows: str, command: str, result: Result) -> list[Path]:
    """The part of one experiment and its figures; what was written."""
    parts = folder / PARTS
    parts.mkdir(parents=True, exist_ok=True)
    for file, figure in result.figures.items():
        plots.save(figure, parts / file)
    pictures = [f"![{name}]({PARTS}/{file})" for file in result.figures]
    made = f"*`{command}`; {provenance()}*"
    text = "\n\n".join([f"## {name}: {shows}", result.markdown, *pictures, made])
    (parts / f"{name}.md").write_text(text + "\n")
    return [parts / file for file in (*result.figures, f"{name}.md")]


def write_page(folder: Path, names: Iterable[str]) -> Path:
    """Join the parts that are there."""
    parts = [folder / PARTS / f"{name}.md" for name in names]
    texts = [HEAD, *(part.read_text() for part in parts if part.exists())]
    page = folder / PAGE
    page.write_text("\n".join(texts))
    return page
