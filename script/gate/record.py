"""A pytest plugin that keeps what a run does, line by line: a run that was killed has said how far it got.

Each line of the file is a JSON object: ``{"collected": [ID, …]}``, ``{"start": ID}`` or
``{"report": ID, "when": PHASE, "outcome": OUTCOME, "seconds": NUMBER, "why": TEXT}``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdist.workermanage import WorkerController


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--gate-record", metavar="FILE", help="append what happens to this file")


def pytest_configure(config: pytest.Config) -> None:
    file = config.getoption("--gate-record")
    if file and not hasattr(
        config, "workerinput"
    ):  # pytest-xdist: its workers report to the one that keeps this
        config.pluginmanager.register(Record(Path(file)), "gate-record")


class Record:
    """Writes the lines."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8", buffering=1)
        self._collected = False

    def _write(self, **line: Any) -> None:
        self._file.write(json.dumps(line) + "\n")

    def _collect(self, ids: Sequence[str]) -> None:
        if not self._collected:  # each worker of pytest-xdist collects the same
            self._collected = True
            self._write(collected=list(ids))

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Without pytest-xdist."""
        self._collect([item.nodeid for item in session.items])

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(
        self, node: WorkerController, ids: Sequence[str]
    ) -> None:
        """With it."""
        self._collect(ids)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Tell of a file that skips itself: it has no tests that could."""
        if report.skipped:
            self._report(report.nodeid, "teardown", "skipped", 0.0, _reason(report))

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._write(start=nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        outcome, why = str(report.outcome), ""
        if report.skipped and hasattr(report, "wasxfail"):
            outcome = "passed"  # it failed as it is expected to
        elif report.skipped:
            why = _reason(report)
        self._report(report.nodeid, str(report.when), outcome, report.duration, why)

    def _report(self, node: str, when: str, outcome: str, seconds: float, why: str) -> None:
        self._write(report=node, when=when, outcome=outcome, seconds=round(seconds, 3), why=why)

    def pytest_unconfigure(self) -> None:
        self._file.close()


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Why something was skipped."""
    why = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return why.removeprefix("Skipped: ")
