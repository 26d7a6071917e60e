"""Tables on a terminal, and the same tables readable in a pipe."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

#: The least width of a table that no terminal limits: reasons and commands then mostly fit on a line.
PLAIN_WIDTH = 120


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str | Text]]) -> None:
    """Print a table to standard output. Cells are wrapped, never cut, and are not read as markup."""
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else Text(cell) for cell in row))
    console = Console(file=sys.stdout, highlight=False)
    if not console.is_terminal:
        console.width = max(PLAIN_WIDTH, console.width)
    with console.capture() as capture:
        console.print(table)
    # rich fills each line up to the width of the table, which a pipe, a log or a paste has no use for.
    sys.stdout.writelines(f"{line.rstrip()}\n" for line in capture.get().splitlines())


@contextmanager
def waiting_line(text: str) -> Iterator[None]:
    """Show a line on the terminal, on standard error, while the block runs; nothing where there is none."""
    if not sys.stderr.isatty():
        yield
        return
    sys.stderr.write(text)
    sys.stderr.flush()
    try:
        yield
    finally:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()
