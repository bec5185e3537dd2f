"""How Sphinx builds the documentation: `make docs`.

The pages are Markdown that also reads well where the repository is looked at; what is written
outside this folder (README, changelog, benchmark results) is included, not repeated.
"""

import os
import re
from importlib.metadata import version as version_of

from sphinx.application import Sphinx

os.environ.setdefault("JAX_PLATFORMS", "cpu")  # importing the package looks for no accelerator

project = "nnghmc"
author = "The nnghmc developers"
project_copyright = "The nnghmc developers, Apache-2.0"
version = release = version_of("nnghmc")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["reproduction/*.md"]  # the parts that reproduction.md is joined from

myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]

html_theme = "furo"
html_title = "nnghmc"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False

napoleon_numpy_docstring = False
napoleon_use_ivar = True
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 80
default_role = "code"  # as single backticks mean in the docstrings
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"

# Names of other packages lead nowhere: the build needs no network, and so has no index of theirs.
nitpick_ignore_regex = [("py:.*", r"(?!nnghmc\.).*")]

OUTSIDE = (
    (re.compile(r"\]\((?:\.\./)*benchmarks/results/(\w+)\.md\)"), r"](#\1)"),
    (re.compile(r"\]\((?:\.\./)*CONTRIBUTING\.md\)"), "](/contributing.md)"),
    (re.compile(r"\]\((?:\.\./)*CHANGELOG\.md\)"), "](/changelog.md)"),
    (re.compile(r"\]\((?:\.\./)*docs/"), "](/"),
)
"""Links as they work in the repository, and where they lead in these pages."""

LIMITS = re.compile(
    r"(?:; at most [\d.]+(?: MB)? (?:is|are) allowed|: at least \d+ is promised)(?=\.)"
)
"""Limits that a benchmark checks itself against. They mean nothing to readers of these pages."""


def lead_here(text: str) -> str:
    """Turn links to files outside this folder into links to the pages that include them."""
    for link, here in OUTSIDE:
        text = link.sub(here, text)
    return text


SHORTER = (
    (re.compile(r"Key\[jaxlib\._jax\.Array, ''\] \| UInt32\[jaxlib\._jax\.Array, '[24]'\]"), "Key"),
    (re.compile(r" \| UInt32\[jaxlib\._jax\.Array, '[24]'\]"), ""),
    (re.compile(r"jaxlib\._jax\.Array"), "Array"),
    (re.compile(r"(blackjax|jaxtyping)\.[\w.]+\."), ""),
)
"""Short names of types in signatures, instead of the modules that define them."""


def shorter(text: str | None) -> str | None:
    """Shorten the names of types in a signature, so that it can be read."""
    for long, short in SHORTER if text else ():
        text = long.sub(short, text)
    return text


def setup(app: Sphinx) -> None:
    """Connect the changes above to the events of Sphinx, which calls this function."""

    def page_read(app: Sphinx, name: str, content: list[str]) -> None:
        content[0] = lead_here(content[0])

    def include_read(app: Sphinx, path: object, name: str, content: list[str]) -> None:
        content[0] = LIMITS.sub("", lead_here(content[0]))

    def signature_made(
        app: Sphinx,
        what: str,
        name: str,
        documented: object,
        options: object,
        signature: str | None,
        returned: str | None,
    ) -> tuple[str | None, str | None]:
        return shorter(signature), shorter(returned)

    app.connect("autodoc-process-signature", signature_made)
    app.connect("source-read", page_read)
    app.connect("include-read", include_read)
