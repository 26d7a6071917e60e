"""What pytest's terminal shows about claims: the header of the run, notices while something takes long, the text of a
refuted claim, which is a short table with all its evidence, and the summary at the end.
"""

from __future__ import annotations

import contextlib
import re
import shlex
from typing import TYPE_CHECKING, Any

from pytest_vperf import foreign_text
from pytest_vperf.pytest_internals import end_line
from pytest_vperf.quantity import format_number
from pytest_vperf.reporting import baseline, gate, strips, words
from pytest_vperf.reporting.words import CATEGORIES, OUTCOMES
from pytest_vperf.results.record import of_sides
from pytest_vperf.thresholds.judge import PART_OF_TIME, TIME_OF_RUN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    import pytest

    from pytest_vperf.machine.noise_warnings import NoiseWarning
    from pytest_vperf.pytest_internals import TerminalReporter
    from pytest_vperf.results.record import ClaimRecord, FillingRecord
    from pytest_vperf.thresholds.hardware import Selection


#: The most samples printed; the JSON file has all.
_SHOWN = 12


def failure_text(record: ClaimRecord, fingerprint: Mapping[str, Any] | None) -> str:
    """The text of a refuted claim: one sentence, and rows of evidence below."""
    rows = [(name, foreign_text.line(text)) for name, text in _rows(record, fingerprint)]
    # The spaces before an axis would not outlast the cleaning.
    after = next(k for k, (name, _) in enumerate(rows, 1) if name in ("samples", "pairs"))
    rows[after:after] = _axes(record)
    width = max(len(name) for name, _ in rows)
    first = (
        f"{record['name']} is refuted: measured {_estimate(record)}, claimed {words.limit(record)}"
    )
    if of_sides(record):
        head, base = record["sides"]["a"], record["sides"]["b"]
        first = f"{record['name']} is {gate.verdict(record)} on {head} than on {base}: {gate.change(record)}"
    elif record["baseline"] is not None:
        word, change = record["baseline"]["word"], gate.change(record)
        first = f"{record['name']} is {baseline.verdict(record)} than the runs of {word}: {change}"
    elif on := words.on_side(record):
        first = f"{record['name']}{on} is refuted{first.partition(' is refuted')[2]}"
    first = foreign_text.line(first)
    return "\n".join([first, *(f"  {name:{width}}  {text}" for name, text in rows)])


def _estimate(record: ClaimRecord) -> str:
    if record["estimate"] is None:
        return "-"
    return f"{format_number(record['estimate'])} {record['unit']}".rstrip()


def _rows(record: ClaimRecord, fingerprint: Mapping[str, Any] | None) -> Iterator[tuple[str, str]]:
    yield "claim", record["name"] + (f": {record['summary']}" if record["summary"] else "")
    if of_sides(record):
        yield from gate.evidence(record)
    else:
        confidence = record["confidence"]
        level = f" at {100 * confidence:.4g} % confidence" if confidence else ""
        yield "measured", f"{record['statistic']} {words.measured(record)}{level}"
        for name, own in strips.arms(record).items():
            yield name, f"median {words.figures(own)}, {own['n']} samples"
        statistic = f"{record['statistic']} "
        yield "limit", statistic + words.limit(record).removeprefix(statistic)
        yield "gap", words.gap(record)
        yield "samples", _samples(record)
    if record["target"]:
        yield "target", record["target"]
    yield "why", record["reason"]
    if record["source"]:
        yield "source", record["source"]
    hardware = record["hardware"]
    if hardware["profile"]:
        yield "profile", f"{hardware['profile']} ({hardware['location']})"
    if not hardware["matches"]:
        yield "differs", "; ".join(hardware["mismatches"])
    if fingerprint:
        yield "machine", machine_line(fingerprint)
    for warning in record["warnings"]:
        yield "note", warning


def _axes(record: ClaimRecord) -> Iterator[tuple[str, str]]:
    arms, shown = strips.arms(record), list(strips.strips(record))
    for strip, line in zip(shown, strips.lines(shown), strict=True):
        yield f"{strip.name}'s" if strip.name in arms else strip.name, line


def _samples(record: ClaimRecord) -> str:
    values = record["samples"]
    shown = ", ".join(format_number(value) for value in values[:_SHOWN])
    more = f", … {len(values) - _SHOWN} more" if len(values) > _SHOWN else ""
    unit = f" {record['unit']}" if record["unit"] else ""
    return f"{len(values)}: {shown}{more}{unit}"


def machine_line(fingerprint: Mapping[str, Any]) -> str:
    """The machine in one line: whatever affects its speed; the whole fingerprint is in the JSON file."""
    parts = (
        ("", "cpu_model", ""),
        ("", "logical_cpus", " CPUs"),
        ("", "memory", ""),
        ("kernel ", "kernel", ""),
        ("hypervisor ", "hypervisor", ""),
    )
    known = [
        f"{before}{fingerprint[key]}{after}" for before, key, after in parts if key in fingerprint
    ]
    return ", ".join([*known, *(["emulated"] if fingerprint.get("emulated") == "yes" else [])])


#: The most sources of noise that the header names; the doctor names them all.
NAMED = 4

_LEVELS = {
    "refuted": "",
    "measured": ", measured: what is not measured fails",
    "strict": ", strict: what is not shown to hold fails",
    "advisory": ", advisory: no verdict fails a test",
}


def header_lines(
    selection: Selection,
    *,
    budget: float,
    time: float | None = None,
    level: str,
    record: Path | None,
    noise: Sequence[NoiseWarning] = (),
    sides: Iterable[str] = (),
) -> list[str]:
    """The header: profiles and how they were chosen, budget, level, sides, and what makes this machine noisy.

    Args:
        selection: the profiles.
        budget: seconds of sampling per claim.
        time: seconds that all claims share; ``None`` if each has its budget alone.
        level: what fails a test, see `pytest_vperf.run.options.LEVELS`.
        record: the file that is written; ``None`` if none is.
        noise: what makes this machine noisy.
        sides: what is compared in a gate, a line for each.
    """
    allowed = f"budget {budget:g} s per claim"
    if time is not None:
        allowed = f"{time:g} s for all claims" + (
            f", at most {budget:g} s each" if budget < time else ""
        )
    lines = [
        f"claims: hardware {selection.describe()}",
        f"claims: {allowed}{_LEVELS[level]}",
        *(f"claims: {side}" for side in sides),
    ]
    if selection.remote:
        lines.append(f"claims: targets on {selection.remote}")
    if record is not None:
        lines.append(f"claims: record in {record}")
    if noise:
        lines.append(noise_line(noise))
    return [foreign_text.line(line) for line in lines]


def noise_line(noise: Sequence[NoiseWarning]) -> str:
    """One line that names what makes this machine noisy, and where to read how to change it."""
    named = ", ".join(warning.short for warning in noise[:NAMED])
    more = f", and {len(noise) - NAMED} more" if len(noise) > NAMED else ""
    told = "prints the commands" if any(each.by_command for each in noise) else "says why"
    return f"claims: noisy machine: {named}{more}; `vperf doctor --tune` {told}"


def say_notice(config: pytest.Config, text: str) -> None:
    """Print a permanent line; not in a pytest-xdist worker, which has no terminal, nor with ``-qq``."""
    reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or config.getoption("verbose") <= -2:
        return
    capture: Any = config.pluginmanager.get_plugin("capturemanager")
    aside: AbstractContextManager[object] = contextlib.nullcontext()
    if capture is not None:
        aside = capture.global_and_fixture_disabled()
    with aside:
        reporter.ensure_newline()
        end_line(reporter)
        reporter.write_line(f"claims: {foreign_text.line(text)}")
        reporter.flush()


def write_summary(
    reporter: TerminalReporter,
    records: Sequence[ClaimRecord],
    *,
    header: Sequence[str] = (),
    usage_error: str = "",
    answer: str = "",
) -> None:
    """Write the section "claims": a row for each, the phases of starts, and a line that counts the verdicts.

    Args:
        reporter: pytest's.
        records: the claims.
        header: the lines of the run's header, if the terminal has not shown them yet.
        usage_error: what kept claims from being judged; empty if nothing did.
        answer: of a run that compares, in one line.
    """
    verbosity = reporter.verbosity
    if not records:
        reporter.line(answer)
        return
    if verbosity > -2:
        from pytest_vperf.reporting.tables import (
            arms_table,
            beside_tables,
            claims_table,
            phases_table,
            remarks,
            render,
            samples_on_axes,
            sweeps_table,
            with_rows,
        )

        width = _width(reporter)
        reporter.section("claims")
        if answer:
            reporter.line(foreign_text.line(answer))
        for line in header:
            reporter.line(line)
        own = records if verbosity > 0 else with_rows(records)
        others = [record for record in own if not of_sides(record)]
        tables = (
            gate.table(own),
            claims_table(others, width) if others else None,
            remarks(records, width, verbose=verbosity > 0),
            *((arms_table(others), samples_on_axes(own, width)) if verbosity > 0 else ()),
            *(sweeps_table(own), gate.phases_table(own), phases_table(others)),
        )
        shown = [table for table in tables if table is not None] + beside_tables(own)
        for line in render(shown, width=width, colour=reporter.hasmarkup):
            reporter.line(line)
        if (left := len(records) - len(own)) > 0:
            reporter.line(
                f"{left} claims more have no row here: -v shows all, and the record has them"
            )
    elif answer:
        reporter.line(foreign_text.line(answer))
    reporter.line(counts_line(records))
    if usage_error:
        reporter.line(f"ERROR: {foreign_text.lines(usage_error)}", red=True)


def write_result(
    reporter: TerminalReporter,
    word: str,
    status: int,
    *,
    swallowed: Iterable[tuple[ClaimRecord, ClaimRecord | None]] = (),
    unmet: Iterable[tuple[str, Sequence[str]]] = (),
    lost: str = "",
    further: str = "",
) -> None:
    """Write what the tests' own outcomes do not say, the result of the run, and what to do next.

    Args:
        reporter: pytest's.
        word: how the run ended. status: its exit status.
        swallowed: the refuted claims whose test did not fail, each with what a later attempt at the test found.
        unmet: the variable or option that names targets of which none was measured, and these targets.
        lost: which part of the record could not be written to its file, and where it is instead; empty if none.
        further: the last line, see `next_step`; empty for none.
    """
    for record, again in swallowed:
        name, test = record["name"], record["nodeid"]
        text = f"claims: {name} is refuted, and its test did not fail: {test}"
        if again is not None:
            text = (
                f"claims: {name} is refuted in attempt {record['attempt']} of its test, and {again['verdict']} in "
                f"attempt {again['attempt']}: to run a test again does not undo a refutation: {test}"
            )
        reporter.line(foreign_text.line(text), red=True)
    for asker, targets in unmet:
        text = (
            f"claims: {asker} asks for {' or '.join(targets)}, and no claim about it was measured"
        )
        reporter.line(foreign_text.line(text), red=True)
    if lost:
        reporter.line(f"claims: {foreign_text.line(lost)}", red=True)
    text = f"claims: result: {word}, exit status {status}"
    reporter.line(text, **{"green" if word == "ok" else "red": True})
    if further and reporter.verbosity > -2:
        reporter.line(further)


def write_kept(reporter: TerminalReporter, run: str, place: str) -> None:
    """Write that the run was kept.

    Args:
        reporter: pytest's.
        run: what it is called.
        place: the store.
    """
    reporter.write_line(foreign_text.line(f"claims: kept in {place}: {run}"))


def write_annotations(reporter: TerminalReporter, lines: Iterable[str]) -> None:
    """Write lines that GitHub takes for annotations, each at the beginning of a line."""
    reporter.ensure_newline()
    for line in lines:
        reporter.write_line(line)


def write_left_out(reporter: TerminalReporter, file: str, names: Sequence[str]) -> None:
    """Write which claims a file for pytest-benchmark has no place for; one name stands for all others.

    Args:
        reporter: pytest's.
        file: its name.
        names: the claims', at least one.
    """
    first, *others = dict.fromkeys(names)
    more = f" and {len(others)} more" if others else ""
    how = "were measured in other units" if others else "was measured in another unit"
    text = f"claims: {file} has times alone, and not {first}{more}, which {how}"
    reporter.write_line(foreign_text.line(text))


#: Causes of an undecided claim that a larger budget does not mend.
_NO_MATTER_OF_TIME = ("too few samples", "no variance", "error")


def _shares_time(record: ClaimRecord) -> bool:
    origins = record["plan"].get("origins", {})
    return origins.get("budget") in (TIME_OF_RUN, PART_OF_TIME)


def next_step(records: Sequence[ClaimRecord], *, kept: str = "", time: float | None = None) -> str:
    """The last line: how many verdicts there are, and the command that gets more out of them.

    Of several the first: what was not measured, for which something is missing here; what the budget did not decide;
    what no limit of this machine judges; else keeping the record, and reading it.

    Args:
        records: the claims; not empty.
        kept: the file of the record; empty if it is not kept.
        time: seconds that all claims share; ``None`` if each has its budget alone.
    """
    verdicts = [record["verdict"] for record in records]
    decided = verdicts.count("holds") + verdicts.count("refuted")
    told = f"claims: {decided} verdict{'s' if decided != 1 else ''} of {len(records)}; next: "
    missing = sum(
        record["verdict"] == "not measured" and not record["reason"].startswith("error")
        for record in records
    )
    if missing:
        return f"{told}vperf doctor ({missing} could not be measured)"
    short = [
        record
        for record in records
        if record["verdict"] == "inconclusive" and record["cause"] not in _NO_MATTER_OF_TIME
    ]
    if short:
        option, seconds = "--claims-budget", max(record["budget_s"] for record in short)
        if time is not None and any(_shares_time(record) for record in short):
            option, seconds = TIME_OF_RUN, time
        return f"{told}{option}={2 * seconds:g}s ({len(short)} undecided)"
    others = verdicts.count("not comparable")
    of_gate = any(record["sides"] for record in records)
    if others and not of_gate:
        return f"{told}vperf calibrate --hw=NAME ({others} without a limit)"
    if of_gate:  # what a gate found is no verdict on the sentences that are claimed
        return (
            told.removesuffix("; next: ")
            if kept
            else f"{told}--claims-json=run.json, for every sample"
        )
    if kept:
        return f"{told}vperf claims {shlex.quote(kept)}"
    return f"{told}--claims-json=run.json, then vperf claims run.json"


def write_fillings(reporter: TerminalReporter, records: Sequence[FillingRecord]) -> None:
    """Write the section "density": a row for each filled host, and why no more targets were started."""
    if not records or reporter.verbosity <= -2:
        return
    from pytest_vperf.reporting.tables import (
        costs_table,
        curves_table,
        fillings_table,
        reasons,
        render,
    )

    width = _width(reporter)
    reporter.section("density")
    tables = (
        fillings_table(records),
        costs_table(records),
        curves_table(records),
        reasons(records, width),
    )
    shown = [table for table in tables if table is not None]
    for line in render(shown, width=width, colour=reporter.hasmarkup):
        reporter.line(line)


def _width(reporter: TerminalReporter) -> int | None:
    """The length of a terminal's lines; ``None`` for a pipe and a log, whose lines may have any length."""
    # In newer versions of pytest isatty is a method that also has a truth value.
    return int(reporter.config.get_terminal_writer().fullwidth) if reporter.isatty else None


def counts_line(records: Iterable[ClaimRecord]) -> str:
    """``claims: 2 held, 1 refuted, 3 not measured``, and how many of them a profile of other hardware judged."""
    records = list(records)
    verdicts = [record["verdict"] for record in records]
    order = ("holds", "refuted", "inconclusive", "not comparable", "not measured")
    counts = [(verdicts.count(verdict), OUTCOMES[verdict].category) for verdict in order]
    foreign = sum(words.is_of_other_hardware(record) for record in records)
    aside = f"; {foreign} judged by the profile of other hardware" if foreign else ""
    return "claims: " + ", ".join(f"{count} {word}" for count, word in counts if count) + aside


@contextlib.contextmanager
def failures_shown(reporter: TerminalReporter) -> Iterator[None]:
    """Let pytest list failed claims among its FAILURES and in its short summary.

    pytest looks for failures only in the category "failed". During its summary our failed reports are listed there
    too, so that ``--tb``, ``-r`` and captured output work as for any failure.
    """
    ours = [
        report
        for category in CATEGORIES
        for report in reporter.stats.get(category, ())
        if getattr(report, "failed", False)
    ]
    before = reporter.stats.get("failed")
    if ours:
        reporter.stats["failed"] = [*(before or ()), *ours]
    entries = [entry for report in ours for entry in _texts(report)]
    whole = [entry.lines for entry in entries]
    if entries and (width := _width(reporter)) is not None:
        for entry, lines in zip(entries, whole, strict=True):
            entry.lines = _indented(lines, width)
    try:
        yield
    finally:
        # Reports of other plug-ins have lines of any length.
        for entry, lines in zip(entries, whole, strict=True):
            entry.lines = lines
        if ours and before is None:
            del reporter.stats["failed"]
        elif ours and before is not None:
            reporter.stats["failed"] = before


def _texts(report: Any) -> list[Any]:
    """The parts of a report that are texts of ours, not tracebacks."""
    traceback = getattr(getattr(report, "longrepr", None), "reprtraceback", None)
    entries = getattr(traceback, "reprentries", ())
    return [entry for entry in entries if getattr(entry, "style", "") == "value"]


#: A row of `failure_text` up to its text.
_ROW = re.compile(r"  [a-z']+  +")


def _indented(lines: Sequence[str], width: int) -> list[str]:
    """The lines of a failure, those that are too long for the terminal wrapped and indented."""
    from pytest_vperf.reporting.layout import LATER, wrapped

    found = []
    for line in lines:
        row = _ROW.match(line)
        first = row[0] if row else ""
        found += wrapped(
            line[len(first) :], width, first=first, indent=len(first) if row else len(LATER)
        )
    return found
