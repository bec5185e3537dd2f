"""The page of a report: one HTML file with everything in it; nothing runs, nothing is fetched."""

from importlib.resources import files
from pathlib import Path

from nnghmc.engine.events import Note
from nnghmc.errors import SettingsError
from nnghmc.platform.files import write_atomically
from nnghmc.platform.text import counted, in_words
from nnghmc.run.report import tables
from nnghmc.run.report.contents import Contents
from nnghmc.run.report.markup import Html, document, element, joined
from nnghmc.run.report.sections import Report, Section
from nnghmc.run.report.summary import largest_rhat, lowest_ess
from nnghmc.run.run import Run

POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
"""This makes the browser itself refuse to fetch anything or to run a script."""


def write_report(run: Run, path: str | Path) -> None:
    """Write one self-contained HTML file about a run, just made or loaded from a store."""
    write_page(Contents.of_run(run), path)


def write_page(contents: Contents, path: str | Path) -> None:
    """Write the page to a file; where that fails, the file stays as it was before."""
    page = page_of(contents)
    path = Path(path)
    try:
        write_atomically(path, page.encode())
    except OSError as error:
        raise SettingsError(
            f"a report must go to a file that can be written; {path}: {error.strerror}."
        ) from None


def page_of(contents: Contents) -> Html:
    """Return the page as text."""
    report = Report(contents)
    sections = report.sections
    title = _title(contents)
    main = element("main", _verdict(report), _links(sections), *(part.html for part in sections))
    heading = element("header", element("h1", title))
    footer = element("footer", element("p", "Made by nnghmc. Everything shown is in this file."))
    body = element("body", element("div", heading, main, footer, class_="page"))
    style = files("nnghmc.run.report").joinpath("style.css").read_text(encoding="utf-8")
    return document(_head(title), body, style)


def _title(contents: Contents) -> str:
    method = contents.method[:1].upper() + contents.method[1:]
    size = f"{contents.chains:,} × {contents.draws:,} draws"
    return f"{method}: {size} of {counted(contents.dim, 'dimension')}"


def _head(title: str) -> Html:
    return joined(
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("link", rel="icon", href="data:,"),
        element("title", title),
    )


def _links(sections: list[Section]) -> Html:
    """Return the table of contents."""
    links = [element("a", section.title, href=f"#{section.id}") for section in sections]
    return element(
        "nav", element("ul", *(element("li", link) for link in links)), aria_label="Contents"
    )


def _verdict(report: Report) -> Html:
    """Say in plain words, before anything else, whether the draws may be used."""
    contents = report.contents
    unfinished = () if contents.unfinished is None else (contents.unfinished,)
    notes = (*unfinished, *contents.notes)
    if not contents.draws:
        tone, title = "bad", "No draws"
    elif notes:
        tone, title = "watch", "Watch out"
    else:
        tone, title = "good", "All well"
    return element(
        "div",
        element("h2", title, id="verdict-title"),
        element("ul", *map(_note, notes)) if notes else _all_well(),
        _tiles(report),
        class_=f"verdict {tone}",
        id="verdict",
        role="region",
        aria_labelledby="verdict-title",
    )


def _note(note: Note) -> Html:
    """Return what happened, and below it what to do about it."""
    if not note.remedy:
        return element("li", _sentence(note.text))
    remedy = element("div", f"What to do: {_sentence(note.remedy)}", class_="remedy")
    return element("li", _sentence(note.text), remedy)


def _sentence(words: str) -> str:
    return words if words.endswith((".", "!", "?")) else f"{words}."


def _all_well() -> Html:
    return element(
        "p",
        "The chains agree, the effective sample sizes are large enough, and no trajectory "
        "diverged. The draws come from the true posterior.",
    )


def _tiles(report: Report) -> Html:
    """Return the few numbers that matter most."""
    contents = report.contents
    seconds = contents.cost.total.seconds
    facts = {"time": in_words(seconds) if seconds else tables.UNKNOWN}
    if contents.draws:
        rates = contents.statistic("acceptance_rate")
        rhat = largest_rhat(report.summary)
        facts |= {
            "acceptance": tables.short(float(rates.mean())) if rates.size else tables.UNKNOWN,
            "divergences": tables.count(contents.statistic("diverging").sum()),
            "lowest ESS": tables.count(lowest_ess(report.summary)),
            "largest R-hat": f"{rhat:.3f}" if rhat == rhat else tables.UNKNOWN,
        }
    pairs = [element("div", element("dt", k), element("dd", v)) for k, v in facts.items()]
    return element("dl", *pairs, class_="tiles")
