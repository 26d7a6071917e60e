"""The scalar values of a threshold file, each with the check that parses it and the equivalent JSON Schema.

A check raises `PydanticCustomError`; its message is shown after the file, line and key path.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

from pydantic import PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from pytest_vperf.quantity import Quantity, QuantityError, dimension
from pytest_vperf.thresholds.criterion import STATISTIC, Statistic
from pytest_vperf.thresholds.text_file import nearest, shown

#: Units commonly used in thresholds, for "did you mean".
USUAL_UNITS = (
    *("ns", "us", "ms", "s", "min", "h", "B", "kB", "MB", "GB", "KiB", "MiB", "GiB", "TiB", "bit"),
    *("kB/s", "MB/s", "GB/s", "KiB/s", "MiB/s", "GiB/s", "kbit/s", "Mbit/s", "Gbit/s"),
    *("%", "count", "Hz", "packet/s", "operation/s"),
)

_CLAIM = re.compile(r"[a-z][a-z0-9_-]*(?:\.(?:\*|[a-z0-9][a-z0-9_-]*))+")
_PROFILE = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
_FIGURE = re.compile(r"[a-z][a-z0-9_.-]{0,119}")
#: The beginning of a JSON Schema pattern: a number.
NUMBER = r"^\s*[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?"
NUMBER_AND_UNIT = NUMBER + r"\s*[^\s0-9.].*$"


@dataclass(frozen=True)
class Written:
    """A quantity with its text.

    Attributes:
        text: exactly as in the file.
        quantity: the parsed value.
    """

    text: str
    quantity: Quantity


def wrong(message: str) -> PydanticCustomError:
    """An error with this message, passed as an argument since pydantic treats the text itself as a template."""
    return PydanticCustomError("threshold", "{message}", {"message": message})


def is_number(value: object) -> bool:
    """Whether a value is a number; ``bool`` is excluded, although Python counts it as one."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _text(value: object) -> str:
    if is_number(value):
        raise wrong(f'must be a text: put it in quotes, "{value}"')
    if not isinstance(value, str):
        raise wrong(f"must be a text, not {kind(value)}")
    text = " ".join(value.split())
    if not text:
        raise wrong("must not be empty")
    return text


def kind(value: object) -> str:
    """What a value is, in the words of YAML."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    return "a number" if is_number(value) else "a text"


def parse_written(value: object, *, example: str = "400 ms") -> Written:
    """Read a quantity with a unit.

    Raises:
        PydanticCustomError: it is not one; the message says why.
    """
    if is_number(value):
        raise wrong(f"{value} needs a unit, e.g. {example}")
    text = _text(value)
    try:
        quantity = Quantity.parse(text)
    except QuantityError as error:
        raise wrong(_about_unit(text) or str(error)) from None
    if not quantity.unit:
        raise wrong(f"{text} needs a unit, e.g. {example}")
    return Written(text, quantity)


def _about_unit(text: str) -> str:
    """The message about the unit, if this is a number with an unknown one; otherwise empty."""
    match = re.fullmatch(r"[+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?\s*([^\s0-9].*)", text)
    if match is None:
        return ""
    try:
        dimension(match[1])
    except QuantityError:
        return _unknown_unit(match[1])
    return ""


def _unknown_unit(unit: str) -> str:
    # Wrong case is the usual mistake, and difflib considers it a large difference.
    same = [usual for usual in USUAL_UNITS if usual.lower() == unit.lower()]
    hint = f"; did you mean {same[0]!r}?" if same else nearest(unit, USUAL_UNITS)
    return f"{shown(unit)} is not a unit{hint}"


def _limit(value: object) -> Written:
    written = parse_written(value)
    if written.quantity.value <= 0:
        raise wrong(f"a limit must be more than 0, not {written.text}")
    return written


def _overhead(value: object) -> Written:
    written = parse_written(value, example="2 %")
    if written.quantity.unit != "%":
        raise wrong(f"an overhead is written in per cent, e.g. 2 %, not as {written.text}")
    if written.quantity.value <= -100:
        raise wrong(f"an overhead must be more than -100 %, not {written.text}")
    return written


def _ratio(value: object) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise wrong(f"a ratio must be a number without unit and quotes, not {_what(value)}")
    if value <= 0:
        raise wrong(f"a ratio must be more than 0, not {value}")
    return float(value)


def _what(value: object) -> str:
    return shown(value) if isinstance(value, str) else kind(value)


def parse_unit(value: object) -> str:
    """Read a unit.

    Raises:
        PydanticCustomError: pint does not know it.
    """
    unit = "".join(_text(value).split())
    try:
        dimension(unit)
    except QuantityError:
        raise wrong(_unknown_unit(unit)) from None
    if unit == "1":
        raise wrong("'1' is not a unit")
    return unit


def parse_claim_name(value: object) -> str:
    """Read a claim's name.

    Raises:
        PydanticCustomError: it is none; the text says what one is.
    """
    text = value if isinstance(value, str) else ""
    if not _CLAIM.fullmatch(text) or len(text) > 120:
        raise wrong(
            "a claim's name is lower-case words with dots between them, e.g. startup.pod.kvm.qboot"
        )
    if text.split(".").count("*") > 1:
        raise wrong("a claim's name may have one '*'")
    return text


def parse_profile_name(value: object) -> str:
    """Read a profile's name.

    Raises:
        PydanticCustomError: it is none; the text says what one is.
    """
    text = _text(value)
    if not _PROFILE.fullmatch(text) or len(text) > 60:
        raise wrong(f"{shown(text)} is not a profile's name: lower-case letters, digits and '-'")
    if text == "auto":
        raise wrong("'auto' is what --hw=auto means, so no profile can have this name")
    return text


def _figure_name(value: object) -> str:
    text = value if isinstance(value, str) else ""
    if not _FIGURE.fullmatch(text):
        raise wrong("a figure's name is lower-case, e.g. min, max or mean")
    return text


def _statistic(value: object) -> str:
    if value == "mean":
        raise wrong(
            "a mean cannot be decided with a known error rate, since noise has heavy tails: use median; "
            "the published mean stays in source.published"
        )
    if not isinstance(value, str) or not STATISTIC.fullmatch(value):
        hint = nearest(value, ("median",)) if isinstance(value, str) else ""
        raise wrong(
            f"must be median, or a percentile such as p95 or p99.9, not {_what(value)}{hint}"
        )
    return value


def _near(value: object) -> float | Written:
    return _ratio(value) if is_number(value) else _limit(value)


Text = Annotated[str, PlainValidator(_text), WithJsonSchema({"type": "string", "pattern": r"\S"})]
"""A text that is not empty, with its white space collapsed."""

Limit = Annotated[
    Written,
    PlainValidator(_limit),
    WithJsonSchema(
        {"type": "string", "pattern": NUMBER_AND_UNIT, "examples": ["400 ms", "8.4 Gbit/s"]}
    ),
]
"""A quantity above 0."""

Overhead = Annotated[
    Written,
    PlainValidator(_overhead),
    WithJsonSchema(
        {"type": "string", "pattern": NUMBER + r"\s*%\s*$", "examples": ["2 %"]},
    ),
]
"""A percentage above -100."""

Ratio = Annotated[
    float,
    PlainValidator(_ratio),
    WithJsonSchema({"type": "number", "exclusiveMinimum": 0, "examples": [1, 0.75]}),
]
"""A plain number above 0."""

Figure = Annotated[
    Written,
    PlainValidator(parse_written),
    WithJsonSchema({"type": "string", "pattern": NUMBER_AND_UNIT, "examples": ["376 ms"]}),
]
"""A published quantity, of any sign."""

Unit = Annotated[
    str,
    PlainValidator(parse_unit),
    WithJsonSchema({"type": "string", "pattern": r"^\s*[^\s0-9]", "examples": list(USUAL_UNITS)}),
]
"""A unit that pint knows."""

StatisticName = Annotated[
    Statistic,
    PlainValidator(_statistic),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": f"^({STATISTIC.pattern})$",
            "examples": ["median", "p95", "p99.9"],
        }
    ),
]
"""``median`` or a percentile."""

NearValue = Annotated[
    float | Written,
    PlainValidator(_near),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "exclusiveMinimum": 0},
                {"type": "string", "pattern": NUMBER_AND_UNIT},
            ]
        }
    ),
]
"""A plain number above 0, or a quantity above 0."""

ProfileName = Annotated[
    str,
    PlainValidator(parse_profile_name),
    WithJsonSchema(
        {"type": "string", "pattern": f"^{_PROFILE.pattern}$", "not": {"const": "auto"}}
    ),
]

ClaimName = Annotated[
    str,
    PlainValidator(parse_claim_name),
    WithJsonSchema({"type": "string", "pattern": f"^{_CLAIM.pattern}$", "maxLength": 120}),
]

FigureName = Annotated[
    str,
    PlainValidator(_figure_name),
    WithJsonSchema({"type": "string", "pattern": f"^{_FIGURE.pattern}$"}),
]
