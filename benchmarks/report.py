"""Write the page of a benchmark: a title, a provenance, and tables."""

from pathlib import Path

from nnghmc import provenance
from nnghmc.paper.experiment import markdown_table

RESULTS = Path(__file__).parent / "results"


def file_name(words):
    """Return words as a file name, with underscores for all but letters and digits."""
    return "".join(c if c.isalnum() else "_" for c in words)


def table(header, rows):
    """Return the lines of a Markdown table, with an empty line before and after."""
    return ["", *markdown_table(header, rows), ""]


def publish(name, title, lines, *, quick, made=None):
    """Print a page, and write it to results/ unless the run was a quick one.

    `made` says how and where the page was made, if not by `make bench` here and now.
    """
    made = made or f"Made by `make bench`. {provenance()}."
    text = "\n".join([f"# {title}", "", made, "", *lines])
    text = text.rstrip() + "\n"
    print(text)
    if not quick:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / f"{name}.md").write_text(text)
