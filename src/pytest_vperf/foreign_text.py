"""Foreign text - errors, output of tools and guests, names in files - made safe to show.

All text for a terminal, Markdown, JUnit XML or JSON passes through one of these functions, so that it cannot move the
cursor, change colours, reverse the writing direction, end a table cell, or act as markup. Unprintable characters
(``str.isprintable``: C0 and C1 control characters, bidirectional marks, other invisible characters, lone surrogates,
unassigned code points) are shown as escapes such as ``\\x1b`` or ``\\u202e``: nothing is silently dropped.
"""

from __future__ import annotations

import json
import re
from typing import Any

#: The most characters of a text shown in a table; a longer one is cut and ends in "…".
LONGEST = 200

_SURROGATE = re.compile("[\ud800-\udfff]")


def lines(text: str) -> str:
    """A text of several lines, for a terminal or XML: line ends are kept, and tabs become spaces."""
    if text.isprintable():
        return text
    ends = text.replace("\r\n", "\n").expandtabs()
    return "".join(c if c.isprintable() or c == "\n" else _escape(c) for c in ends)


def line(text: str) -> str:
    """A text on one line, for a terminal, a table cell, or an XML attribute."""
    joined = " ".join(text.split())
    if joined.isprintable():
        return joined
    return "".join(c if c.isprintable() else _escape(c) for c in joined)


def short(text: str) -> str:
    """The same, cut to `LONGEST` characters with "…" at the end."""
    # Only the beginning is processed, since a foreign text may be huge; an escape has up to ten characters.
    shown = line(text[: 50 * LONGEST])
    return shown if len(shown) <= LONGEST else shown[: LONGEST - 1] + "…"


def markdown(text: str) -> str:
    """A text on one line that Markdown shows literally: no markup, no HTML, no end of a cell."""
    text = line(text)
    text = re.sub(r"([\\`*_{}<>|&~$#]|\](?=[(\[:])|!(?=\[))", r"\\\1", text)
    # An _ inside a word is no markup, and is common; an address or a user name would become a link.
    text = re.sub(r"(?<=\w)\\_(?=\w)", "_", text)
    return re.sub(r"@(?=\w)|://|\bwww(?=\.)", lambda found: f"<span>{found[0]}</span>", text)


def markdown_code(text: str, *, in_table: bool = True) -> str:
    """A name in Markdown's fixed font. In a table ``|`` ends a cell even there, unless it is escaped; elsewhere the
    escape would be shown."""
    text = line(text)
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * (longest + 1)
    space = " " if longest else ""
    code = f"{fence}{space}{text}{space}{fence}"
    return code.replace("|", r"\|") if in_table else code


def to_json(value: Any, *, indent: int | None = None) -> str:
    """A value as printable JSON: unprintable characters are escaped, so that it reads back unchanged.

    Args:
        value: anything `json.dumps` accepts.
        indent: as for `json.dumps`; without it the text is one line.

    Raises:
        ValueError: a number is NaN or infinite, or something contains itself.
        TypeError: something is not a JSON value.
        RecursionError: it is nested too deeply.
    """
    return printable_json(json.dumps(value, allow_nan=False, ensure_ascii=False, indent=indent))


def printable_json(text: str) -> str:
    """The same JSON with unprintable characters escaped; these occur only inside its strings."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else _json_escape(c) for c in text)


def without_surrogates(text: str) -> str:
    """A text that UTF-8 can encode: lone surrogates become escapes."""
    if text.isascii():
        return text
    return _SURROGATE.sub(lambda found: _escape(found[0]), text)


def _escape(character: str) -> str:
    # Other spaces (no-break, ideographic) look like a space to a reader; the callers handle \n.
    if character.isspace() and character not in "\v\f\r\x1c\x1d\x1e\x1f\x85\u2028\u2029":
        return " "
    return character.encode("unicode_escape").decode("ascii")


def _json_escape(character: str) -> str:
    pair = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{pair[at]:02x}{pair[at + 1]:02x}" for at in range(0, len(pair), 2))
