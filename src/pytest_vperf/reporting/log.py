"""What a pipe or a log has of a run while it goes on: a line for each claim, and on GitHub a group for each file.

A terminal has the progress line instead, see `pytest_vperf.reporting.terminal`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vperf import foreign_text
from pytest_vperf.reporting import baseline, gate, words
from pytest_vperf.reporting.annotations import data
from pytest_vperf.reporting.summary import say_notice
from pytest_vperf.results.record import of_sides
from pytest_vperf.stats.rule import count

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_vperf.results.record import ClaimRecord


class Log:
    """The lines of one run. A plug-in of its own.

    Args:
        config: pytest's.
        claims: returns those that were judged so far.
        over: returns how many tests are over, ``3 of 32``; empty if that is unknown.
    """

    def __init__(
        self,
        config: pytest.Config,
        claims: Callable[[], Sequence[ClaimRecord]],
        over: Callable[[], str],
    ) -> None:
        self._config = config
        self._claims = claims
        self._over = over
        self._told = 0
        self._file = ""
        # Workers run tests of several files at a time.
        many = config.pluginmanager.has_plugin("dsession")
        self._groups = os.environ.get("GITHUB_ACTIONS") == "true" and not many

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self, location: tuple[str, int | None, str]) -> None:
        """Begin the group of the test's file, before pytest writes the file's name."""
        if self._groups and location[0] != self._file:
            self._end_group()
            self._file = location[0]
            self._write(f"::group::{data(foreign_text.line(self._file))}")

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Tell what was judged, after pytest has told the test's outcome."""
        if report.when == "setup" and report.passed:  # the outcome comes with the call
            return
        claims = self._claims()
        for record in claims[self._told :]:
            over = self._over()
            say_notice(self._config, judged(record) + (f" ({over})" if over else ""))
        self._told = len(claims)

    def pytest_sessionfinish(self) -> None:
        """End the last group: what follows is to be seen at once."""
        self._end_group()

    def _end_group(self) -> None:
        if self._file:
            self._write("::endgroup::")
            self._file = ""

    def _write(self, line: str) -> None:
        reporter: Any = self._config.pluginmanager.get_plugin("terminalreporter")
        reporter.ensure_newline()
        reporter.write_line(line)


def judged(record: ClaimRecord) -> str:
    """A claim that ended, in one line.

    ``startup.pod.tcg holds: 376.2 ms [370.1, 382.4], ≤ 400 ms, 28 samples in 61 s``, or with the reason
    ``startup.pod.kvm is not measured: no KVM here``.
    """
    name = record["name"] + words.on_side(record)
    verdict, limit = words.verdict(record), words.limit(record)
    measured, noun = words.measured(record), "sample"
    if of_sides(record):
        verdict, measured = gate.verdict(record), gate.change(record)
    elif (own := record["baseline"]) is not None:
        measured = gate.change(record)
        if record["verdict"] == "refuted":
            verdict = f"{baseline.verdict(record)} than the runs of {own['word']}"
    if record["statistic"] == "ratio":
        noun = "run" if record["baseline"] is not None else "pair"
    parts = [measured, limit, f"{count(record['n'], noun)} in {record['duration_s']:.0f} s"]
    told = [verdict, ", ".join(each for each in parts if each != "-")] if record["n"] else [verdict]
    if record["verdict"] not in ("holds", "refuted"):
        told.append(foreign_text.short(record["reason"].partition("\n")[0]))
    said = ": ".join(filter(None, told))
    return (
        f"{name} {said}"
        if record["verdict"] == "holds" and verdict.startswith("holds")
        else f"{name} is {said}"
    )
