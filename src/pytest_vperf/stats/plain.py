"""Words and checks that the judges share."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def check_error(name: str, value: float) -> float:
    """An error rate, as it is.

    Raises:
        ValueError: it is not between 0 and 0.5.
    """
    if not 0 < value < 0.5:
        raise ValueError(f"{name} is {value!r}, not between 0 and 0.5")
    return value


def count(number: int, noun: str) -> str:
    """``1 sample``, ``5 samples``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def suspicion(values: Sequence[float], noun: str) -> str:
    """A warning, for a reason, where all values are the same: real ones vary."""
    if len(values) < 2 or min(values) != max(values):
        return ""
    return f"; all {count(len(values), noun)} are identical, which a real measurement hardly is"
