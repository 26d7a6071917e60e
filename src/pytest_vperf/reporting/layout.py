"""How tables and remarks fit the lines of a terminal.

Names, headings and sentences are wrapped; a figure never is. Columns for which there is no room follow in a table of
their own. A pipe has lines of any length: there nothing is wrapped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich import box
from rich.cells import cell_len
from rich.console import Group
from rich.table import Table
from rich.text import Text

from pytest_vperf import foreign_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.table import Column


#: The characters between two columns.
GAP = 3
#: A column of names or sentences has at least so many characters.
LEAST = 16
#: A later line of a name is indented, or it would look like another row.
LATER = "  "
#: A longer head of a remark does not decide where the texts of the others begin.
_HEAD = 48

#: The places where a name may be broken, the best first: after these characters, or before those.
_BREAKS = ((" ./,])", "[("), ("-_:=@", ""))


class PlainTable(Table):
    """A table without frames: its rows can be searched, cut and read in a log.

    A column is wrapped where the lines are too short, unless it is made ``no_wrap``, as columns of figures are.

    Attributes:
        keys: how many of the first columns say what a row is about.
        note: a sentence below the table.
    """

    def __init__(self, *, keys: int = 1) -> None:
        super().__init__(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
        self.keys, self.note = keys, ""


def fitted(table: PlainTable, width: int | None) -> Iterable[Table | Group]:
    """The table, or as many as it takes for lines of ``width`` characters, and its note; ``None`` is any length."""
    if width is None or row_length(map(natural, table.columns)) <= width:
        yield table
    else:
        keys = table.columns[: table.keys]
        pieces: list[list[Column]] = [[]]
        for column in table.columns[len(keys) :]:
            if pieces[-1] and row_length(map(_least, (*keys, *pieces[-1], column))) > width:
                pieces.append([])
            pieces[-1].append(column)
        for number, piece in enumerate(pieces):
            if number:
                yield Group("")
            yield _narrowed([*keys, *piece], width)
    if table.note:
        yield as_group(wrapped(foreign_text.line(table.note), width, indent=len(LATER)))


def row_length(widths: Iterable[int]) -> int:
    """The length of a row with columns of these widths."""
    found = list(widths)
    return sum(found) + GAP * (len(found) - 1)


def _narrowed(columns: Sequence[Column], width: int) -> Table:
    """A table of columns whose headings, names and sentences are wrapped until its rows fit."""
    widths = [natural(column) for column in columns]
    least = [_least(column) for column in columns]
    # Headings first, which costs a line; then names and sentences, of which the longest is the first to give way.
    for figures in (True, False):
        while (excess := row_length(widths) - width) > 0:
            room = [
                (widths[k], k)
                for k, column in enumerate(columns)
                if column.no_wrap is figures and widths[k] > least[k]
            ]
            if not room:
                break
            _, at = max(room)
            widths[at] -= min(excess, widths[at] - least[at], 4)
    table = PlainTable()
    cells = []
    for column, its in zip(columns, widths, strict=True):
        head = "\n".join(wrapped(_plain(column.header), its))
        table.add_column(Text(head), justify=column.justify, no_wrap=column.no_wrap)
        cells.append([_fit(each, its, column) for each in column.cells])
    above = ""
    for row in zip(*cells, strict=True):
        name = _plain(row[0])
        # The lines of a long name are not repeated for each of its rows.
        table.add_row("" if "\n" in name and name == above else row[0], *row[1:])
        above = name
    return table


def _fit(content: Any, width: int, column: Column) -> Any:
    if column.no_wrap or cell_len(_plain(content)) <= width:
        return content
    style = content.style if isinstance(content, Text) else ""
    return Text("\n".join(broken(_plain(content), width)), style=style)


def _plain(content: Any) -> str:
    return (
        content.plain if isinstance(content, Text) else content if isinstance(content, str) else ""
    )


def cell_length(content: Any) -> int:
    """The characters that a cell takes in a line."""
    if isinstance(content, (str, Text)):
        return cell_len(_plain(content))
    return int(getattr(content, "width", 0) or 0)  # a bar


def natural(column: Column) -> int:
    """The width of a column in which nothing is wrapped."""
    return max((cell_length(column.header), *map(cell_length, column.cells)))


def _least(column: Column) -> int:
    """The least width of a column: of its figures, or of a name's lines, and of each word of its heading."""
    words = max(map(cell_len, _plain(column.header).split()), default=0)
    cells = max(map(cell_length, column.cells), default=0)
    return max(words, cells if column.no_wrap else min(cells, LEAST))


def broken(name: str, width: int) -> list[str]:
    """A name as lines of at most ``width`` characters, broken at its dots, slashes and brackets where possible."""
    lines: list[str] = []
    rest, before = name, ""
    while cell_len(rest) > max(1, width - len(before)):
        end = _end(rest, max(1, width - len(before)))
        lines.append(before + rest[:end].rstrip())
        rest = rest[end:].lstrip()
        before = LATER if width > 2 * len(LATER) else ""
    return [*lines, before + rest] if rest or not lines else lines


def _end(text: str, width: int) -> int:
    """How many characters of a text are a line of this width."""
    end = taken = 0
    while end < len(text) and (taken := taken + cell_len(text[end])) <= width:
        end += 1
    end = max(end, 1)
    for after, ahead in _BREAKS:
        places = [
            at
            for at in range(1, end + 1)
            if text[at - 1] in after or text[at : at + 1] in tuple(ahead)
        ]
        # A break near the beginning would waste the line.
        if places and places[-1] > end // 3:
            return places[-1]
    return end


def wrapped(text: str, width: int | None, *, first: str = "", indent: int = 0) -> list[str]:
    """A sentence as lines of ``width`` characters, the first after ``first``, the later ones indented.

    It is broken between words, and in a word that is longer than a line.
    """
    if width is None:
        return [first + text]
    if indent > width // 2:
        indent = len(LATER)
    lines: list[str] = []
    line, taken, begun = first, cell_len(first), False
    for word in text.split(" "):
        size = cell_len(word)
        if taken + begun + size > width and (begun or taken > indent):
            lines.append(line.rstrip())
            line, taken, begun = " " * indent, indent, False
        while taken + begun + size > width and word:
            end = _end(word, max(1, width - taken))
            if end >= len(word):
                break
            lines.append(line + word[:end])
            line, taken, word = " " * indent, indent, word[end:]
            size = cell_len(word)
        line, taken, begun = f"{line}{' ' * begun}{word}", taken + begun + size, True
    return [*lines, line]


def remark_lines(remarks: Sequence[tuple[str, str]], width: int | None) -> Group | None:
    """Remarks, each after its head; the later lines of a text are indented. ``None`` if there are none."""
    if not remarks:
        return None
    clean = [(foreign_text.line(head), foreign_text.line(text)) for head, text in remarks]
    most = _HEAD if width is None else min(_HEAD, 2 * width // 5)
    column = max((cell_len(head) for head, _ in clean if cell_len(head) <= most), default=0) + 2
    lines: list[str] = []
    for head, text in clean:
        if (size := cell_len(head)) <= most:
            lines += wrapped(text, width, first=f"{head}{' ' * (column - size)}", indent=column)
        else:
            lines += wrapped(f"{head}  {text}", width, indent=2 * len(LATER))
    return as_group(lines)


def as_group(lines: Iterable[str]) -> Group:
    """Lines that are printed as they are; they were cleaned already."""
    return Group(*map(Text, lines))
