"""The page of a report: one HTML file with everything in it; nothing runs, nothing is fetched."""

from importlib.resources import files
from pathlib import Path

from nnghmc.errors import SettingsError
from nnghmc.files import write_atomically
from nnghmc.payoff import in_words
from nnghmc.report import tables
from nnghmc.report.contents import Contents
from nnghmc.report.markup import Html, document, element, joined
from nnghmc.report.sections import Report, Section
from nnghmc.report.summary import largest_rhat, lowest_ess

POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
"""The browser itself then sees to it that nothing is fetched and no script runs."""


def write_report(contents: Contents, path: str | Path) -> None:
    """Write one self-contained HTML file; where that fails, what was there before stays."""
    page = page_of(contents)
    path = Path(path)
    try:
        write_atomically(path, page.encode())
    except OSError as error:
        raise SettingsError(
            f"a report must go to a file that can be written; {path}: {error.strerror}."
        ) from None


def page_of(contents: Contents) -> Html:
    """The page as text."""
    report = Report(contents)
    sections = report.sections
    title = _title(contents)
    main = element("main", _verdict(report), _links(sections), *(part.html for part in sections))
    heading = element("header", element("h1", title))
    footer = element("footer", element("p", "Made by nnghmc. Everything shown is in this file."))
    body = element("body", element("div", heading, main, footer, class_="page"))
    style = files("nnghmc.report").joinpath("style.css").read_text(encoding="utf-8")
    return document(_head(title), body, style)


def _title(contents: Contents) -> str:
    chains, draws = f"{contents.chains:,}", f"{contents.draws:,}"
    method = contents.method[:1].upper() + contents.method[1:]
    dims = f"{contents.dim:,} dimension" + ("" if contents.dim == 1 else "s")
    return f"{method}: {chains} × {draws} draws of {dims}"


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
    """The contents of the page."""
    links = [element("a", section.title, href=f"#{section.id}") for section in sections]
    return element(
        "nav", element("ul", *(element("li", link) for link in links)), aria_label="Contents"
    )


def _verdict(report: Report) -> Html:
    """May the draws be used? In plain words, before anything else."""
    contents = report.contents
    if not contents.draws:
        tone, title = "bad", "No draws"
        lines = ["the run was interrupted before its first kept draw", *contents.notes]
    elif contents.notes or not contents.complete:
        tone, title = "watch", "Watch out"
        stopped = f"the run was interrupted after {contents.draws:,} draws a chain"
        lines = [*contents.notes] if contents.complete else [stopped, *contents.notes]
    else:
        tone, title, lines = "good", "All well", []
    told = element("ul", *(element("li", line) for line in lines)) if lines else _all_well()
    return element(
        "div",
        element("h2", title, id="verdict-title"),
        told,
        _tiles(report),
        class_=f"verdict {tone}",
        id="verdict",
        role="region",
        aria_labelledby="verdict-title",
    )


def _all_well() -> Html:
    return element(
        "p",
        "The chains agree, the effective sample sizes suffice, and no trajectory diverged. The "
        "draws come from the true posterior.",
    )


def _tiles(report: Report) -> Html:
    """The few numbers that matter most."""
    contents = report.contents
    facts = {"time": in_words(contents.cost.total.seconds)}
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
