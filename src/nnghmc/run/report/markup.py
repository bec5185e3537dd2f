"""HTML that is safe by construction: text is escaped unless it is an element already."""

from html import escape
from typing import Any


class Html(str):
    """Text that is HTML already. Only this file makes it, so no text of a user passes as it."""

    __slots__ = ()


VOID = ("br", "img", "link", "meta")


def element(tag: str, *children: str, **attributes: Any) -> Html:
    """Return an element. Children that are not HTML yet are escaped, and so are all attributes.

    An underscore at the end of an attribute's name is removed (`class_`), and one within it becomes
    a hyphen (`aria_label`). An attribute that is None is left out; one that is True has no value.
    """
    written = "".join(
        f" {key.rstrip('_').replace('_', '-')}"
        + ("" if value is True else f'="{escape(str(value))}"')
        for key, value in attributes.items()
        if value is not None
    )
    if tag in VOID:
        return Html(f"<{tag}{written}>")
    return Html(f"<{tag}{written}>{joined(*children)}</{tag}>")


def joined(*parts: str) -> Html:
    """Join elements and text; the text is escaped."""
    return Html("".join(part if isinstance(part, Html) else escape(part) for part in parts))


def document(head: Html, body: Html, style: str) -> Html:
    """Return a whole page. `style` must come from this package: it is not escaped."""
    sheet = Html(f"<style>\n{style}</style>")
    page = element("html", element("head", head, sheet), body, lang="en")
    return Html(f"<!DOCTYPE html>\n{page}\n")
