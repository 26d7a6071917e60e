"""``vperf report``: the page of HTML that ``--claims-report`` writes, of runs that are over."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vperf.quantity import QuantityError
from pytest_vperf.reporting.console import say, tell

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence

    from pytest_vperf.reporting.ended import EndedRun
    from pytest_vperf.reporting.html.past import Earlier
    from pytest_vperf.results.record import ClaimRecord
    from pytest_vperf.results.whole import WholeRun

DONE, FAILED, MISUSED = 0, 1, 2
#: What a record raises that no run has written.
_UNSOUND = (ArithmeticError, LookupError, QuantityError, TypeError, ValueError)


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "report",
        help="write a page of HTML, with pictures of all samples, of runs that are over",
        description="Writes one page of HTML that opens in a browser without a network: the answer, verdicts by "
        "family, what changed, and pictures of all that was measured. Of several records the newest is reported, "
        "with the claims that only earlier ones of its machine have; all of them, and the runs of the store, are "
        "the claims' history.",
        epilog="Exit status: 0 if the page was written, whatever the verdicts are; 1 if it could not be written; 2 "
        "if a record cannot be read.",
    )
    parser.add_argument(
        "records",
        metavar="RECORD",
        nargs="*",
        type=Path,
        help="file of --claims-json (default: that of the ini setting claims_json)",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        type=Path,
        required=True,
        help="the page, such as report.html",
    )
    parser.add_argument(
        "--store",
        metavar="DIR|URL",
        help="where earlier runs are kept (default: that of the ini setting claims_store, or .vperf)",
    )
    parser.set_defaults(command=_report, fail=parser.error)


def _report(arguments: argparse.Namespace) -> int:
    from pytest_vperf.machine.whole_file import write_whole
    from pytest_vperf.reporting.html.page import page
    from pytest_vperf.results.reading import RecordProblem
    from pytest_vperf.results.whole import read

    runs: list[WholeRun] = []
    for path in arguments.records or _usual(arguments):
        try:
            runs.append(read(path))
        except RecordProblem as error:
            say("vperf report", f"{path}: {error}")
            return MISUSED
        if runs[-1].note:
            say("vperf report", f"{path}: {runs[-1].note}")
    runs.sort(key=lambda run: run.head.started, reverse=True)
    try:
        ended = together(runs)
        text = page(_with_past(ended, runs[1:], arguments.store))
    except _UNSOUND as error:  # each key is of its type, and they do not go together
        what = f"{type(error).__name__}: {error}"
        say("vperf report", f"a record is damaged: its figures do not go together: {what}")
        return MISUSED
    try:
        write_whole(arguments.output, text)
    except OSError as error:
        say("vperf report", f"{arguments.output}: {error.strerror or error}")
        return FAILED
    tell(f"report: {ended.answer}: {arguments.output}")
    return DONE


def _usual(arguments: argparse.Namespace) -> Sequence[Path]:
    from pytest_vperf.commands.claims.tests import ProjectError, ask

    try:
        found = ask().json
    except ProjectError as error:
        arguments.fail(str(error))
    if found is None:
        arguments.fail("name a RECORD: the project has no ini setting claims_json")
    return [found] if found else []  # fail has ended the command


def together(runs: Sequence[WholeRun]) -> EndedRun:
    """The newest run, with the claims that only earlier ones of its machine have.

    Args:
        runs: the newest first; at least one.
    """
    from pytest_vperf.reporting.ended import EndedRun
    from pytest_vperf.results.identity import identity
    from pytest_vperf.run.result import failing

    newest = runs[0].head
    machine = identity(newest.fingerprint)
    claims, known, fillings, others = [], set(), [], 0
    for run in runs:
        if identity(run.head.fingerprint) != machine:
            others += 1
            continue
        new = [each for each in run.claims if _which(each) not in known]
        known |= {_which(each) for each in new}
        claims += new
        tests = {each["nodeid"] for each in new}
        fillings += [each for each in run.fillings if run is runs[0] or each["nodeid"] in tests]
    if others:
        say("vperf report", f"left out: {others} of the records, which are of other machines")
    result = newest.result
    level = result.level if result else "refuted"
    return EndedRun(
        claims=claims,
        answer=answer(claims) if result else f"{answer(claims)}; the run did not finish",
        word=result.word if result else "unfinished",
        status=result.exit_status if result else 1,
        failing=failing(level),
        started=newest.started,
        mark=newest.run,
        fingerprint=newest.fingerprint or {},
        sides=newest.sides,
        asked=newest.asked.model_dump(),
        profile=newest.profile.model_dump() if newest.profile else None,
        fillings=fillings,
    )


def _which(record: ClaimRecord) -> tuple[object, ...]:
    """What tells a claim from others: its name, and what it is about in a gate, or with a baseline."""
    return record["name"], tuple(record["sides"].values()), record["baseline"] is not None


def answer(claims: Sequence[ClaimRecord]) -> str:
    """The answer of a run in one line, from its claims alone."""
    from pytest_vperf.reporting import baseline, gate
    from pytest_vperf.reporting.summary import counts_line
    from pytest_vperf.results.record import of_sides

    if any(map(of_sides, claims)):
        return gate.answer(claims)
    if own := next((each["baseline"] for each in claims if each["baseline"]), None):
        return baseline.answer(claims, own["word"])
    return counts_line(claims) if claims else "claims: nothing was claimed"


def _with_past(ended: EndedRun, others: Iterable[WholeRun], place: str | None) -> EndedRun:
    """The run with its history; where that cannot be had, it is said, and the page goes without."""
    from pytest_vperf.commands.store import reading
    from pytest_vperf.reporting.html.past import MOST_RUNS, earlier, this_run
    from pytest_vperf.results.store.model import StoreProblem

    run = this_run(ended.mark, ended.started, ended.fingerprint, ended.claims)
    known = [
        this_run(each.head.run, each.head.started, each.head.fingerprint or {}, each.claims)
        for each in others
    ]
    found: Earlier | None = None
    try:
        with reading("vperf report", place) as store:
            marks = {each.mark for each in known}
            stored = [each for each in store.runs(most=MOST_RUNS) if each.mark not in marks]
        found = earlier(run, [*known, *stored])
    except StoreProblem as error:
        say("vperf report", f"without a history: {error}")
    except ImportError as missing:
        say(
            "vperf report",
            f"without a history: it takes {missing.name}: pip install 'pytest-vperf[store]'",
        )
    return ended if found is None else replace(ended, past=found.past, since=found.since)
