"""The mappings inside a claim's entry: of the criteria that need more than one value, and of how it is judged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, WithJsonSchema

from pytest_vperf.claims import judge
from pytest_vperf.claims.problem import nearest, shown
from pytest_vperf.claims.scalars import Limit, NearValue, Overhead, Ratio, wrong

if TYPE_CHECKING:
    from collections.abc import Callable


_DIRECTIONS = ("lower_is_better", "higher_is_better")
_PLAIN = r"^\s*\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?\s*"


def _reads(reader: Callable[[object], float]) -> PlainValidator:
    """The check of a value that options and markers read in the same way."""

    def check(value: object) -> float:
        try:
            return reader(value)
        except ValueError as error:
            raise wrong(str(error)) from None

    return PlainValidator(check)


def _better(value: object) -> str:
    if value not in _DIRECTIONS:
        hint = nearest(value, _DIRECTIONS) if isinstance(value, str) else ""
        raise wrong(f"must be {' or '.join(_DIRECTIONS)}, not {shown(value)}{hint}")
    return str(value)


Better = Annotated[
    str,
    PlainValidator(_better),
    WithJsonSchema({"type": "string", "enum": list(_DIRECTIONS)}),
]
"""The direction of a metric."""

Tolerance = Annotated[
    float,
    _reads(judge.read_tolerance),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
                {"type": "string", "pattern": _PLAIN + r"%?\s*$"},
            ],
            "examples": ["2 %", 0.02],
        }
    ),
]
"""A percentage, or the ratio it means; kept as the ratio."""

Chance = Annotated[
    float,
    _reads(judge.read_chance),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "minimum": judge.MIN_CHANCE, "maximum": judge.MAX_CHANCE},
                {"type": "string", "pattern": _PLAIN + r"%?\s*$"},
            ],
            "examples": [0.01],
        }
    ),
]
"""The chance of a wrong verdict."""

Pairs = Annotated[
    int,
    _reads(judge.read_pairs),
    WithJsonSchema({"type": "integer", "minimum": judge.MIN_PAIRS, "maximum": judge.MAX_PAIRS}),
]
"""A number of pairs."""

Seconds = Annotated[
    float,
    _reads(judge.read_seconds),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": _PLAIN + r"[^\s0-9.].*$",
            "examples": ["60 s", "2 min"],
        }
    ),
]
"""A time, kept in seconds."""


class Part(BaseModel):
    """A mapping of a threshold file. What it does not know, it refuses."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)


class RatioPart(Part):
    """The ratio of two targets' metrics; one of the two keys."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1, "maxProperties": 1})

    at_most: Ratio | None = Field(
        None, description="The greatest ratio; 1 says that the first is no greater than the second."
    )
    at_least: Ratio | None = Field(None, description="The smallest ratio.")


class OverheadPart(Part):
    """How much more one target's metric is than another's; one of the two keys."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1, "maxProperties": 1})

    at_most: Overhead | None = Field(None, description="The greatest overhead.")
    at_least: Overhead | None = Field(None, description="The smallest overhead.")


class NearPart(Part):
    """A value, and how far from it still counts as near."""

    value: NearValue = Field(
        description="A plain number is the ratio of two targets' metrics; a quantity is one metric.",
        examples=[0.75, "70000 packet/s"],
    )
    tolerance: Tolerance | None = Field(
        None,
        description="How far on either side, relative to the value; without it the tolerance of the plan.",
    )


class SaturatesPart(Part):
    """Where a growing load stops to bring more."""

    near: Limit = Field(
        description="What comes through, at most, whatever the load.", examples=["70000 packet/s"]
    )
    tolerance: Tolerance | None = Field(
        None,
        description="How far on either side, relative to the value; without it the tolerance of the plan.",
    )


class JudgePart(Part):
    """How a claim is judged. A setting here wins over the test's marker, the command line and the ini file."""

    tolerance: Tolerance | None = Field(
        None,
        description="For near, saturates and no_worse: how far still counts as near or no worse.",
    )
    alpha: Chance | None = Field(
        None,
        description="The chance that a true claim is refuted; divided by the tests of the run that ask for claims.",
    )
    beta: Chance | None = Field(None, description="The chance that an untrue claim holds.")
    pairs: Pairs | None = Field(
        None, description="The greatest number of pairs of a comparison, or of samples of a limit."
    )
    budget: Seconds | None = Field(None, description="The time the claim may sample.")
