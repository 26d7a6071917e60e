"""The judge's settings: their names and defaults, and how each is parsed from a text or a number.

Threshold files, markers, options and ini settings share these parsers, and each adds where its value comes from. Pint
is imported only for a value with a unit, since it is slow to import.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_vperf.thresholds.text_file import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MIN_CHANCE, MAX_CHANCE = 1e-6, 0.2
#: Fewer than four pairs hardly ever decide; a million take hours even with the shortest samples.
MIN_PAIRS, MAX_PAIRS = 4, 1_000_000


@dataclass(frozen=True)
class Setting:
    """A value and its origin.

    Attributes:
        value: the tolerance as a ratio (0.02 is 2 %), a chance, a count, or seconds.
        origin: ``default``, ``ini``, an option such as ``--claims-alpha``, ``marker``, or a file and line.
    """

    value: float
    origin: str


def read_tolerance(value: object) -> float:
    """Read ``"2 %"``, ``"0.02"`` or ``0.02``.

    Raises:
        ValueError: it is not a percentage or ratio, or not between 0 and 100 %.
    """
    number = _share(value, "a percentage or ratio such as '2 %' or 0.02")
    if not 0 < number < 1:
        raise ValueError(
            f"a tolerance is more than 0 % and less than 100 %, such as '2 %' or 0.02, not {shown(value)}"
        )
    return number


def read_chance(value: object) -> float:
    """Read the chance of a wrong verdict, such as ``0.01`` or ``"1 %"``.

    Raises:
        ValueError: it is not a number, or not between `MIN_CHANCE` and `MAX_CHANCE`.
    """
    number = _share(value, "a chance such as 0.01")
    if not MIN_CHANCE <= number <= MAX_CHANCE:
        raise ValueError(
            f"the chance of a wrong verdict is from {MIN_CHANCE:f} to {MAX_CHANCE:g}, "
            f"such as 0.01, not {shown(value)}"
        )
    return number


def read_pairs(value: object) -> int:
    """Read a number of pairs.

    Raises:
        ValueError: it is not a whole number, or not between `MIN_PAIRS` and `MAX_PAIRS`.
    """
    text = value.strip() if isinstance(value, str) else value
    if isinstance(text, str) and re.fullmatch(r"[0-9]{1,18}", text):
        text = int(text)
    if isinstance(text, bool) or not isinstance(text, int) or not MIN_PAIRS <= text <= MAX_PAIRS:
        raise ValueError(
            f"must be a whole number from {MIN_PAIRS} to {MAX_PAIRS}, not {shown(value)}"
        )
    return text


def read_seconds(value: object) -> float:
    """Read a time such as ``"60 s"`` or ``"2 min"``.

    Raises:
        ValueError: it is not a time with a unit, or not more than 0.
    """
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        raise ValueError(f"{value} needs a unit, e.g. {value} s")
    wanted = "a time such as '60 s' or '2 min'"
    if not isinstance(value, str):
        raise ValueError(f"{shown(value)} is not {wanted}")
    from pytest_vperf.quantity import Quantity, QuantityError

    try:
        seconds = Quantity.parse(value).to("s").value
    except QuantityError as error:
        raise ValueError(f"{shown(value)} is not {wanted}: {error}") from None
    if seconds <= 0:
        raise ValueError(f"{shown(value)} is not more than 0")
    return seconds


def _share(value: object, wanted: str) -> float:
    """The value as a ratio: a plain number as it is, a percentage divided by 100."""
    number = math.nan
    if isinstance(value, str):
        from pytest_vperf.quantity import Quantity, QuantityError

        try:
            quantity = Quantity.parse(value)
        except QuantityError as error:
            raise ValueError(f"{shown(value)} is not {wanted}: {error}") from None
        if quantity.unit in ("", "%"):
            number = quantity.value / 100 if quantity.unit else quantity.value
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        number = value
    if not math.isfinite(number):
        raise ValueError(f"{shown(value)} is not {wanted}")
    return number


#: The origin of a budget that is the time of the whole run, and of one that is a claim's part of it.
TIME_OF_RUN = "--claims-time"
PART_OF_TIME = "its part of --claims-time"

#: The default of every setting, by the key used everywhere.
DEFAULTS: Mapping[str, float] = {
    "tolerance": 0.02,
    "alpha": 0.01,
    "beta": 0.01,
    "pairs": 512,
    "budget": 60.0,
}

_READERS: Mapping[str, Callable[[object], float]] = {
    "tolerance": read_tolerance,
    "alpha": read_chance,
    "beta": read_chance,
    "pairs": read_pairs,
    "budget": read_seconds,
}


def read(key: str, value: object) -> float:
    """Read the value of a setting.

    Args:
        key: one of `DEFAULTS`.
        value: a text or a number.

    Raises:
        ValueError: the value is invalid or out of range; the message says what it must be.
    """
    return _READERS[key](value)
