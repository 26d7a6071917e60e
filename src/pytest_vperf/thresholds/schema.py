"""The format of a threshold file: one description, for the check of a file and for the JSON Schema of editors."""

from __future__ import annotations

from typing import Annotated, Any, get_args, get_origin

from pydantic import ConfigDict, Field, PlainValidator, ValidationError, WithJsonSchema
from pydantic.json_schema import GenerateJsonSchema

from pytest_vperf.claims.criterion_schema import (
    Better,
    JudgePart,
    NearPart,
    OverheadPart,
    Part,
    RatioPart,
    SaturatesPart,
)
from pytest_vperf.claims.match import Comparison
from pytest_vperf.claims.problem import Path, Problem, nearest
from pytest_vperf.claims.scalars import (
    ClaimName,
    Limit,
    ProfileName,
    StatisticName,
    Text,
    Unit,
    is_number,
    kind,
    wrong,
)
from pytest_vperf.claims.source_schema import SourcePart  # noqa: TC001 - pydantic reads it
from pytest_vperf.quantity import QuantityError

#: The keys of a claim of which it has exactly one.
CRITERIA = (
    *("at_most", "at_least", "ratio", "overhead"),
    *("near", "saturates", "no_worse", "unknown"),
)


def _cpus(value: object) -> Comparison:
    if is_number(value):
        if not isinstance(value, int) or value < 1:
            raise wrong(f"must be a whole number from 1 on, not {value}")
        value = str(value)
    return _comparison(value, "8")


def _memory(value: object) -> Comparison:
    comparison = _comparison(value, ">= 15 GiB")
    if comparison.bounds[0][0] == "==":
        # The kernel keeps some for itself, so no machine would ever fit exactly.
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
        description="A comparison with the memory the kernel has, a little less than is installed.",
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
            # What was measured is a limit.
            "allOf": [
                {
                    "if": {
                        "required": ["source"],
                        "properties": {"source": {"required": ["calibrated"]}},
                    },
                    "then": {"anyOf": [{"required": ["at_most"]}, {"required": ["at_least"]}]},
                }
            ],
            # A published figure is widened by nothing; what is near has one tolerance.
            "if": {"required": ["judge"], "properties": {"judge": {"required": ["tolerance"]}}},
            "then": {
                "anyOf": [
                    {"required": ["no_worse"]},
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
        description="Why there is no figure. The claim is measured and reported, judged by nothing.",
    )
    statistic: StatisticName = Field(
        "median",
        description="Which quantile of the samples is held against at_most or at_least.",
    )
    unit: Unit | None = Field(None, description="With unknown: the unit the metric is reported in.")
    summary: Text | None = Field(None, description="The claim as a sentence.")
    judge: JudgePart | None = Field(None, description="How this claim is judged.")
    source: SourcePart | None = Field(None, description="Where the threshold comes from.")


class FilePart(Part):
    """Thresholds of pytest-vperf on one kind of hardware."""

    model_config = ConfigDict(title="pytest-vperf threshold file")

    hardware: HardwarePart
    judge: JudgePart | None = Field(
        None, description="How the claims of this file are judged that do not say it themselves."
    )
    rule: Text | None = Field(
        None,
        description="How at_most and at_least follow from published figures, where a claim does not say it.",
        examples=["the worst published observation, widened by nothing"],
    )
    claims: dict[ClaimName, ClaimPart] = Field(
        description="The claims by name; one word of a name may be *, which stands for any word.",
        json_schema_extra={"additionalProperties": False},
    )


def check(data: object) -> tuple[FilePart | None, list[Problem]]:
    """Check the data of a file; the first is ``None`` where there are problems."""
    try:
        return FilePart.model_validate(data), []
    except ValidationError as error:
        return None, [
            _problem(each["loc"], each["type"], each["msg"], each["input"])
            for each in error.errors(include_url=False)
        ]


def _problem(path: Path, type_: str, message: str, given: object) -> Problem:
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
    return Problem(path, message)


def _misplaced(key: str) -> str:
    """What is said of a key of `judge` that stands elsewhere in a claim."""
    if key == "tolerance":
        return (
            "a tolerance stands in near or saturates, or in judge beside no_worse; "
            "the figure of any other criterion is widened by nothing"
        )
    return f"stands in judge, as in judge: {{{key}: …}}"


def _keys(path: Path) -> list[str]:
    """The keys that the part at a path knows."""
    part: Any = FilePart
    for key in path:
        is_free = get_origin(part) is dict  # the keys of a dictionary are
        part = get_args(part)[1] if is_free else part.model_fields[key].annotation
        if get_origin(part) is not dict:  # of "Part | None" the part
            part = next((one for one in get_args(part) if hasattr(one, "model_fields")), part)
    return list(part.model_fields)


class _WithoutNull(GenerateJsonSchema):
    """A key that is left out has no value; null is none either, so the schema does not offer it."""

    def default_schema(self, schema: Any) -> dict[str, Any]:
        found = super().default_schema(schema)
        if found.get("default", "") is None:
            del found["default"]
        return found

    def nullable_schema(self, schema: Any) -> dict[str, Any]:
        return self.generate_inner(schema["schema"])


def json_schema() -> dict[str, object]:
    """The format as a JSON Schema (draft 2020-12), which editors check and complete with."""
    schema = FilePart.model_json_schema(schema_generator=_WithoutNull)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
