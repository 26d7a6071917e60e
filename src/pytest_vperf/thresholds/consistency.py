"""Consistency checks of a threshold file that go beyond the form of each value.

They work on the raw data and skip malformed values, which `schema.check` reports: one mistake must not hide another.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pydantic_core import PydanticCustomError

from pytest_vperf.quantity import dimension
from pytest_vperf.thresholds.match import ANY, EVERYWHERE
from pytest_vperf.thresholds.scalars import Written, is_number, parse_unit, parse_written
from pytest_vperf.thresholds.schema import CRITERIA, PUBLISHED, ClaimPart
from pytest_vperf.thresholds.text_file import Problem, nearest, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pytest_vperf.thresholds.text_file import DataPath

#: Names allowed for the published figures behind a limit; behind a comparison any name is allowed, as it says what
#: was compared.
_STATISTICS = ("min", "max", "mean", "median", "stddev", "value")
_STATISTIC = re.compile(rf"{'|'.join(_STATISTICS)}|p[0-9.]+|run_[0-9]+")


#: What the name of a calibration's file has after the profile's: ``desk.calibrated.yaml``.
CALIBRATED = ".calibrated"


def disagreements(data: object, stem: str) -> Iterator[Problem]:
    """Yield the inconsistencies of a file.

    Args:
        data: the file's data.
        stem: the file's name without ``.yaml``.
    """
    hardware = _mapping(data, "hardware")
    name = hardware.get("name")
    profile = stem.removesuffix(CALIBRATED)
    if isinstance(name, str) and name != profile:
        message = f"is {shown(name)}, but the file is {stem}.yaml: name one after the other"
        yield Problem(("hardware", "name"), message)
    if isinstance(match := hardware.get("match"), dict):
        if not match and name not in EVERYWHERE:
            message = f"is empty, which fits every machine; only the profile {ANY!r} does"
            yield Problem(("hardware", "match"), message)
        if match and name in EVERYWHERE:
            message = f"must be {{}}: the profile {name!r} fits every machine"
            yield Problem(("hardware", "match"), message)
    claims = _mapping(data, "claims")
    for claim in claims:
        if isinstance(claims[claim], dict):
            yield from _criteria(("claims", claim), claims[claim])
            yield from _tolerance(("claims", claim), claims[claim])
            yield from _dimensions(("claims", claim), claims[claim])
            yield from _source(("claims", claim), claims[claim])
            if profile != stem and "calibrated" not in _mapping(claims[claim], "source"):
                message = f"is not from a calibration; write it in {profile}.yaml"
                yield Problem(("claims", claim), message, at_key=True)
    for one, other in _overlaps(claims):
        message = f"matches names that {shown(other)} matches too, so neither is more specific"
        yield Problem(("claims", one), message, at_key=True)


def _criteria(path: DataPath, claim: dict[str, Any]) -> Iterator[Problem]:
    """A claim has exactly one criterion, and only the keys that go with it."""
    given = [key for key in claim if key in CRITERIA]
    if len(given) > 1:
        message = f"a claim has one criterion, and this has {_list(given)}"
        yield Problem((*path, given[1]), message, at_key=True)
    elif not given and set(claim) <= set(ClaimPart.model_fields):
        # An unknown key is reported as such, and is probably the misspelt criterion.
        yield Problem(path, f"needs one of {_list(list(CRITERIA), 'or')}", at_key=True)
    for key in ("ratio", "overhead"):
        sides = claim.get(key)
        if isinstance(sides, dict) and not sides:
            yield Problem((*path, key), "needs at_most, at_least or both", at_key=True)
        elif isinstance(sides, dict):
            yield from _order((*path, key), sides)
    if "statistic" in claim and given and not {"at_most", "at_least"} & set(given):
        message = f"belongs to at_most and at_least, not to {given[0]}"
        yield Problem((*path, "statistic"), message, at_key=True)
    if "unit" in claim and given and "unknown" not in given:
        message = f"belongs to unknown; the unit of {given[0]} is in its value"
        yield Problem((*path, "unit"), message, at_key=True)
    if "unknown" in given and "unit" not in claim:
        message = "the key 'unit' is missing: the unit that the metric is reported in"
        yield Problem(path, message, at_key=True)


#: A limit is taken as it is written; its tolerance is how much worse than base counts as no worse in a gate.
_WITH_TOLERANCE = frozenset({"near", "saturates", "no_worse", "at_most", "at_least"})


def _order(path: DataPath, sides: dict[str, Any]) -> Iterator[Problem]:
    """The ends of a range differ, and the smaller one is ``at_least``."""
    ends = [sides.get(key) for key in ("at_least", "at_most")]
    values = [
        each.quantity.value if (each := _written(end)) else end if is_number(end) else None
        for end in ends
    ]
    low, high = values
    if low is not None and high is not None and low >= high:
        message = f"is {shown(ends[0])}, and at_most is {shown(ends[1])}: the range is empty"
        yield Problem((*path, "at_least"), message)


def _tolerance(path: DataPath, claim: dict[str, Any]) -> Iterator[Problem]:
    """A tolerance belongs to the criteria that have one, and is given once."""
    if "tolerance" not in _mapping(claim, "judge"):
        return
    given = [key for key in claim if key in CRITERIA]
    place = (*path, "judge", "tolerance")
    own = next((key for key in ("near", "saturates") if "tolerance" in _mapping(claim, key)), None)
    if own:
        yield Problem(place, f"{own} already has a tolerance: give one of them", at_key=True)
    elif given and not _WITH_TOLERANCE & set(given):
        message = (
            f"belongs to near, saturates and no_worse, and to limits in a gate; the figure of {given[0]} is not "
            "widened"
        )
        yield Problem(place, message, at_key=True)


def _dimensions(path: DataPath, claim: dict[str, Any]) -> Iterator[Problem]:
    """Published figures have the dimension of the limit."""
    near, level = _mapping(claim, "near").get("value"), _mapping(claim, "saturates").get("near")
    values = (claim.get("at_most"), claim.get("at_least"), near, level)
    limit = next((each for each in map(_written, values) if each), None)
    unit = limit.quantity.unit if limit else _unit(claim.get("unit"))
    if unit is None:
        return
    for name, value in _mapping(claim.get("source"), "published").items():
        if limit and not _STATISTIC.fullmatch(name):
            hint = (
                nearest(name, _STATISTICS)
                or f"; they are {_list(_STATISTICS)}, and p95, run_1 and such"
            )
            message = f"is not the name of a figure behind a limit{hint}"
            yield Problem((*path, "source", "published", name), message, at_key=True)
        figure = _written(value)
        if figure and dimension(figure.quantity.unit) != dimension(unit):
            of = f"the limit {limit.text}" if limit else f"the unit {unit}"
            message = (
                f"{figure.text} ({dimension(figure.quantity.unit)}) is of another dimension "
                f"than {of} ({dimension(unit)})"
            )
            yield Problem((*path, "source", "published", name), message)


def _source(path: DataPath, claim: dict[str, Any]) -> Iterator[Problem]:
    """A threshold comes from a document or from a calibration, and has no keys of the other."""
    if not isinstance(source := claim.get("source"), dict):
        return
    place = (*path, "source")
    if "calibrated" not in source:
        if "document" not in source:
            yield Problem(place, "the key 'document' is missing", at_key=True)
        return
    for key in ("document", *PUBLISHED):
        if key in source:
            message = "belongs to a published figure, and this limit is calibrated"
            yield Problem((*place, key), message, at_key=True)
    place = (*place, "calibrated")
    sides = [key for key in ("at_most", "at_least") if key in claim]
    if not sides and any(key in claim for key in CRITERIA):
        yield Problem(place, "belongs to at_most and at_least", at_key=True)
    calibrated = source["calibrated"] if isinstance(source["calibrated"], dict) else {}
    figures, samples = calibrated.get("figures"), calibrated.get("samples")
    if not isinstance(figures, list):
        return
    if isinstance(samples, list) and len(samples) != len(figures):
        message = f"has {len(samples)} runs, and figures has {len(figures)}"
        yield Problem((*place, "samples"), message, at_key=True)
    limit = _written(claim.get(sides[0])) if sides else None
    for number, figure in enumerate(map(_written, figures)):
        if limit and figure and dimension(figure.quantity.unit) != dimension(limit.quantity.unit):
            message = f"{figure.text} is of another dimension than the limit {limit.text}"
            yield Problem((*place, "figures", number), message)


def _mapping(data: object, key: str) -> dict[str, Any]:
    """The mapping under a key; empty if there is none."""
    value = data.get(key) if isinstance(data, dict) else None
    return value if isinstance(value, dict) else {}


def _written(value: object) -> Written | None:
    try:
        return parse_written(value)
    except PydanticCustomError:
        return None


def _unit(value: object) -> str | None:
    try:
        return parse_unit(value)
    except PydanticCustomError:
        return None


def _overlaps(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Pairs of names with a ``*`` that could both match one claim, found without comparing every pair."""
    seen: dict[tuple[int, tuple[str, ...]], str] = {}
    for name in names:
        words = name.split(".")
        if words.count("*") != 1:
            continue
        star = words.index("*")
        for place in range(len(words)):
            # Two such names overlap if they become equal when each also has a star where the other has one.
            free = tuple("*" if i in (star, place) else word for i, word in enumerate(words))
            if place != star and (place, free) in seen:
                yield name, seen[place, free]
            seen[star, free] = name


def _list(names: Sequence[str], word: str = "and") -> str:
    return f"{', '.join(names[:-1])} {word} {names[-1]}"
