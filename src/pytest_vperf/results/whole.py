"""Whole runs from files: every key that a record has, each with its type checked.

Other readers declare the few keys that they need. Whoever shows all of a record would repeat every key of
`pytest_vperf.results.record`, so here the models are made of the types that are declared there. A key that an earlier
version did not write has the value of a claim that was not measured.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from pydantic import Field, create_model

from pytest_vperf.machine.noise import NoiseEvidence
from pytest_vperf.results import reading, record
from pytest_vperf.results.reading import Moment, Part, WrongShape, checked
from pytest_vperf.results.record import ClaimRecord, FillingRecord, unmeasured

if TYPE_CHECKING:
    from pathlib import Path

VERDICTS = ("holds", "refuted", "inconclusive", "not comparable", "not measured")


class AskedPart(Part):
    """What the run was asked for."""

    command: str = ""
    options: list[str] = Field(default_factory=list)
    package: str = ""


class ProfilePart(Part):
    """The profiles that judged it."""

    names: list[str] = Field(default_factory=list)
    mismatches: list[str] = Field(default_factory=list)


class ResultPart(Part):
    """How it ended."""

    word: str
    exit_status: int
    level: Literal["advisory", "refuted", "measured", "strict"]


class HeadPart(Part):
    """All of a run but its claims and hosts."""

    vperf: str
    run: str = ""
    started: Moment
    asked: AskedPart = AskedPart()
    profile: ProfilePart | None = None
    fingerprint: dict[str, str] | None = None
    machines: dict[str, dict[str, str]] = Field(default_factory=dict)
    sides: dict[str, dict[str, dict[str, Any]]] = Field(default_factory=dict)
    result: ResultPart | None = None


@dataclass
class WholeRun:
    """A run with all that was measured.

    Attributes:
        head: all but what follows.
        claims: in the order they ended.
        fillings: of hosts.
        note: a remark about an unfinished run; otherwise empty.
    """

    head: HeadPart
    claims: list[ClaimRecord]
    fillings: list[FillingRecord] = field(default_factory=list)
    note: str = ""


def read(path: Path) -> WholeRun:
    """Read a file of ``--claims-json``, the journal of an unfinished run, or a run in a store's folder.

    Raises:
        reading.RecordProblem: it cannot be read, or a key is of another type than it should be.
    """
    spare = dict(unmeasured("", "", target="", nodeid="", started_at="", budget=0.0, seed=0))

    def claim(number: int, text: bytes) -> ClaimRecord:
        given = reading.parsed_object(text)
        found = _as(ClaimRecord, {**spare, **given}, f"claims.{number}.")
        if found["verdict"] not in VERDICTS or not found["name"]:
            raise WrongShape(f"claims.{number}: is without a name or a verdict")
        return cast("ClaimRecord", found)

    try:
        found = reading.read(path, reading.check_format, claim)
        if found.claims is None:
            raise reading.ForeignFile("is not a record of `pytest --claims-json`")
        head = checked(HeadPart, found.head)
        given = found.head.get("fillings", [])
        if not isinstance(given, list):
            raise WrongShape("fillings: is not a list")
        hosts = [
            cast("FillingRecord", _as(FillingRecord, each, f"fillings.{number}."))
            for number, each in enumerate(given)
        ]
    except WrongShape as error:
        raise reading.RecordProblem(str(error)) from None
    return WholeRun(head, found.claims, hosts, found.note)


def _as(of: type, given: Any, where: str) -> dict[str, Any]:
    return checked(_model(of), given, where).model_dump(exclude_unset=True)


@cache
def _model(of: type) -> type[Part]:
    """A model with the keys of a `TypedDict`."""
    names = {**vars(record), "NoiseEvidence": NoiseEvidence}
    required: frozenset[str] = of.__required_keys__  # type: ignore[attr-defined]
    fields: dict[str, Any] = {
        key: (_checked(hint), ... if key in required else None)
        for key, hint in get_type_hints(of, localns=names).items()
    }
    return create_model(of.__name__, __base__=Part, **fields)


def _checked(hint: Any) -> Any:
    """A type with models in place of each `TypedDict` in it."""
    if is_typeddict(hint):
        return _model(hint)
    origin, arguments = get_origin(hint), get_args(hint)
    if not arguments or origin is Literal:
        return hint
    own = tuple(_checked(each) for each in arguments)
    return Union[own] if origin in (Union, UnionType) else origin[own]  # noqa: UP007 - of a tuple
