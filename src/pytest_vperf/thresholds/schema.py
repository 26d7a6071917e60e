"""The format of a threshold file: one description, which checks files and generates the JSON Schema for editors."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, ValidationError, WithJsonSchema
from pydantic.json_schema import GenerateJsonSchema

from pytest_vperf.quantity import QuantityError
from pytest_vperf.thresholds import criterion as criteria
from pytest_vperf.thresholds import judge
from pytest_vperf.thresholds.match import Comparison
from pytest_vperf.thresholds.scalars import (
    NUMBER,
    NUMBER_AND_UNIT,
    ClaimName,
    Figure,
    FigureName,
    Limit,
    NearValue,
    Overhead,
    ProfileName,
    Ratio,
    StatisticName,
    Text,
    Unit,
    Written,
    is_number,
    kind,
    parse_written,
    wrong,
)
from pytest_vperf.thresholds.text_file import DataPath, Problem, nearest, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_vperf.thresholds.criterion import Criterion


_DIRECTIONS = ("lower_is_better", "higher_is_better")
_PLAIN = r"^\s*\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?\s*"


def _reads(reader: Callable[[object], float]) -> PlainValidator:
    """A check that uses the parser of the option and marker."""

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
"""A percentage or a ratio; kept as the ratio."""

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
    """A mapping in a threshold file; refuses unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)


class RatioPart(Part):
    """The ratio of two targets' metrics; one of the two keys, or both, which make a range."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})

    at_most: Ratio | None = Field(
        None, description="The greatest ratio; 1 says that the first is no greater than the second."
    )
    at_least: Ratio | None = Field(None, description="The smallest ratio.")


class OverheadPart(Part):
    """How much more one target's metric is than another's; one of the two keys, or both, which make a range."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})

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
    """Where more load no longer increases throughput."""

    near: Limit = Field(
        description="The greatest throughput, whatever the load.", examples=["70000 packet/s"]
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
"""A date in ISO 8601."""

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
"""One quantity per run."""

Samples = Annotated[
    tuple[int, ...],
    PlainValidator(_samples),
    WithJsonSchema({"type": "array", "minItems": 1, "items": {"type": "integer", "minimum": 1}}),
]
"""One whole number per run."""


class CalibratedPart(Part):
    """The runs on one machine that the limit was made from. Written by `vperf calibrate`."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})

    date: Date = Field(description="The day of the last run.")
    figures: Figures = Field(
        description="The median of each run's samples, in the order of the runs."
    )
    samples: Samples = Field(description="The number of each run's samples, without warm-up.")
    spread: Percentage = Field(description="The standard deviation of the figures' logarithms.")
    margin: Percentage = Field(
        description="How far the limit is from the figures' geometric mean, on the bad side."
    )
    confidence: Percentage = Field(
        description="The probability that the figures of all of the next runs are within the limit."
    )
    next_runs: Whole = Field(description="The number of runs that this covers.")
    machine: dict[FigureName, Text] = Field(description="The fingerprint of the machine.")
    noisy: Text | None = Field(
        None, description="What made the machine noisy, if it was calibrated anyway."
    )
    vperf: Text = Field(description="The version of pytest-vperf that wrote it.")


#: The keys of a source that say more of a document.
PUBLISHED = (
    "project",
    "section",
    "commit",
    "date",
    "published",
    "also",
    "rule",
    "procedure",
    "deviations",
    "contested_by",
)


class SourcePart(Part):
    """Where the threshold comes from: a document that publishes it, or a calibration."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [{"required": ["document"]}, {"required": ["calibrated"]}],
            "dependentSchemas": {key: {"required": ["document"]} for key in PUBLISHED},
        }
    )

    document: Text | None = Field(None, description="The document that publishes the figures.")
    calibrated: CalibratedPart | None = Field(
        None, description="The runs on one machine that the limit was made from."
    )
    project: Text | None = Field(
        None, description="The project that publishes them about itself.", examples=["crun"]
    )
    section: Text | None = Field(
        None, description="Where in the document; a text, in quotes.", examples=["1.1"]
    )
    commit: Text | None = Field(
        None, description="The commit of the document that was read, or that brought the figures."
    )
    date: Date | None = Field(None, description="The day of that commit, or of the publication.")
    published: dict[FigureName, Figure] = Field(
        default_factory=dict,
        description="The published figures, copied exactly: their names and quantities.",
        examples=[{"min": "352 ms", "max": "391 ms", "mean": "376 ms"}],
        json_schema_extra={"additionalProperties": False},
    )
    also: dict[FigureName, Figure] = Field(
        default_factory=dict,
        description="Figures of other metrics, published with them for the same runs; copied exactly.",
        examples=[{"time": "49.4274 s", "share": "1.00 dimensionless"}],
        json_schema_extra={"additionalProperties": False},
    )
    rule: Text | None = Field(
        None,
        description="How the threshold follows from the published figures, in words; without it the file's rule.",
    )
    procedure: Text | None = Field(
        None, description="How the figures were measured, as far as the document says."
    )
    deviations: Text | None = Field(
        None, description="In what the test differs from that procedure."
    )
    contested_by: Text | None = Field(
        None, description="Who has measured otherwise, and where that is written."
    )


#: The criterion keys, of which a claim has exactly one, each with the function that makes its criterion.
CRITERIA: Mapping[str, Callable[[Any, ClaimPart], Criterion]] = {
    "at_most": lambda limit, claim: criteria.Limit("at_most", limit.quantity, claim.statistic),
    "at_least": lambda limit, claim: criteria.Limit("at_least", limit.quantity, claim.statistic),
    "ratio": lambda ratio, _: _ratio(ratio.at_least, ratio.at_most),
    "overhead": lambda overhead, _: _overhead(overhead.at_least, overhead.at_most),
    "near": lambda near, _: _near(near.value, near.tolerance),
    "saturates": lambda level, _: criteria.Saturates(level.near.quantity, level.tolerance),
    "no_worse": lambda better, _: criteria.NoWorse(better.removesuffix("_is_better")),
    "unknown": lambda reason, claim: criteria.Unknown(reason, claim.unit or ""),
}


def _ratio(low: float | None, high: float | None, *, overhead: bool = False) -> Criterion:
    if low is not None and high is not None:
        return criteria.Between(low, high, overhead=overhead)
    if low is not None:
        return criteria.Ratio("at_least", low, overhead=overhead)
    assert high is not None
    return criteria.Ratio("at_most", high, overhead=overhead)


def _overhead(low: Written | None, high: Written | None) -> Criterion:
    ends = [None if each is None else 1 + each.quantity.value / 100 for each in (low, high)]
    return _ratio(ends[0], ends[1], overhead=True)


def _near(value: float | Written, tolerance: float | None) -> Criterion:
    if isinstance(value, Written):
        return criteria.NearLimit(value.quantity, tolerance)
    return criteria.Near(value, tolerance)


def _cpus(value: object) -> Comparison:
    if is_number(value):
        if not isinstance(value, int) or value < 1:
            raise wrong(f"must be a whole number from 1 on, not {value}")
        value = str(value)
    return _comparison(value, "8")


def _memory(value: object) -> Comparison:
    comparison = _comparison(value, ">= 15 GiB")
    if comparison.bounds[0][0] == "==":
        # The kernel reserves some memory, so no machine would ever match exactly.
        raise wrong(
            f"{comparison.text!r} fits no machine, as the kernel has less than what is installed; "
            "write a comparison, e.g. '>= 15 GiB' or '15 GiB .. 17 GiB'"
        )
    return comparison


def _comparison(value: object, example: str) -> Comparison:
    if is_number(value):
        raise wrong(f"{value} needs a unit, e.g. {example!r}")
    if not isinstance(value, str):
        raise wrong(f"must be a comparison such as {example!r}, not {kind(value)}")
    try:
        return Comparison.parse(" ".join(value.split()), example)
    except QuantityError as error:
        raise wrong(str(error)) from None


class MatchPart(Part):
    """Which machines the profile is for; all conditions must fit. `{}` fits every machine, in the profile `any`."""

    cpu_model: Text | None = Field(
        None,
        description="A part of the processor's name; case, (R), (TM) and the word CPU do not count.",
        examples=["E3-1240 v3"],
    )
    logical_cpus: (
        Annotated[
            Comparison,
            PlainValidator(_cpus),
            WithJsonSchema({"type": ["integer", "string"], "minimum": 1}),
        ]
        | None
    ) = Field(
        None,
        description="The number of processors, hyper-threads included: a number or a comparison.",
        examples=[8, ">= 8", "4 .. 16"],
    )
    memory: (
        Annotated[Comparison, PlainValidator(_memory), WithJsonSchema({"type": "string"})] | None
    ) = Field(
        None,
        description="A comparison with the memory the kernel has, a little less than the installed memory.",
        examples=[">= 15 GiB", "15 GiB .. 17 GiB"],
    )
    kernel: Text | None = Field(
        None,
        description="The beginning of the kernel's release in whole parts: 6.1 is not 6.18.",
        examples=["6.1"],
    )
    hypervisor: Text | None = Field(
        None,
        description="The hypervisor this machine runs under; none for bare metal.",
        examples=["none", "kvm", "xen"],
    )
    architecture: Text | None = Field(
        None, description="As `uname -m` prints it.", examples=["x86_64", "aarch64"]
    )


class HardwarePart(Part):
    """The hardware the thresholds are for."""

    name: ProfileName = Field(description="The profile's name, as in --hw=NAME and in NAME.yaml.")
    summary: Text | None = Field(None, description="The machine in one line.")
    match: MatchPart = Field(description="Which machines --hw=auto uses the profile on.")


class ClaimPart(Part):
    """One claim's threshold: one of at_most, at_least, ratio, overhead, near, saturates, no_worse and unknown."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [{"required": [key]} for key in CRITERIA],
            "dependentSchemas": {
                "statistic": {"anyOf": [{"required": ["at_most"]}, {"required": ["at_least"]}]},
                "unit": {"required": ["unknown"]},
                "unknown": {"required": ["unit"]},
            },
            # A calibration yields a limit.
            "allOf": [
                {
                    "if": {
                        "required": ["source"],
                        "properties": {"source": {"required": ["calibrated"]}},
                    },
                    "then": {"anyOf": [{"required": ["at_most"]}, {"required": ["at_least"]}]},
                }
            ],
            # A published figure is not widened: a limit's tolerance is that of a gate. near and saturates have one
            # tolerance, here or in their own mapping.
            "if": {"required": ["judge"], "properties": {"judge": {"required": ["tolerance"]}}},
            "then": {
                "anyOf": [
                    {"required": ["no_worse"]},
                    {"required": ["at_most"]},
                    {"required": ["at_least"]},
                    {
                        "required": ["near"],
                        "properties": {"near": {"not": {"required": ["tolerance"]}}},
                    },
                    {
                        "required": ["saturates"],
                        "properties": {"saturates": {"not": {"required": ["tolerance"]}}},
                    },
                ]
            },
        }
    )

    at_most: Limit | None = Field(None, description="The metric is at most this; lower is better.")
    at_least: Limit | None = Field(
        None, description="The metric is at least this; higher is better."
    )
    ratio: RatioPart | None = Field(
        None, description="One target's metric over another's is within this; needs no machine."
    )
    overhead: OverheadPart | None = Field(
        None, description="One target's metric exceeds another's by this much; needs no machine."
    )
    near: NearPart | None = Field(
        None,
        description="The metric, or one target's over another's, is this value, within a tolerance.",
    )
    saturates: SaturatesPart | None = Field(
        None,
        description="Over a sweep of loads the metric becomes flat, near this value, within a tolerance.",
    )
    no_worse: Better | None = Field(
        None,
        description="The candidate's metric is no worse than the baseline's by more than the tolerance: "
        "the direction of the metric. Needs no machine.",
    )
    unknown: Text | None = Field(
        None,
        description="Why there is no figure. The claim is measured and reported, but not judged.",
    )
    statistic: StatisticName = Field(
        "median",
        description="Which quantile of the samples is held against at_most or at_least.",
    )
    unit: Unit | None = Field(None, description="With unknown: the unit the metric is reported in.")
    summary: Text | None = Field(None, description="The claim as a sentence.")
    needs: list[Text] = Field(
        default_factory=list,
        description="The programs of this machine without which it cannot be measured.",
        examples=[["runc", "crun"]],
    )
    emulated: Text | None = Field(
        None,
        description="Why the claim says the same of an emulated machine, whose speed is not that of any hardware; "
        "without it, it is not judged on one.",
        examples=["memory is counted, not timed"],
    )
    judge: JudgePart | None = Field(None, description="How this claim is judged.")
    source: SourcePart | None = Field(None, description="Where the threshold comes from.")

    @property
    def criterion(self) -> Criterion:
        """What the claim asserts."""
        key = next(key for key in CRITERIA if getattr(self, key) is not None)
        return CRITERIA[key](getattr(self, key), self)


class FilePart(Part):
    """Thresholds of pytest-vperf on one kind of hardware."""

    model_config = ConfigDict(title="pytest-vperf threshold file")

    hardware: HardwarePart
    judge: JudgePart | None = Field(
        None, description="How claims of this file are judged, unless they say otherwise."
    )
    rule: Text | None = Field(
        None,
        description="How at_most and at_least follow from published figures, unless a claim says otherwise.",
        examples=["the published mean and half of its range"],
    )
    claims: dict[ClaimName, ClaimPart] = Field(
        description="The claims by name; one word of a name may be *, which stands for any word.",
        json_schema_extra={"additionalProperties": False},
    )


def check(data: object) -> tuple[FilePart | None, list[Problem]]:
    """Check the data of a file; return its content, ``None`` if there are problems, and the problems."""
    try:
        return FilePart.model_validate(data), []
    except ValidationError as error:
        return None, [
            _problem(each["loc"], each["type"], each["msg"], each["input"])
            for each in error.errors(include_url=False)
        ]


def _problem(path: DataPath, type_: str, message: str, given: object) -> Problem:
    if type_ == "extra_forbidden":
        if path[0] == "claims" and path[-1] in JudgePart.model_fields:
            return Problem(path, _misplaced(str(path[-1])), at_key=True)
        known = _keys(path[:-1])
        hint = nearest(str(path[-1]), known) or f"; the keys are {', '.join(known)}"
        return Problem(path, f"there is no such key{hint}", at_key=True)
    if type_ == "missing":
        return Problem(path[:-1], f"the key {path[-1]!r} is missing", at_key=True)
    if path and path[-1] == "[key]":
        return Problem(path[:-1], message, at_key=True)
    if type_ in ("model_type", "dict_type"):
        return Problem(path, f"must be a mapping of keys, not {kind(given)}")
    if type_ == "list_type":
        return Problem(path, f"must be a list, such as [runc, crun], not {kind(given)}")
    return Problem(path, message)


def _misplaced(key: str) -> str:
    """The message about a key of `judge` that is elsewhere in a claim."""
    if key == "tolerance":
        return (
            "a tolerance belongs in near or saturates, or in judge with no_worse; "
            "the figure of any other criterion is not widened"
        )
    return f"belongs in judge, as in judge: {{{key}: …}}"


def _keys(path: DataPath) -> list[str]:
    """The keys allowed at a path."""
    part: Any = FilePart
    for key in path:
        is_free = get_origin(part) is dict  # the keys of a dictionary are
        part = get_args(part)[1] if is_free else part.model_fields[key].annotation
        if get_origin(part) is not dict:  # of "Part | None" the part
            part = next((one for one in get_args(part) if hasattr(one, "model_fields")), part)
    return list(part.model_fields)


class _WithoutNull(GenerateJsonSchema):
    """Leaves null out of the schema: an optional key is omitted, never null."""

    def default_schema(self, schema: Any) -> dict[str, Any]:
        found = super().default_schema(schema)
        if found.get("default", "") is None:
            del found["default"]
        return found

    def nullable_schema(self, schema: Any) -> dict[str, Any]:
        return self.generate_inner(schema["schema"])


def json_schema() -> dict[str, object]:
    """The format as a JSON Schema (draft 2020-12), which editors use for validation and completion."""
    schema = FilePart.model_json_schema(schema_generator=_WithoutNull)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
