"""The table on a terminal and as JSON. Texts of records are foreign, and are shown literally.

On a terminal nothing is cut, however narrow it is. With rows, there is also a table by row and profile: what was
measured, on what and with which verdicts, and why the rest was not. The last verdicts can be kept in a small file.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.text import Text

from pytest_vperf import __version__
from pytest_vperf.commands.claims.lines import limit
from pytest_vperf.commands.claims.records import Kept
from pytest_vperf.foreign_text import line as one_line
from pytest_vperf.foreign_text import short, to_json
from pytest_vperf.reporting.console import print_table, tell
from pytest_vperf.results.identity import within_types
from pytest_vperf.results.run import FORMAT

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_vperf.commands.claims.lines import Line
    from pytest_vperf.commands.claims.measured import Machine, Measured
    from pytest_vperf.commands.claims.records import RunPart
    from pytest_vperf.commands.claims.rows import Row
    from pytest_vperf.thresholds.profile import Hidden, Threshold


class Machines:
    """Numbers the machines in the order of the table.

    Args:
        lines: of the table.
    """

    def __init__(self, lines: Iterable[Line]) -> None:
        self._names: dict[tuple[str, ...], str] = {}
        for line in lines:
            if line.last is not None:
                machine = line.last.measured.machine
                self._names.setdefault(machine.identity, machine.name)

    def label(self, machine: Machine) -> str:
        """``M2``; empty if there is only one machine."""
        if len(self._names) < 2:
            return ""
        return f"M{1 + list(self._names).index(machine.identity)}"

    def on(self, record: Measured) -> str:
        """What a record was measured on: ``M2, pod tcg qboot``; empty if unknown."""
        return ", ".join(filter(None, [self.label(record.machine), record.on]))

    def described(self) -> list[str]:
        """A line for each: ``M2: Intel(R) Xeon(R) Processor, 2 CPUs, …``; a single machine has no number."""
        several = len(self._names) > 1
        return [
            f"M{number}: {name}" if several else name
            for number, name in enumerate(self._names.values(), 1)
        ]


_STYLES = {"holds": "green", "refuted": "bold red"}


def print_lines(lines: Sequence[Line]) -> None:
    """Print a table for each profile, and the machines of the verdicts."""
    machines = Machines(lines)
    for profile in dict.fromkeys(line.profile for line in lines):
        tell(f"{profile or 'no profile'}:\n")
        rows = [_row(line, machines) for line in lines if line.profile == profile]
        print_table(("last verdict", "claim, limit; measured, on, date; why; test; source"), rows)
        tell()
    for machine in machines.described():
        tell(f"machine {machine}")
    for each in unequal(lines):
        tell(f"machines differ: {each}")
    tell(counts(lines))


def unequal(lines: Iterable[Line]) -> list[str]:
    """What was not the same on all machines of a type, in the runs over a fleet that verdicts are of."""
    runs = {id(line.last.measured.run): line.last.measured.run for line in lines if line.last}
    found = (each for run in runs.values() for each in within_types(run.machines))
    return [short(each) for each in dict.fromkeys(found)]


def print_parts(parts: Sequence[Part]) -> None:
    """Print the table of rows and profiles."""
    print_table(
        ("row", "profile", "measured", "on, verdicts", "not measured"),
        [
            (
                f"{part.row.name} {part.row.claim}",
                part.profile,
                f"{part.measured} of {part.claims}",
                "\n".join(part.on) or "-",
                "\n".join(part.missing) or "-",
            )
            for part in parts
        ],
    )
    tell()


def counts(lines: Sequence[Line]) -> str:
    """``claims: 120, of which 17 were measured: 5 holds, 2 refuted``; counts a verdict for each machine and place."""
    names = {(line.profile, line.name) for line in lines}
    ran = [line for line in lines if line.last and line.last.measured.was_measured]
    verdicts = [line.verdict for line in ran]
    told = ", ".join(f"{verdicts.count(each)} {each}" for each in dict.fromkeys(sorted(verdicts)))
    measured = len({(line.profile, line.name) for line in ran})
    return f"claims: {len(names)}, of which {measured} were measured{f': {told}' if told else ''}"


def _row(line: Line, machines: Machines) -> tuple[Text, Text]:
    """The verdict, and everything else on lines of its own, since columns would be too narrow for names and
    reasons."""
    pattern = f" (of {one_line(line.entry)})" if line.entry and line.entry != line.name else ""
    told = Text.assemble((one_line(line.name), "bold"), f"{pattern}  {one_line(line.limit)}")
    verdict = Text("never measured", "yellow")
    below = [line.why.removeprefix("never measured").removeprefix(": ")]
    if line.last is not None:
        record = line.last.measured
        verdict = Text(line.verdict, _STYLES.get(line.verdict, "yellow"))
        figures = f"{record.figures}, n {record.claim.n}" if record.was_measured else ""
        told_of = [figures, machines.on(record), str(record.when.date())]
        below = [", ".join(filter(None, told_of)), line.why]
    below += [*line.tests, line.source]
    below += [f"the test differs: {line.deviations}"] if line.deviations else []
    for text in filter(None, below):
        told.append(f"\n{one_line(text)}")
    return verdict, told


_ORDER = ("holds", "refuted", "inconclusive", "not comparable")


@dataclass(frozen=True)
class Part:
    """The claims of one row in one profile.

    Attributes:
        row: the row.
        profile: the profile's name.
        claims: the number of claims; a name with ``*`` counts once if no record has a claim that it matches.
        measured: the number of them that were measured.
        judged: the number of those that were judged, on hardware that fits their figures.
        on: what they were measured on, with the verdicts: ``domu pv (lab xen), emulated: 2 holds, 1 refuted``.
        missing: why others were not measured: ``no test names it: 12``.
    """

    row: Row
    profile: str
    claims: int
    measured: int
    judged: int
    on: tuple[str, ...]
    missing: tuple[str, ...]


def parts(rows: Sequence[Row], lines: Iterable[Line]) -> list[Part]:
    """The parts that have claims, in the order of the rows, then of the lines."""
    every = list(lines)
    machines = Machines(every)
    profiles = list(dict.fromkeys(line.profile for line in every))
    found = []
    for row in rows:
        for profile in profiles:
            own = [
                line
                for line in every
                if line.profile == profile and row.has(line.entry or line.name)
            ]
            if own:
                found.append(_part(row, profile, own, machines))
    return found


def _part(row: Row, profile: str, lines: Sequence[Line], machines: Machines) -> Part:
    verdicts: dict[str, Counter[str]] = {}
    missing: Counter[str] = Counter()
    measured, judged = set(), set()
    for line in lines:
        if line.last is not None and line.last.measured.was_measured:
            record = line.last.measured
            on = machines.on(record) or "-"
            verdicts.setdefault(on, Counter())[line.verdict] += 1
            measured.add(line.name)
            if line.is_judged:
                judged.add(line.name)
    for line in {line.name: line for line in lines if line.name not in measured}.values():
        if line.last is not None:
            missing[line.last.measured.reason] += 1
        else:
            missing[_unknown(line)] += 1
    return Part(
        row,
        profile,
        claims=len({line.name for line in lines}),
        measured=len(measured),
        judged=len(judged),
        on=tuple(f"{on}: {_counts(counter)}" for on, counter in verdicts.items()),
        missing=tuple(f"{reason}: {number}" for reason, number in missing.most_common()),
    )


def _unknown(line: Line) -> str:
    """Why no record has a claim."""
    if not line.tests:
        return "no test names it"
    return "no record of what its * stands for" if "*" in line.name else "no record has it"


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{counter[verdict]} {verdict}" for verdict in _ORDER if counter[verdict])


def print_hidden(hidden: Iterable[Hidden]) -> None:
    """Print a line for each threshold that another one keeps from counting."""
    for each in hidden:
        tell(one_line(f"hidden: {_place(each.threshold)}, by {_place(each.by)}"))


def _place(threshold: Threshold) -> str:
    return f"{threshold.profile}: {threshold.name} {limit(threshold)} ({threshold.location})"


def _hidden(threshold: Threshold) -> dict[str, str]:
    return {
        "profile": threshold.profile,
        "name": threshold.name,
        "limit": limit(threshold),
        "location": threshold.location,
    }


def document(lines: Iterable[Line], hidden: Iterable[Hidden]) -> str:
    """The table, and what is hidden by what, as JSON; unknown values are ``null`` or empty, never 0."""
    known = list(lines)
    content = {
        "format": FORMAT,
        "vperf": __version__,
        "table": [_line(line) for line in known],
        "machines_differ": unequal(known),
        "hidden": [{**_hidden(each.threshold), "by": _hidden(each.by)} for each in hidden],
    }
    return to_json(content, indent=1) + "\n"


def kept(lines: Iterable[Line]) -> str:
    """The runs of the last verdicts, with only these; readable as a record. A claim is a line, so that a run that is
    added changes few of them."""
    claims: dict[int, tuple[RunPart, list[Measured]]] = {}
    for line in lines:
        last = line.last
        for each in (last.measured, last.later, *last.beside) if last else ():
            if each is not None:
                own = claims.setdefault(id(each.run), (each.run, []))[1]
                if each not in own:
                    own.append(each)
    runs = sorted(claims.values(), key=lambda of: of[0].started)
    head = to_json(Kept(vperf=__version__, runs=[]).model_dump(exclude={"runs"}))
    return f"{_with_lines(head, 'runs', (_run(*each) for each in runs))}\n"


def _run(run: RunPart, records: Sequence[Measured]) -> str:
    """A run with these claims, in order of time."""
    head = to_json(run.model_dump(exclude={"claims"}))
    claims = [_shortened(each) for each in sorted(records, key=lambda each: each.when)]
    return _with_lines(head, "claims", claims)


def _with_lines(head: str, key: str, values: Iterable[str]) -> str:
    """A JSON object with one more key, whose values are lines of JSON."""
    listed = ",\n".join(values)
    return f'{head[:-1]}, "{key}": [\n{listed}\n]}}'


def _shortened(record: Measured) -> str:
    """A claim; of an error its first line, since the rest is one run's console output; of equal targets one."""
    claim = record.claim
    targets = {each.model_dump_json(): each for each in claim.targets}
    changed = {
        "reason": short(claim.reason.partition("\n")[0]),
        "targets": list(targets.values()),
    }
    return to_json(claim.model_copy(update=changed).model_dump(exclude_defaults=True))


def _line(line: Line) -> dict[str, Any]:
    threshold = line.threshold
    source = threshold.source if threshold else None
    return {
        "profile": line.profile,
        "claim": line.name,
        "entry": line.entry,
        "limit": line.limit,
        "unknown": threshold.criterion.reason if threshold else "",
        "summary": threshold.summary if threshold else "",
        "source": str(source) if source else "",
        "tests": list(line.tests),
        "last": _last(line),
        "why": line.why,
        "deviations": line.deviations,
    }


def _last(line: Line) -> dict[str, Any] | None:
    if line.last is None:
        return None
    record, claim = line.last.measured, line.last.measured.claim
    keys = ("estimate", "interval", "unit", "n", "target", "started_at")
    return {
        "verdict": line.verdict,
        **{key: getattr(claim, key) for key in keys},
        "places": list(record.places),
        "machine": record.machine.name,
        "matches": claim.hardware.matches,
    }
