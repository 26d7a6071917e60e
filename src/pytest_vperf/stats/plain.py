"""Words and checks that the judges share."""

from __future__ import annotations

import math
import numbers
import operator
from typing import TYPE_CHECKING, SupportsIndex, cast

if TYPE_CHECKING:
    from collections.abc import Sequence


def check_number(name: str, value: object) -> float:
    """A finite number, as a float.

    Raises:
        TypeError: it is no number; ``True`` is none, and neither is a text that looks like one.
        ValueError: it is not finite.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} is {value!r}, not a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(f"{name} is {value!r}, not a finite number")
    return number


def check_positive(name: str, value: object) -> float:
    """A positive number, as a float.

    Raises:
        TypeError: it is no number.
        ValueError: it is not finite, or not more than 0.
    """
    number = check_number(name, value)
    if number <= 0:
        raise ValueError(f"{name} is {value!r}, not a positive number")
    return number


def check_share(name: str, value: object, most: float = 1.0) -> float:
    """A number between 0 and ``most``, both excluded: an error rate, a quantile, a tolerance.

    Raises:
        TypeError: it is no number.
        ValueError: it is not between the two.
    """
    number = check_number(name, value)
    if not 0 < number < most:
        raise ValueError(f"{name} is {value!r}, not between 0 and {most:g}")
    return number


def check_error(name: str, value: object) -> float:
    """An error rate: more than 0, less than 0.5.

    Raises:
        TypeError: it is no number.
        ValueError: it is not between the two.
    """
    return check_share(name, value, 0.5)


def check_whole(name: str, value: object, least: int = 0) -> int:
    """A whole number of at least ``least``.

    Raises:
        TypeError: it is no whole number.
        ValueError: it is less.
    """
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} is {value!r}, not a whole number")
    number = operator.index(cast("SupportsIndex", value))
    if number < least:
        raise ValueError(f"{name} is {value!r}, less than {least}")
    return number


def check_edges(name: str, lower: object, upper: object) -> list[float]:
    """The edges of what is claimed, one or two rising; ``None`` is none.

    Raises:
        TypeError: one is no number.
        ValueError: one is not finite, there is none, or they do not rise.
    """
    article = "an" if name[0] in "aeiou" else "a"
    edges = [check_number(f"{article} {name}", each) for each in (lower, upper) if each is not None]
    if not edges or edges != sorted(set(edges)):
        raise ValueError(f"the {name}s are {lower!r} and {upper!r}: not one number, nor two rising")
    return edges


def check_side(side: str) -> None:
    """Refuse what is no side.

    Raises:
        ValueError: it is neither ``at_most`` nor ``at_least``.
    """
    if side not in ("at_most", "at_least"):
        raise ValueError(f"side is {side!r}, not 'at_most' or 'at_least'")


def count(number: int, noun: str) -> str:
    """``1 sample``, ``5 samples``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def suspicion(values: Sequence[float], noun: str) -> str:
    """A warning, for a reason, where all values are the same: real ones vary."""
    if len(values) < 2 or min(values) != max(values):
        return ""
    return f"; all {count(len(values), noun)} are identical, which a real measurement hardly is"
