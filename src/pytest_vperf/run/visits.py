"""When a test is run again, so that the sessions of its claims are spread over the run.

A claim about a limit is judged in several sessions, and each session is a visit to its test: the test runs like any
other, and ends when the claim's session is over. The first visit comes in the user's order. The second comes halfway
through what then remains of the run, at the first place where it ends no fixture that other tests share. The rest
follow after the last test, in passes in the user's order. So the sessions of a claim are as far apart as the run
allows, without waiting.

pytest sees each test once: only the reports of its last visit are logged.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vperf.pytest_internals import (
    WorkerIndex,
    call_and_report,
    forget_fixtures,
    make_anew,
    runtestprotocol,
    tear_down_others,
)
from pytest_vperf.run.other_plugins import BeforeFlaky, Visit, has_flaky, runs_it
from pytest_vperf.run.outcomes import TEST_CLAIMS, TestClaims
from pytest_vperf.run.time_share import TimeShare

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Iterable, Mapping

    from pytest_vperf.claims.judgement import Judgement


# Where a test may be visited again: never between two tests that share a fixture which the visit would end.
#
# pytest ends the fixtures of a class, module or package as soon as a test from elsewhere is next. In the user's order
# that is after the last of its tests; a visit between them would end the fixtures, and set them up anew, while tests
# still share them.

#: A folder that is not a package has no fixtures. Older versions of pytest do not collect such folders.
_FOLDER: type | None = getattr(pytest, "Dir", None)


def comes_between(visited: pytest.Item, previous: pytest.Item, following: pytest.Item) -> bool:
    """Whether a test may be visited between two others without ending anything that they share."""
    own = set(visited.listchain())
    shared = set(previous.listchain()) & set(following.listchain())
    if any(node not in own and type(node) is not _FOLDER for node in shared):
        return False
    # A parametrized fixture is set up anew for each parameter.
    first, second, third = map(_parameters, (previous, following, visited))
    return not any(
        second.get(name) == value != third.get(name, value) for name, value in first.items()
    )


def _parameters(item: pytest.Item) -> Mapping[str, int]:
    """The index of the parameter that a test has of each shared fixture."""
    call: Any = getattr(item, "callspec", None)
    scopes = getattr(call, "_arg2scope", {})
    return {
        name: number
        for name, number in getattr(call, "indices", {}).items()
        if getattr(scopes.get(name), "value", "function") != "function"
    }


@dataclass
class _Pending:
    """A test that is to be visited again.

    Attributes:
        order: its place in the user's order. due: the index of the test before which it is due at the earliest; the
            number of tests means after all. session: the next session, from 2 on.
        durations: seconds that each phase took in its earlier visits.
        waits: whether it is visited again when the others had their first share of the time.
    """

    order: int
    due: float = 0.0
    session: int = 2
    durations: dict[str, float] = field(default_factory=dict)
    waits: bool = False


class Visits:
    """The visits of one run; in a pytest-xdist worker, of that worker's share. A plug-in of its own.

    Args:
        session: pytest's.
        claiming: the tests that ask for a claim.
        seconds: that all of them share; ``None``: each claim has its budget alone.
    """

    def __init__(
        self,
        session: pytest.Session,
        claiming: Collection[pytest.Item],
        seconds: float | None = None,
    ) -> None:
        self._session = session
        self._claiming = claiming
        self._config = session.config
        # A worker does not know its share of the tests beforehand.
        workers = getattr(session.config, "workerinput", {}).get("workercount", 1)
        self._total = math.ceil(len(session.items) / workers)
        self.time: TimeShare | None = None
        if seconds is not None:
            self.time = TimeShare(seconds, math.ceil(len(claiming) / workers))
        self._begun = 0
        self._previous: pytest.Item | None = None
        self._pending: dict[pytest.Item, _Pending] = {}
        self._revisited: _Pending | None = None
        if has_flaky(self._config):
            self._config.pluginmanager.register(BeforeFlaky(self.run), "vperf-before-flaky")

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, object, object]:
        """Run the visits that are due before a test of the main loop, and all that remain after the last."""
        if self._revisited is not None:
            return (yield)
        while due := self._due(item):
            self._revisit(due, item)
        self._begun += 1
        self._previous = item
        result = yield
        if nextitem is None:
            # pytest's main loop checks for -x and Ctrl-C after this test as after any other.
            while self._pending and not self._stopping:
                self._revisit(self._next(), None)
        return result

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Before a visit between two tests, tears down the folders that only those two share."""
        if self._revisited is not None:
            tear_down_others(item)

    def run(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        """Run a test; ``None`` leaves it to others."""
        if self._stopping:
            return True  # an earlier visit ended the run
        if runs_it(item):
            return None
        if item in self._claiming:
            self._visit(item, nextitem)
            return True
        following = self._following(None)
        if nextitem is not None or following is None:
            return None
        # After the last test visits remain, which need the session's fixtures.
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        runtestprotocol(item, nextitem=following)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    @property
    def _stopping(self) -> bool:
        return bool(self._session.shouldfail or self._session.shouldstop)

    def _due(self, nextitem: pytest.Item) -> pytest.Item | None:
        """The first test to visit before the main loop's next test."""
        previous = self._previous
        due = [
            item
            for item, each in self._pending.items()
            if each.due <= self._begun and previous and comes_between(item, previous, nextitem)
        ]
        if not due or self._stopping:
            return None
        return min(due, key=lambda item: (self._pending[item].due, self._pending[item].order))

    def _next(self) -> pytest.Item:
        """The pending test to visit after all others: sessions that are due, then whose verdict is nearest, then,
        when the time is over, all that are to be concluded.
        """
        first = self._in_passes()[0]
        if self.time is None or not self._pending[first].waits:
            return first
        waiting = {item.nodeid: judgement for item in self._pending if (judgement := _paused(item))}
        test = self.time.choose(waiting)
        if test is None:
            self.time.end(waiting.values())
            return first
        return next(item for item in self._pending if item.nodeid == test)

    def _in_passes(self) -> list[pytest.Item]:
        """The pending visits: all second sessions before all third ones, in the user's order."""
        known = self._pending
        return sorted(
            known, key=lambda item: (known[item].waits, known[item].session, known[item].order)
        )

    def _following(self, nextitem: pytest.Item | None) -> pytest.Item | None:
        """The test that runs next, for pytest's ``nextitem``."""
        if nextitem is not None:
            return self._due(nextitem) or nextitem
        return next(iter(self._in_passes()), None)

    def _revisit(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        """Run a test again as pytest's main loop would."""
        self._revisited = self._pending.pop(item)
        reported = WorkerIndex(self._config)
        try:
            reported.set(self._revisited.order)
            self._config.hook.pytest_runtest_protocol(item=item, nextitem=nextitem)
        finally:
            self._revisited = None
            reported.restore()

    def _visit(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        """Like `_pytest.runner.runtestprotocol`, but holds the reports until it is known whether another visit
        follows."""
        again, hook = self._revisited, item.ihook
        visit = again or _Pending(self._session.items.index(item))
        claims = item.stash[TEST_CLAIMS] if again else TestClaims()
        item.stash[TEST_CLAIMS] = claims
        # A test with subtests cannot be visited again: they catch the exception that ends a visit.
        subtests = "subtests" in getattr(item, "fixturenames", ())
        claims.begin_visit(once="subtests would catch what ends a visit" if subtests else "")
        of_others = Visit(item)
        properties, travelled = list(item.user_properties), claims.reported
        # With one line per file, a later visit that ends nothing leaves no trace.
        started = again is None or self._shows_tests
        if started:
            hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        if again is not None:
            make_anew(item)
        try:
            reports = [call_and_report(item, "setup", log=False)]
            if reports[0].passed:
                reports.append(call_and_report(item, "call", log=False))
            if claims.continues:
                self._put_off(item, visit, claims)
            else:
                if not started:
                    hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
                _log(item, reports, visit)
            following: Any = None if self._stopping else self._following(nextitem)
            if following is item:  # it shares everything with itself but its own fixtures
                following = item.parent
            claims.ledger.begin_teardown()
            reports.append(call_and_report(item, "teardown", log=False, nextitem=following))
        except BaseException:
            claims.reported = travelled if claims.continues else claims.reported  # see below
            raise
        finally:
            forget_fixtures(item)
        if self.time is not None:
            beside = sum(each.duration for each in reports if each.when != "call")
            self.time.took(item.nodeid, beside)
        if claims.continues:
            visit.durations.update(
                (each.when, visit.durations.get(each.when, 0.0) + each.duration) for each in reports
            )
            claims.reported = travelled  # these reports were dropped with what they carried
            of_others.leave_out()
            _restore_properties(item, properties)
            self._show_session(claims)
            return
        if self._pending.pop(item, None) is None:
            _log(item, reports[-1:], visit)
        else:  # the teardown failed: there is nothing to continue
            vars(reports[-2])["vperf_verdict"] = "inconclusive"
            _log(item, reports, visit)
        hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)

    def _put_off(self, item: pytest.Item, visit: _Pending, claims: TestClaims) -> None:
        """Set when the test is due again."""
        paused = claims.ledger.paused
        assert paused is not None
        if paused.sampling.yielded:
            visit.waits, visit.session, visit.due = True, 0, math.inf
            self._pending[item] = visit
            return
        visit.waits = False
        visit.session = len(paused.sampling.sessions) + 1
        remaining = max(1, paused.sampling.planned - visit.session + 1)
        visit.due = self._begun + (self._total - self._begun) / remaining
        if visit.due >= self._total:
            visit.due = math.inf
        self._pending[item] = visit

    @property
    def _reporter(self) -> Any:
        return self._config.pluginmanager.get_plugin("terminalreporter")

    @property
    def _shows_tests(self) -> bool:
        """Whether the terminal has a line for each test."""
        return bool(getattr(self._reporter, "showlongtestinfo", False))

    def _show_session(self, claims: TestClaims) -> None:
        """End the test's line with the session that is over."""
        if self._shows_tests and claims.ledger.paused is not None and self._reporter.currentfspath:
            session = claims.ledger.paused.sampling.session or "more follows"
            self._reporter.write_ensure_prefix(self._reporter.currentfspath, session)


def _paused(item: pytest.Item) -> Judgement | None:
    """The judgement that ended the latest visit to a test."""
    return item.stash[TEST_CLAIMS].ledger.paused


def _log(item: pytest.Item, reports: Iterable[pytest.TestReport], visit: _Pending) -> None:
    """Log the reports of a test's last visit, with the duration of all its visits."""
    for report in reports:
        report.duration += visit.durations.get(report.when, 0.0)
        item.ihook.pytest_runtest_logreport(report=report)


def _restore_properties(item: pytest.Item, before: list[tuple[str, object]]) -> None:
    """Remove the properties that the next visit records anew: all but those of claims that have ended."""
    new = [each for each in item.user_properties if each not in before]
    item.user_properties[:] = [*before, *(each for each in new if each[0].startswith("vperf."))]
