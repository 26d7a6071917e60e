"""What the commands print: tables and lines, on a terminal or in a pipe, with control characters and markup made
harmless."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pytest_vperf import foreign_text
from pytest_vperf.reporting.encodings import encodable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rich.text import Text

#: More characters than any line of a pipe or a log has: there a row is one line.
_ENDLESS = 1 << 24


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str | Text]]) -> None:
    """Print a table to standard output. Cells are wrapped on a terminal, never cut, and are not read as markup.

    A cell that is a `Text` has its own style, and was already cleaned by `foreign_text`.
    """
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(
            *(cell if isinstance(cell, Text) else Text(foreign_text.lines(cell)) for cell in row)
        )
    console = Console(file=sys.stdout, highlight=False)
    if not console.is_terminal:
        console.width = _ENDLESS
    with console.capture() as capture:
        console.print(table)
    # rich pads each line to the width of the table; a pipe, a log or a paste is better without.
    lines = [f"{line.rstrip()}\n" for line in capture.get().splitlines()]
    sys.stdout.writelines(encodable(line, sys.stdout.encoding) for line in lines)


def tell(text: str = "") -> None:
    """Print one or more lines to standard output."""
    print(encodable(foreign_text.lines(text), sys.stdout.encoding))


def say(program: str, text: str) -> None:
    """Print one or more lines to standard error, after the program's name: ``vperf claims: …``."""
    shown = encodable(f"{program}: {foreign_text.lines(text)}", sys.stderr.encoding)
    print(shown, file=sys.stderr, flush=True)


@contextmanager
def waiting_line(text: str) -> Iterator[None]:
    """Show a line on standard error while the block runs, if that is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    sys.stderr.write(encodable(text, sys.stderr.encoding))
    sys.stderr.flush()
    try:
        yield
    finally:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()
