"""The site: ``python -m sphinx -W docs FOLDER`` makes it of the pages here, which also read well as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_vperf import __version__

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "pytest-vperf"
author = "The pytest-vperf developers"
release = version = __version__
extensions = ["myst_parser"]
html_theme = "furo"
html_title = f"pytest-vperf {__version__}"
myst_heading_anchors = 4
nitpicky = True


def _within(_: Sphinx, _name: str, content: list[str]) -> None:
    """The list of changes is not in this folder, but a page of the site."""
    content[0] = content[0].replace("](../CHANGELOG.md", "](changes.md")


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("source-read", _within)
