"""The pictures of what was measured: a page of ``vperf report``, for links from pages that have none."""

from __future__ import annotations

import os
import stat
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    import argparse

#: A report has its claims' pictures inside; a larger file is none.
LARGEST = 64 << 20


class NoReport(Exception):
    """A file is no page of ``vperf report``, or cannot be read; the message names it."""


class Pictures:
    """The claims of a report, and where it shows each.

    Args:
        report: a page of ``vperf report`` or ``--claims-report``.
        page: the page that gets the links, or ``None``: standard output, for which they are seen from this folder.

    Raises:
        NoReport: it is none.
    """

    def __init__(self, report: Path, page: Path | None) -> None:
        try:
            found = report.stat()
            if not stat.S_ISREG(found.st_mode):  # a pipe would never end, nor a device
                raise NoReport(f"{report}: is not a file")
            if found.st_size > LARGEST:
                raise NoReport(f"{report}: is too large for a page of `vperf report`")
            text = report.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            what = getattr(error, "strerror", None) or "is no text"
            raise NoReport(f"{report}: {what}") from None
        rows = _Rows()
        rows.feed(text)
        if not rows.found:
            raise NoReport(f"{report}: has no claims; name a page of `vperf report`")
        self._place = quote(os.path.relpath(report, page.parent if page is not None else None))
        self._found = rows.found

    def link(self, text: str, name: str, figures: str) -> str:
        """A text, which is Markdown, as a link to a claim's pictures; by itself if they are of another measurement.

        Args:
            text: what is shown.
            name: the claim's.
            figures: what was measured, as reports show it.
        """
        anchor = self._found.get((name, figures))
        return f"[{text}]({self._place}#{quote(anchor)})" if anchor else text


def add_option(parser: argparse.ArgumentParser) -> None:
    """Add ``--pictures`` to a command that writes such a page."""
    parser.add_argument(
        "--pictures",
        type=Path,
        metavar="FILE",
        help="link each verdict to its pictures in FILE, a page of `vperf report`, where they are of the same "
        "measurement; with --markdown",
    )


def asked(arguments: argparse.Namespace) -> Pictures | None:
    """The pictures that a command was given; ``None`` without any.

    Raises:
        NoReport: its file is none.
    """
    if arguments.pictures is None:
        return None
    if not arguments.markdown:
        arguments.fail("--pictures goes with --markdown")
    return Pictures(arguments.pictures, arguments.output)


class _Rows(HTMLParser):
    """Collects the anchors of a report's table, by name and figures."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[tuple[str, str], str] = {}
        self._anchor = self._cell = ""
        self._texts: dict[str, str] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """A row of a claim, its name, or its figures begin."""
        given = dict(attrs)
        if tag == "tr":
            self._anchor = given.get("id") or "" if given.get("class") == "claim" else ""
            self._texts = {}
        elif tag == "a" and given.get("class") == "name":
            self._cell = "name"
        elif tag == "td":
            self._cell = "figures" if given.get("data-label") == "measured" else ""

    def handle_endtag(self, tag: str) -> None:
        """A cell or a row ends."""
        if tag in ("a", "td"):
            self._cell = ""
        elif tag == "tr" and self._anchor:
            key = self._texts.get("name", ""), self._texts.get("figures", "")
            self.found.setdefault(key, self._anchor)
            self._anchor = ""

    def handle_data(self, data: str) -> None:
        """A part of a cell's text."""
        if self._anchor and self._cell:
            self._texts[self._cell] = self._texts.get(self._cell, "") + data
