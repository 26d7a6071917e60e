"""Text that others wrote - errors, what tools and guests print, names in files - made fit for where it is shown.

The one place for it. Whatever goes to a terminal, to Markdown, to JUnit's XML or to JSON goes through one of these
functions, so that no text moves a cursor, changes colours, turns the direction of writing, ends a cell of a table, or
is more than a text. What is not printable (``str.isprintable``: control characters of C0 and C1, marks of
bidirectional writing, other invisible ones, lone halves of surrogate pairs, characters that Unicode has not assigned)
is shown as an escape such as ``\\x1b`` or ``\\u202e``: nothing is silently dropped.
"""

from __future__ import annotations

import json
import re
from typing import Any

#: Characters of a text that a table has room for; what is cut ends in "…".
LONGEST = 200

_SURROGATE = re.compile("[\ud800-\udfff]")


def lines(text: str) -> str:
    """A text of several lines, for a terminal or XML: ends of lines stay, and tabs become spaces."""
    if text.isprintable():
        return text
    ends = text.replace("\r\n", "\n").expandtabs()
    return "".join(c if c.isprintable() or c == "\n" else _escape(c) for c in ends)


def line(text: str) -> str:
    """A text on one line, for a terminal, a cell of a table, or an attribute of XML."""
    joined = " ".join(text.split())
    if joined.isprintable():
        return joined
    return "".join(c if c.isprintable() else _escape(c) for c in joined)


def short(text: str) -> str:
    """The same, and not endless: what is cut ends in "…"."""
    # Whole lines are not looked at where the beginning fills a cell: a character may become ten.
    shown = line(text[: 50 * LONGEST])
    return shown if len(shown) <= LONGEST else shown[: LONGEST - 1] + "…"


def markdown(text: str) -> str:
    """A text on one line that shows in Markdown as it is written: no markup, no HTML, no end of a cell."""
    text = line(text)
    text = re.sub(r"([\\`*_{}<>|&~$#]|\](?=[(\[:])|!(?=\[))", r"\\\1", text)
    # A name with _ inside it is no markup, and there are many; an address or a name of a user would become a link.
    text = re.sub(r"(?<=\w)\\_(?=\w)", "_", text)
    return re.sub(r"@(?=\w)|://|\bwww(?=\.)", lambda found: f"<span>{found[0]}</span>", text)


def markdown_code(text: str) -> str:
    """A name in Markdown's fixed font. In a table ``|`` ends a cell even there, unless it is escaped."""
    text = line(text)
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * (longest + 1)
    space = " " if longest else ""
    return f"{fence}{space}{text}{space}{fence}".replace("|", r"\|")


def to_json(value: Any, *, indent: int | None = None) -> str:
    """A value as JSON that may be printed: what is not printable is escaped, and so reads back as it was.

    Args:
        value: what `json.dumps` takes.
        indent: as there; without it the text is one line.

    Raises:
        ValueError: a number is NaN or infinite, or something contains itself.
        TypeError: something is no value of JSON.
        RecursionError: it is nested too deeply.
    """
    return printable_json(json.dumps(value, allow_nan=False, ensure_ascii=False, indent=indent))


def printable_json(text: str) -> str:
    """The same JSON with what is not printable escaped; outside its texts JSON has nothing of that kind."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else _json_escape(c) for c in text)


def without_surrogates(text: str) -> str:
    """A text that UTF-8 has words for: of a lone half of a surrogate pair, its escape."""
    if text.isascii():
        return text
    return _SURROGATE.sub(lambda found: _escape(found[0]), text)


def _escape(character: str) -> str:
    # A space other than the usual one (no-break, ideographic) is a space to a reader; \n has been dealt with.
    if character.isspace() and character not in "\v\f\r\x1c\x1d\x1e\x1f\x85\u2028\u2029":
        return " "
    return character.encode("unicode_escape").decode("ascii")


def _json_escape(character: str) -> str:
    pair = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{pair[at]:02x}{pair[at + 1]:02x}" for at in range(0, len(pair), 2))
