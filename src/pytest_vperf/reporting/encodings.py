"""Our signs for a terminal, or a log, whose character set does not have them: ASCII, or that of an old locale.

A line keeps its length where that is possible, so that tables stay tables.
"""

from __future__ import annotations

import re
from contextlib import suppress

#: What stands for a sign. A space after it, or around it, gives way to the second character.
_SIGNS = (
    ("≤ ?", "<="),
    ("≥ ?", ">="),
    ("≠ ?", "!="),
    ("± ?", "+-"),
    ("→ ?", "->"),
    (" ?… ?", lambda found: "." * max(2, len(found[0]))),
    ("[µμ]", "u"),
    ("[·]", "."),
    ("•", "o"),
    ("●", "O"),
    ("[─\u2013]", "-"),
    ("┊", "!"),
    ("[├┤]", "|"),
    ("²", "2"),
    ("✓", "+"),
    ("✗", "x"),
)


def encodable(text: str, encoding: str | None) -> str:
    """The text as the encoding has it: our signs replaced by ASCII, all else that it does not have by escapes.

    Args:
        text: of any characters.
        encoding: of a stream, as Python names it; ``None`` has all of Unicode.
    """
    if text.isascii() or encoding is None:
        return text
    with suppress(UnicodeEncodeError):
        text.encode(encoding)
        return text
    for sign, plain in _SIGNS:
        text = re.sub(sign, plain, text)
    return text.encode(encoding, "backslashreplace").decode(encoding)
