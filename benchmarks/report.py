"""What every benchmark writes: a page with a title, a provenance, and tables."""

from pathlib import Path

from nnghmc.provenance import provenance

RESULTS = Path(__file__).parent / "results"


def file_name(words):
    """Words as the name of a file: letters and digits, and underscores for the rest."""
    return "".join(c if c.isalnum() else "_" for c in words)


def table(header, rows):
    """Lines of a Markdown table; the first column is text, the others are numbers."""
    aligned = ["---"] + ["---:"] * (len(header) - 1)
    return ["", *("| " + " | ".join(row) + " |" for row in (header, aligned, *rows)), ""]


def publish(name, title, lines, *, quick):
    """Print a page, and write it to results/ unless the run was a quick one."""
    text = "\n".join([f"# {title}", "", f"Made by `make bench`. {provenance()}.", "", *lines])
    text = text.rstrip() + "\n"
    print(text)
    if not quick:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / f"{name}.md").write_text(text)
