"""A gate as text: the answer in one line, a row for each comparison of two sides, and the evidence of a worse one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_vperf.quantity import Quantity, format_number, is_speed
from pytest_vperf.reporting import words
from pytest_vperf.reporting.strips import arms
from pytest_vperf.reporting.tables import cell, plain_table
from pytest_vperf.results.record import of_sides

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pytest_vperf.reporting.layout import PlainTable
    from pytest_vperf.results.record import ClaimRecord

_STYLES = {"holds": "green", "refuted": "bold red"}


def answer(records: Iterable[ClaimRecord]) -> str:
    """``gate: 1 slower, 6 not slower (within 5 %), 1 undecided: needs about 40 pairs more``, of a gate's claims."""
    compared = [record for record in records if of_sides(record)]
    if not compared:
        return "gate: nothing was compared with base"
    worse = "slower" if all(is_speed_of(record) for record in compared) else "worse"
    groups: dict[str, list[ClaimRecord]] = {}
    for record in compared:
        groups.setdefault(record["verdict"], []).append(record)
    parts = []
    if found := groups.get("refuted"):
        parts.append(f"{len(found)} {worse}")
    if found := groups.get("holds"):
        parts.append(f"{len(found)} not {worse} (within {_tolerances(found)})")
    if found := groups.get("inconclusive"):
        more = max(map(_pairs_more, found))
        needs = f": needs about {more} pairs more" if more else ""
        parts.append(f"{len(found)} undecided{needs if more <= _MOST else ': too close to call'}")
    if found := groups.get("not comparable"):
        parts.append(f"{len(found)} not comparable")
    if found := groups.get("not measured"):
        parts.append(f"{len(found)} not measured")
    return "gate: " + ", ".join(parts)


def is_speed_of(record: ClaimRecord) -> bool:
    """Whether its metric is a time or a rate; a comparison without any sample is taken for one."""
    unit = next((each["unit"] for each in record["arms"].values()), "ms")
    return bool(unit) and is_speed(unit)


def _tolerances(records: Iterable[ClaimRecord]) -> str:
    found = sorted({record["plan"].get("tolerance", 0.0) for record in records})
    low, high = (_percent(found[0]), _percent(found[-1]))
    return high if low == high else f"{low.removesuffix(' %')} to {high}"


def _percent(share: float) -> str:
    return str(Quantity(share * 100, "%"))


#: More pairs than this nobody takes.
_MOST = 10_000


def _pairs_more(record: ClaimRecord) -> int:
    """How many more pairs a verdict is expected to take; 0 if that is unknown."""
    if record["forecast"] is None:
        return 0
    return max(0, int(float(f"{record['forecast'] - record['n']:.1g}")))


def change(record: ClaimRecord) -> str:
    """``+19.1 % [+17.2, +21]``: how much more head is than base; ``-`` if that is unknown."""
    if record["estimate"] is None:
        return "-"
    ends = record["interval"] or (None, None)
    return words.estimated(record["estimate"], "%", ends, _signed_percent)


def _signed_percent(ratio: float) -> str:
    return words.signed((ratio - 1) * 100)


def table(records: Sequence[ClaimRecord]) -> PlainTable | None:
    """A row for each comparison of two sides; ``None`` if there is none."""
    rows = [record for record in records if of_sides(record)]
    if not rows:
        return None
    heads = {record["sides"]["a"] for record in rows}
    found = plain_table("head", "claim", "of base", "of head", "change", "pairs", "time", keys=2)
    for column in found.columns[2:]:
        column.no_wrap = True
    for column in found.columns[5:]:
        column.justify = "right"
    for record in rows:
        name = record["name"] if len(heads) == 1 else f"{record['name']}, {record['sides']['a']}"
        found.add_row(
            cell(verdict(record), _STYLES.get(record["verdict"], "yellow")),
            cell(name),
            cell(words.figures(record["arms"].get("b"))),
            cell(words.figures(record["arms"].get("a"))),
            cell(change(record)),
            str(record["n"]),
            f"{record['duration_s']:.0f} s",
        )
    return found


def verdict(record: ClaimRecord) -> str:
    """What a verdict says of head: ``slower``, ``not slower``, ``undecided``."""
    worse = "slower" if is_speed_of(record) else "worse"
    known = {"refuted": worse, "holds": f"not {worse}", "inconclusive": "undecided"}
    return known.get(record["verdict"], record["verdict"])


def phases_table(records: Iterable[ClaimRecord]) -> PlainTable | None:
    """The phases of each start on base and on head, and by how much they differ; ``None`` if there are none."""
    rows = [record for record in records if of_sides(record) and _phases(record)]
    if not rows:
        return None
    names = list(dict.fromkeys(name for record in rows for name in _phases(record)))
    found = plain_table("phases of a start, mean in ms", "of", *names, "sum", keys=2)
    for column in found.columns[2:]:
        column.justify, column.no_wrap = "right", True
    for record in rows:
        label = record["name"]
        for arm in ("b", "a"):
            own = record["arms"][arm]["phases"]
            shown = [format_number(own[name]) if name in own else "-" for name in names]
            found.add_row(
                cell(label), cell(record["sides"][arm]), *shown, format_number(sum(own.values()))
            )
            label = ""
        changes = _phases(record)
        shown = [words.signed(changes[name]) if name in changes else "-" for name in names]
        found.add_row("", cell("change"), *shown, words.signed(sum(changes.values())))
    return found


def _phases(record: ClaimRecord) -> Mapping[str, float]:
    """How much longer each phase of a start is on head, in ms."""
    head, base = (record["arms"][arm]["phases"] if arm in record["arms"] else {} for arm in "ab")
    return {name: head[name] - base[name] for name in head if name in base}


def evidence(record: ClaimRecord) -> Iterator[tuple[str, str]]:
    """The rows of a failure's text: both sides in absolute figures, the change, and what it took."""
    confidence = record["confidence"]
    level = f" at {100 * confidence:.4g} % confidence" if confidence else ""
    for name, own in arms(record).items():
        yield name, f"median {words.figures(own)}, {own['n']} samples"
    yield "change", f"{change(record)}{level}; tolerated: {_percent(record['plan']['tolerance'])}"
    if changes := _phases(record):
        yield "phases", ", ".join(f"{name} {words.signed(ms)} ms" for name, ms in changes.items())
    yield "pairs", f"{record['n']}, in {record['duration_s']:.0f} s"
