"""What is wrong with a threshold file, and where; one line each."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_vperf import foreign_text

if TYPE_CHECKING:
    from collections.abc import Iterable

#: A place in the data: the keys, and indices of lists, that lead there.
Path = tuple["str | int", ...]

_MOST = 50


class ThresholdError(Exception):
    """One or more threshold files are wrong; the text has one line per problem."""

    def __init__(self, lines: Iterable[str]) -> None:
        every = [foreign_text.lines(each) for each in lines]
        if len(every) > _MOST:
            every = [*every[:_MOST], f"… and {len(every) - _MOST} more problems"]
        super().__init__("\n".join(every))


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong.

    Attributes:
        path: the value it is about.
        message: what is wrong, without a final stop.
        at_key: the key is wrong rather than its value.
        position: line and column, where they are not those of the path.
    """

    path: Path
    message: str
    at_key: bool = False
    position: tuple[int, int] | None = None


def nearest(name: str, names: Iterable[str]) -> str:
    """``; did you mean 'NAME'?`` for the likeliest of the names; empty where none is like it."""
    found = difflib.get_close_matches(name, list(names), n=1, cutoff=0.6)
    return f"; did you mean {found[0]!r}?" if found else ""


def shown(value: object, most: int = 60) -> str:
    """A value as it is shown in a message: on one line, quoted, and cut where it is long."""
    text = repr(value)
    return text if len(text) <= most else text[:most] + "…"


def key_path(path: Path) -> str:
    """``claims.startup.pod.kvm.qboot.at_most``; keys that are no words are quoted."""
    return ".".join(
        str(part) if re.fullmatch(r"[\w.*-]{1,120}", str(part)) else shown(part) for part in path
    )
