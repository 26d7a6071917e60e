"""What pytest's terminal shows of the claims at the end of a run."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from pytest_vperf import foreign_text, require
from pytest_vperf.outcomes import CATEGORIES, OUTCOMES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from _pytest.terminal import TerminalReporter

    from pytest_vperf.results.record import ClaimRecord
    from pytest_vperf.session import ClaimsSession

#: Where nobody looks at a window's width, lines are at least this long.
_LEAST_WIDTH = 120


def write_summary(reporter: TerminalReporter, session: ClaimsSession) -> None:
    """The section "claims": a row for each, the phases of starts, and a line that counts the verdicts."""
    records = session.run.claims
    verbosity = reporter.verbosity
    if verbosity > -2:
        from pytest_vperf.reporting.beside import beside_tables
        from pytest_vperf.reporting.table import (
            claims_table,
            phases_table,
            remarks,
            render,
            sweeps_table,
        )

        width = _width(reporter, session)
        reporter.section("claims")
        if (
            session.reports_of_workers
        ):  # a controller of pytest-xdist does not collect, and had no header
            for line in session.header():
                reporter.line(line)
        tables = (
            *(claims_table(records, width), remarks(records)),
            *(sweeps_table(records), phases_table(records)),
        )
        shown = [table for table in tables if table is not None] + beside_tables(records)
        for line in render(shown, width=width, colour=reporter.hasmarkup):
            reporter.line(line)
    reporter.line(counts_line(records))
    for name in session.unmet:
        asked = foreign_text.line(name)
        reporter.line(
            f"claims: {require.VARIABLE} asks for {asked}, and no claim about it was measured",
            red=True,
        )
    if session.usage_error:
        reporter.line(f"ERROR: {foreign_text.lines(session.usage_error)}", red=True)


def write_loss(reporter: TerminalReporter, session: ClaimsSession) -> None:
    """What of the record is not where it was to be, and where it is."""
    reporter.line(f"claims: {foreign_text.line(session.record_lost)}", red=True)


def write_fillings(reporter: TerminalReporter, session: ClaimsSession) -> None:
    """The section "density": a row for each host that was filled, and why it was filled no further."""
    if not session.fillings or reporter.verbosity <= -2:
        return
    from pytest_vperf.reporting.density import (
        costs_table,
        curves_table,
        fillings_table,
        reasons,
    )
    from pytest_vperf.reporting.table import render

    records = session.fillings
    reporter.section("density")
    tables = (
        fillings_table(records),
        costs_table(records),
        curves_table(records),
        reasons(records),
    )
    shown = [table for table in tables if table is not None]
    width = _width(reporter, session)
    for line in render(shown, width=width, colour=reporter.hasmarkup):
        reporter.line(line)


def _width(reporter: TerminalReporter, session: ClaimsSession) -> int:
    width: int = session.config.get_terminal_writer().fullwidth
    # isatty is in newer versions of pytest a method that is also a truth value.
    return width if reporter.isatty else max(width, _LEAST_WIDTH)


def counts_line(records: Iterable[ClaimRecord]) -> str:
    """``claims: 2 held, 1 refuted, 3 not measured``."""
    verdicts = [record["verdict"] for record in records]
    order = ("holds", "refuted", "inconclusive", "not comparable", "not measured")
    counts = [(verdicts.count(verdict), OUTCOMES[verdict].category) for verdict in order]
    return "claims: " + ", ".join(f"{count} {word}" for count, word in counts if count)


@contextlib.contextmanager
def failures_shown(reporter: TerminalReporter) -> Iterator[None]:
    """Let pytest show the claims that failed among its FAILURES and in its short summary.

    pytest looks for failures under the category "failed" alone. For the time of its summary our failed
    reports stand there too; ``--tb``, ``-r`` and captured output are then treated as for any failure.
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
    try:
        yield
    finally:
        if ours and before is None:
            del reporter.stats["failed"]
        elif ours and before is not None:
            reporter.stats["failed"] = before
