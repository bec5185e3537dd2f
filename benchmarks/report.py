"""What every benchmark writes: a page with a title, a provenance, and tables."""

from pathlib import Path

from nnghmc.paper.experiment import markdown_table
from nnghmc.provenance import provenance

RESULTS = Path(__file__).parent / "results"


def file_name(words):
    """Words as the name of a file: letters and digits, and underscores for the rest."""
    return "".join(c if c.isalnum() else "_" for c in words)


def table(header, rows):
    """Lines of a Markdown table, apart from what stands before and after."""
    return ["", *markdown_table(header, rows), ""]


def publish(name, title, lines, *, quick):
    """Print a page, and write it to results/ unless the run was a quick one."""
    text = "\n".join([f"# {title}", "", f"Made by `make bench`. {provenance()}.", "", *lines])
    text = text.rstrip() + "\n"
    print(text)
    if not quick:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / f"{name}.md").write_text(text)
