"""The mapping ``source`` of a claim: the document that publishes its figure, or the runs its limit was made from."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import ConfigDict, Field, PlainValidator, WithJsonSchema

from pytest_vperf.claims.criterion_schema import Part
from pytest_vperf.claims.scalars import (
    NUMBER,
    NUMBER_AND_UNIT,
    Figure,
    FigureName,
    Text,
    Written,
    is_number,
    kind,
    parse_written,
    wrong,
)

_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def _date(value: object) -> str:
    if not isinstance(value, str) or not _DATE.fullmatch(value):
        raise wrong('must be a date in quotes, such as "2026-11-22"')
    return value


def _whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        what = value if is_number(value) else kind(value)
        raise wrong(f"must be a whole number from 1 on, not {what}")
    return value


def _percentage(value: object) -> Written:
    written = parse_written(value, example="9.4 %")
    if written.quantity.unit != "%" or written.quantity.value < 0:
        raise wrong(f"must be a percentage from 0 on, e.g. 9.4 %, not {written.text}")
    return written


def _figures(value: object) -> tuple[Written, ...]:
    if not isinstance(value, list) or not value:
        raise wrong("must be a list of quantities, such as [371 ms, 376 ms]")
    return tuple(parse_written(each) for each in value)


def _samples(value: object) -> tuple[int, ...]:
    if not isinstance(value, list) or not value:
        raise wrong("must be a list of whole numbers, such as [24, 24]")
    return tuple(_whole(each) for each in value)


Whole = Annotated[int, PlainValidator(_whole), WithJsonSchema({"type": "integer", "minimum": 1})]
"""A whole number from 1 on."""

Percentage = Annotated[
    Written,
    PlainValidator(_percentage),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": NUMBER.replace("[+-]", r"\+") + r"\s*%\s*$",
            "examples": ["9.4 %"],
        }
    ),
]
"""A percentage from 0 on."""

Date = Annotated[
    str,
    PlainValidator(_date),
    WithJsonSchema({"type": "string", "pattern": f"^{_DATE.pattern}$", "examples": ["2026-11-22"]}),
]
"""A day, as ISO 8601 has it."""

Figures = Annotated[
    tuple[Written, ...],
    PlainValidator(_figures),
    WithJsonSchema(
        {
            "type": "array",
            "minItems": 1,
            "items": {"type": "string", "pattern": NUMBER_AND_UNIT},
        }
    ),
]
"""One quantity of each run."""

Samples = Annotated[
    tuple[int, ...],
    PlainValidator(_samples),
    WithJsonSchema({"type": "array", "minItems": 1, "items": {"type": "integer", "minimum": 1}}),
]
"""One number of each run."""


class CalibratedPart(Part):
    """The runs on one machine that the limit was made from. Written by `vperf calibrate`."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})

    date: Date = Field(description="The day of the last run.")
    figures: Figures = Field(
        description="Of each run the median of its samples, in the order of the runs."
    )
    samples: Samples = Field(description="Of each run the number of its samples, warm-up left out.")
    spread: Percentage = Field(description="The standard deviation of the figures' logarithms.")
    margin: Percentage = Field(
        description="How far the limit is from the figures' geometric mean, on the bad side."
    )
    confidence: Percentage = Field(
        description="The probability that the figures of all of the next runs are within the limit."
    )
    next_runs: Whole = Field(description="How many next runs that is said of.")
    machine: dict[FigureName, Text] = Field(description="The fingerprint of the machine.")
    noisy: Text | None = Field(
        None, description="What made the machine noisy, where it was calibrated all the same."
    )
    vperf: Text = Field(description="The version of pytest-vperf that wrote it.")


class SourcePart(Part):
    """Where the threshold comes from: a document that publishes it, or a calibration."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [{"required": ["document"]}, {"required": ["calibrated"]}],
            "dependentSchemas": {
                key: {"required": ["document"]} for key in ("section", "published", "also", "rule")
            },
        }
    )

    document: Text | None = Field(None, description="The document that publishes the figures.")
    calibrated: CalibratedPart | None = Field(
        None, description="The runs on one machine that the limit was made from."
    )
    section: Text | None = Field(
        None, description="Where in the document; a text, in quotes.", examples=["1.1"]
    )
    published: dict[FigureName, Figure] = Field(
        default_factory=dict,
        description="The published figures, copied exactly: their names and quantities.",
        examples=[{"min": "352 ms", "max": "391 ms", "mean": "376 ms"}],
        json_schema_extra={"additionalProperties": False},
    )
    also: dict[FigureName, Figure] = Field(
        default_factory=dict,
        description="What is published beside them of the same runs and measures something else; copied exactly.",
        examples=[{"time": "49.4274 s", "share": "1.00 dimensionless"}],
        json_schema_extra={"additionalProperties": False},
    )
    rule: Text | None = Field(
        None,
        description="How the threshold follows from the published figures, in words; without it the file's rule.",
    )
