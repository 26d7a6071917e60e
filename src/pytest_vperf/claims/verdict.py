"""How a claim can end."""

from __future__ import annotations

from enum import Enum


class Verdict(str, Enum):
    """The five ends of a claim; the value is the word used in reports and files.

    Only `HOLDS` is a pass. `NOT_COMPARABLE` and `NOT_MEASURED` are never one (design rule 3).
    """

    HOLDS = "holds"
    REFUTED = "refuted"
    INCONCLUSIVE = "inconclusive"
    NOT_COMPARABLE = "not comparable"
    NOT_MEASURED = "not measured"

    def __str__(self) -> str:
        return self.value
