"""A number with a unit: what every measurement is, and what every threshold is written in.

The arithmetic of units is pint's. What is added here is strictness: a quantity is finite, its text has one
number and one unit, and nothing is ever converted between dimensions (design rules 4 and 6).
"""

from __future__ import annotations

import functools
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

# One number, optional space, one unit expression. Deliberately narrow: pint would evaluate arithmetic
# ("9**9**9 ms"), and a threshold file may come from a stranger.
_TEXT = re.compile(
    r"""\s*(?P<value>[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?)
        \s*(?P<unit>%|[A-Za-zµμΩ°][A-Za-zµμΩ°_]{0,30}(?:\s?[/*]\s?[A-Za-zµμ][A-Za-zµμ_]{0,30}){0,2})?\s*""",
    re.VERBOSE,
)


class QuantityError(ValueError):
    """A text is not a quantity, or a unit is unknown, or a number is not finite."""


class DimensionError(QuantityError):
    """Two quantities of different dimensions were compared or converted."""


@functools.lru_cache(maxsize=1)
def _registry() -> Any:
    # Imported on first use: pint takes longer to import than all of a claimless test run may cost.
    import pint

    registry: Any = pint.UnitRegistry(cache_folder=None)
    registry.define("packet = [packet] = pkt = packets")
    registry.define("operation = [operation] = op = operations")
    return registry


@functools.lru_cache(maxsize=512)
def _unit(unit: str) -> Any:
    if unit in ("", "1"):
        return _registry().Unit("dimensionless")
    if unit == "%":
        return _registry().Unit("percent")
    if _TEXT.fullmatch(f"1 {unit}") is None:
        raise QuantityError(f"{unit!r} is not a unit")
    try:
        return _registry().Unit(unit)
    except Exception as error:  # pint raises many kinds: UndefinedUnitError, tokenizer errors, TypeError
        raise QuantityError(f"{unit!r} is not a unit") from error


def dimension(unit: str) -> str:
    """The physical dimension of a unit, e.g. ``[time]`` for ``ms``.

    Raises:
        QuantityError: the unit is unknown.
    """
    return str(_unit(unit).dimensionality)


def conversion_factor(unit: str, to: str) -> float:
    """How many ``to`` are one ``unit`` (``conversion_factor("s", "ms") == 1000.0``).

    Raises:
        QuantityError: a unit is unknown, or has an offset (a temperature), so that no factor exists.
        DimensionError: the two units measure different things.
    """
    if unit == to:
        return 1.0
    import pint

    source, goal = _unit(unit), _unit(to)
    if source.dimensionality != goal.dimensionality:
        raise DimensionError(
            f"{unit or '1'} ({dimension(unit)}) cannot be compared with {to or '1'} ({dimension(to)})"
        )
    try:
        return float(_registry().Quantity(1.0, source).to(goal).magnitude)
    except pint.PintError as error:
        raise QuantityError(f"{unit!r} cannot be scaled to {to!r}") from error


@dataclass(frozen=True)
class Quantity:
    """A finite number with a unit.

    Attributes:
        value: the number, finite.
        unit: a unit known to pint, written as it was given (``ms``, ``GiB``, ``packet/s``, ``%``); ``""`` is a
            plain number.
        parts: named addends of the value in the same unit, e.g. the phases of a start; may be empty.

    Raises:
        QuantityError: the value is NaN or infinite, or is not a number.
    """

    value: float
    unit: str = ""
    parts: tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        if isinstance(self.value, bool) or not isinstance(self.value, (int, float)):
            raise QuantityError(f"{self.value!r} is not a number")
        if not math.isfinite(self.value):
            raise QuantityError(f"{self.value!r} is not a finite number")

    @classmethod
    def parse(cls, text: str) -> Quantity:
        """Read ``"400 ms"``, ``"1.5GiB"``, ``"2 %"`` or ``"0.75"``.

        Raises:
            QuantityError: the text is not one number and at most one known unit.
        """
        match = _TEXT.fullmatch(text) if len(text) <= 120 else None
        if match is None:
            raise QuantityError(f"{text[:60]!r} is not a number with a unit, such as '400 ms'")
        unit = (match["unit"] or "").replace(" ", "")
        _unit(unit)
        return cls(float(match["value"]), unit)

    def to(self, unit: str) -> Quantity:
        """The same quantity in another unit of the same dimension.

        Raises:
            DimensionError: ``unit`` measures something else.
        """
        factor = conversion_factor(self.unit, unit)
        return Quantity(
            self.value * factor, unit, tuple((name, part * factor) for name, part in self.parts)
        )

    @property
    def named_parts(self) -> Mapping[str, float]:
        """The parts as a mapping, in their order, in this quantity's unit."""
        return dict(self.parts)

    def __str__(self) -> str:
        return f"{format_number(self.value)} {self.unit}".rstrip()


def format_number(value: float) -> str:
    """A number as people read it: four significant digits, no exponent for ordinary sizes."""
    if value == 0:
        return "0"
    magnitude = abs(value)
    if 1e-4 <= magnitude < 1e7:
        digits = max(0, 3 - math.floor(math.log10(magnitude)))
        text = f"{value:.{digits}f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    return f"{value:.3e}"
