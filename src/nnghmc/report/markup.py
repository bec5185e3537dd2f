"""HTML that is safe by construction: text is escaped unless an element was made of it."""

from html import escape
from typing import Any


class Html(str):
    """Text that is HTML already. Made here alone, so that nothing a user gives passes as it."""

    __slots__ = ()


VOID = ("br", "img", "link", "meta")


def element(tag: str, *children: str, **attributes: Any) -> Html:
    """An element; children that are no HTML yet are escaped, and so are all attributes.

    An underscore at the end of an attribute's name is left out, `class_`, and one within it is a
    hyphen, `aria_label`. An attribute that is None is left out; one that is True has no value.
    """
    given = "".join(
        f" {key.rstrip('_').replace('_', '-')}"
        + ("" if value is True else f'="{escape(str(value))}"')
        for key, value in attributes.items()
        if value is not None
    )
    if tag in VOID:
        return Html(f"<{tag}{given}>")
    return Html(f"<{tag}{given}>{joined(*children)}</{tag}>")


def joined(*parts: str) -> Html:
    """Elements and text after each other."""
    return Html("".join(part if isinstance(part, Html) else escape(part) for part in parts))


def document(head: Html, body: Html, style: str) -> Html:
    """A whole page. `style` is ours, and goes in as it is."""
    sheet = Html(f"<style>\n{style}</style>")
    page = element("html", element("head", head, sheet), body, lang="en")
    return Html(f"<!DOCTYPE html>\n{page}\n")
