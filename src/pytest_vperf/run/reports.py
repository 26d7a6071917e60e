"""What was logged of a run's tests; what that comes to is in `result` beside it, which most runs do not load."""

from __future__ import annotations

import pytest


class Reports:
    """What was logged of the run's tests; a plug-in of its own.

    Attributes:
        failed: by test, the verdict that made it fail; empty where something else did.
        ran: whether any test ran.
        passed: whether a test passed that is not about a claim.
        excused: the tests that a strict ``xfail`` expected to fail, and which did.
        worker_died: whether a worker of pytest-xdist died that had tests with claims.
        places: of tests: file, seen from the root folder, and line, counted from 0.
    """

    def __init__(self) -> None:
        self.failed: dict[str, str] = {}
        self.ran = self.passed = self.worker_died = False
        self.excused: set[str] = set()
        self.places: dict[str, tuple[str, int]] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a report."""
        self.ran = True
        file, number, _ = report.location
        self.places[report.nodeid] = (file, number or 0)
        verdict = getattr(report, "vperf_verdict", "")
        if report.outcome == "failed":
            known = self.failed.get(report.nodeid)
            self.failed[report.nodeid] = verdict if known is None else known and verdict
        elif report.outcome == "passed" and report.when == "call":
            self.passed = self.passed or not verdict
        elif getattr(report, "vperf_excused", False):
            self.excused.add(report.nodeid)

    @property
    def broken(self) -> bool:
        """Whether a test failed for a reason other than a verdict, or a worker died."""
        return self.worker_died or "" in self.failed.values()


#: On a run's configuration: its reports.
REPORTS: pytest.StashKey[Reports] = pytest.StashKey()
