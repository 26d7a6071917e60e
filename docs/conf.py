"""The site: ``python -m sphinx -W docs FOLDER`` makes it of the pages here, which also read well as they are."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vperf import __version__

if TYPE_CHECKING:
    from sphinx.application import Sphinx

sys.path.insert(0, str(Path(__file__).parents[1] / "script"))

project = "pytest-vperf"
author = "The pytest-vperf developers"
copyright = "the pytest-vperf developers, Apache-2.0"
release = version = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "reference", "pictures"]
html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_extra_path = ["reports"]
# Reports are no pages of the site: what leads to one of them stays as it is written.
myst_url_schemes = {
    "http": None,
    "https": None,
    "mailto": None,
    "reports": {"url": "{{path}}#{{fragment}}"},
}
html_title = f"pytest-vperf {__version__}"
myst_heading_anchors = 4
napoleon_use_ivar = True
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
default_role = "literal"
smartquotes = False  # two hyphens begin an option
nitpicky = True
# Annotations name private classes, and those of other packages, which have no place here to lead to.
nitpick_ignore_regex = [("py:.*", ".*")]


def _within(_: Sphinx, _name: str, content: list[str]) -> None:
    """The list of changes is not in this folder, but a page of the site."""
    content[0] = content[0].replace("](../CHANGELOG.md", "](changes.md")


#: What the theme leaves out: a heading's level, and that a keyboard reaches what scrolls by itself.
ACCESSIBLE = (
    ("furo_navigation_tree", 'role="heading"', 'role="heading" aria-level="2"'),
    ("body", "<pre>", '<pre tabindex="0">'),
    ("body", '<div class="table-wrapper', '<div tabindex="0" class="table-wrapper'),
)


def _accessible(
    _: Sphinx, _name: str, _template: str, context: dict[str, str], _tree: object
) -> None:
    for key, old, new in ACCESSIBLE:
        if key in context:
            context[key] = context[key].replace(old, new)


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("source-read", _within)
    app.connect("html-page-context", _accessible, priority=900)  # after the theme's own
