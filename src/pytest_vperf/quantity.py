"""A number with a unit: the form of every measurement and threshold.

pint does the unit arithmetic. This module adds strictness: a quantity is finite, its text has one number and at most
one unit, and nothing is ever converted between dimensions (design rules 4 and 6).
"""

from __future__ import annotations

import functools
import math
import numbers
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from pytest_vperf.unit_slips import slip

if TYPE_CHECKING:
    from collections.abc import Mapping

# One number, optional space, one unit expression. Deliberately narrow: pint would evaluate arithmetic
# ("9**9**9 ms"), and a threshold file may come from a stranger.
_TEXT = re.compile(
    r"""\s*(?P<value>[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?)
        \s*(?P<unit>%|[A-Za-zµμΩ°][A-Za-zµμΩ°_]{0,30}(?:\s?[/*]\s?[A-Za-zµμ][A-Za-zµμ_]{0,30}){0,2})?\s*""",
    re.VERBOSE,
)


class QuantityError(ValueError):
    """A text is not a quantity, a unit is unknown, a number is not finite, or a sample cannot be."""


class DimensionError(QuantityError):
    """Two quantities of different dimensions were compared or converted."""


@functools.lru_cache(maxsize=1)
def _registry() -> Any:
    # Imported on first use: importing pint takes longer than the plugin may add to a run without claims.
    import pint

    registry: Any = pint.UnitRegistry(cache_folder=None)
    registry.define("packet = [packet] = pkt = packets")
    registry.define("operation = [operation] = op = operations")
    # The units of the classic benchmarks: a Dhrystone MIPS is the rate of a VAX 11/780, 1757 Dhrystones a second
    # (Weicker, Dhrystone 2.1; EEMBC's white paper on it); Whetstone counts floating-point operations or its own
    # instructions, and neither is comparable with the other.
    registry.define("dhrystone = [dhrystone] = dhrystones")
    registry.define("DMIPS = 1757 dhrystone / second")
    registry.define("FLOP = [floating_point_operation]")
    registry.define("FLOPS = FLOP / second")
    registry.define("whetstone = [whetstone] = whetstones")
    registry.define("WIPS = whetstone / second")
    return registry


@functools.lru_cache(maxsize=512)
def _unit(unit: str) -> Any:
    if unit in ("", "1"):
        return _registry().Unit("dimensionless")
    if unit == "%":
        return _registry().Unit("percent")
    if _TEXT.fullmatch(f"1 {unit}") is None:
        raise QuantityError(f"{unit!r} is not a unit")
    registry = _registry()
    if known := slip(unit, registry):
        raise QuantityError(f"{unit!r} is not a unit: {known}")
    try:
        return registry.Unit(unit)
    except (
        Exception
    ) as error:  # pint raises many kinds: UndefinedUnitError, tokenizer errors, TypeError
        raise QuantityError(f"{unit!r} is not a unit") from error


#: The times that are usual; to read the definitions of all units takes 0.3 s.
_TIMES = frozenset({"ns", "us", "µs", "ms", "s"})


@functools.lru_cache(maxsize=512)
def dimension(unit: str) -> str:
    """The physical dimension of a unit: ``[time]`` for ``ms``, ``[information]`` for ``MiB``.

    Raises:
        QuantityError: the unit is unknown.
    """
    if unit in _TIMES:
        return "[time]"
    known = _unit(unit)
    # For pint a bit has no dimension, so that "3 GiB" would be a percentage and "1 MB/s" a frequency.
    bits = _exponent_of_bit(known)
    if not bits:
        return str(known.dimensionality)
    import pint

    return str(pint.util.UnitsContainer({**known.dimensionality, "[information]": bits}))


def is_speed(unit: str) -> bool:
    """Whether a unit is one of times or rates: what is worse is slower. A text that is no unit, such as
    one of a later version's record, is none of them.
    """
    try:
        measured = dimension(unit)
    except QuantityError:
        return False
    return measured == "[time]" or measured.endswith("/ [time]")


def usual_direction(unit: str) -> Literal["lower", "higher", ""]:
    """Which direction is better for a unit, where the source of a figure does not say; empty where either may be."""
    measured = dimension(unit)
    if measured == "[time]":
        return "lower"
    return "higher" if measured.endswith("/ [time]") else ""


def _exponent_of_bit(unit: object) -> float:
    roots: Mapping[str, float] = dict(_registry().get_root_units(unit)[1]._units)
    return roots.get("bit", 0)


@functools.lru_cache(maxsize=512)
def conversion_factor(unit: str, to: str) -> float:
    """The number of ``to`` in one ``unit`` (``conversion_factor("s", "ms") == 1000.0``).

    Raises:
        QuantityError: a unit is unknown, or has an offset (degC) and so no factor.
        DimensionError: the two units measure different things.
    """
    if unit == to:
        return 1.0
    import pint

    source, goal = _unit(unit), _unit(to)
    if dimension(unit) != dimension(to):
        raise DimensionError(
            f"{unit or '1'} ({dimension(unit)}) cannot be compared with "
            f"{to or '1'} ({dimension(to)})"
        )
    try:
        quantity = _registry().Quantity
        # A scale with an offset (degC) or a logarithm (dB) does not map 0 to 0, and has no factor.
        if quantity(0.0, source).to(goal).magnitude == 0:
            return float(quantity(1.0, source).to(goal).magnitude)
    except (pint.PintError, ArithmeticError) as error:
        raise QuantityError(f"{unit!r} cannot be scaled to {to!r}") from error
    raise QuantityError(f"{unit!r} cannot be scaled to {to!r}: their zeros differ")


@dataclass(frozen=True)
class Series:
    """Figures measured along with a sample; recorded beside it, but not judged.

    Attributes:
        values: one, e.g. a percentile of the sample's own run; or several, e.g. one for each target.
        unit: of all of them; ``""`` is a plain number.

    Raises:
        QuantityError: there are no values, or one is NaN or infinite, or is not a number.
    """

    values: tuple[float, ...]
    unit: str = ""

    def __post_init__(self) -> None:
        values = tuple(_plain(number) for number in self.values)
        if not values:
            raise QuantityError("a series has at least one value")
        object.__setattr__(self, "values", values)


@dataclass(frozen=True)
class Quantity:
    """A finite number with a unit.

    Attributes:
        value: the number, finite.
        unit: a unit known to pint, spelled as given (``ms``, ``GiB``, ``packet/s``, ``%``);
            ``""`` is a plain number.
        breakdown: named addends of the value in its unit, e.g. the phases of a start; may be empty.
        direction: ``lower`` or ``higher`` is better; empty if the source of the value does not know. A claim whose
            criterion has the other direction is refused.
        extra: by name, other figures measured along with it, in units of their own.
        signed: whether it may be 0 or less, as a difference, a share or a number of losses may; a sample that is not
            signed and 0 or less is an error.
        discrete: whether equal samples are possible, as of a size in whole pages, a number of machines or a figure
            that its tool rounds; otherwise a claim whose samples are all equal is inconclusive.

    Raises:
        QuantityError: the value or a part is NaN or infinite, or is not a number.
    """

    value: float
    unit: str = ""
    breakdown: tuple[tuple[str, float], ...] = ()
    direction: Literal["lower", "higher", ""] = ""
    extra: tuple[tuple[str, Series], ...] = ()
    signed: bool = False
    discrete: bool = False

    def __post_init__(self) -> None:
        parts = tuple((name, _plain(part)) for name, part in self.breakdown)
        object.__setattr__(self, "value", _plain(self.value))
        object.__setattr__(self, "breakdown", parts)

    @classmethod
    def parse(cls, text: str) -> Quantity:
        """Read ``"400 ms"``, ``"1.5GiB"``, ``"2 %"`` or ``"0.75"``.

        Raises:
            QuantityError: the text is not one number and at most one known unit.
        """
        match = _TEXT.fullmatch(text) if len(text) <= 120 else None
        if match is None:
            raise QuantityError(f"{text[:60]!r} is not a number with a unit, such as '400 ms'")
        unit = "".join((match["unit"] or "").split())
        _unit(unit)
        return cls(float(match["value"]), unit)

    def to(self, unit: str) -> Quantity:
        """The same quantity in another unit of the same dimension.

        Raises:
            DimensionError: ``unit`` measures something else.
        """
        factor = conversion_factor(self.unit, unit)
        return replace(
            self,
            value=self.value * factor,
            unit=unit,
            breakdown=tuple((name, part * factor) for name, part in self.breakdown),
        )

    def with_extra(self, **series: Series | Quantity | None) -> Quantity:
        """The same quantity with more extra figures; ``None``, a figure that was not measured, is left out."""
        added = tuple(
            (name, Series((each.value,), each.unit) if isinstance(each, Quantity) else each)
            for name, each in series.items()
            if each is not None
        )
        return replace(self, extra=(*self.extra, *added))

    @property
    def named_breakdown(self) -> Mapping[str, float]:
        """The parts as a mapping, in their order, in this quantity's unit."""
        return dict(self.breakdown)

    def __str__(self) -> str:
        return f"{format_number(self.value)} {self.unit}".rstrip()


def _plain(number: object) -> float:
    """A finite number as an int or a float, which JSON can represent: numpy's are neither."""
    if isinstance(number, bool) or not isinstance(number, numbers.Real):
        raise QuantityError(f"{number!r} is not a number")
    try:
        plain = int(number) if isinstance(number, numbers.Integral) else float(number)
        finite = math.isfinite(plain)
    except OverflowError:
        raise QuantityError("a number is beyond the range of a float") from None
    if not finite:
        raise QuantityError(f"{plain!r} is not a finite number")
    return plain


def format_number(value: float) -> str:
    """A number in readable form: four significant digits, an exponent only if very small or large."""
    if value == 0:
        return "0"
    magnitude = abs(value)
    if 1e-4 <= magnitude < 1e7:
        digits = max(0, 3 - math.floor(math.log10(magnitude)))
        text = f"{value:.{digits}f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    return f"{value:.3e}"


def amount(name: str, value: object, unit: str, *, such_as: str) -> float:
    """The value of a parameter given as text with a unit, such as ``"60 s"``.

    Args:
        name: the parameter's, for the message.
        value: the argument, of any type.
        unit: the unit of the result.
        such_as: an example, for the message.

    Raises:
        QuantityError: the value is not such a text, or has another dimension; names the parameter and the value.
    """
    try:
        if isinstance(value, str):
            return Quantity.parse(value).to(unit).value
    except QuantityError as error:
        raise type(error)(f"{name} is {value!r}, not one such as {such_as!r}: {error}") from None
    raise QuantityError(f"{name} is {value!r}, not a text such as {such_as!r}")
