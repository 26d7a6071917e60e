"""When a test is run again, so that the sessions of its claims are spread over the run.

A claim about a limit is judged in several sessions. Each of them is a visit to its test: the test runs as any
other, and a claim whose session is over ends it. The first visit comes in the user's order; the second when half
of what then remained of the run is over, at the first place from there on where it ends no fixture that other tests
share, see `pytest_vperf.run.visits`; the rest after the last test, in passes in the user's order. So the sessions
of a claim are as far apart as the run allows, and nobody waits.

pytest sees each test once: the reports of a visit that another one follows are not logged.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import pytest
from _pytest.runner import call_and_report, runtestprotocol

from pytest_vperf.run.outcomes import TEST_CLAIMS, TestClaims

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Iterable, Mapping


# Where in a run a test may be visited again: never between two tests that share a fixture which the visit would
# end.
#
# pytest ends the fixtures of a class, module or package as soon as a test from elsewhere is next. In the user's
# order that is after the last of its tests; a visit in their midst would end them, and make them anew, under the
# tests that share them.

#: A folder that is no package holds no fixtures. Older versions of pytest do not collect such folders.
_FOLDER: type | None = getattr(pytest, "Dir", None)


def comes_between(visited: pytest.Item, previous: pytest.Item, following: pytest.Item) -> bool:
    """Whether a test may be visited between two others, without an end to anything that they share."""
    own = set(visited.listchain())
    shared = set(previous.listchain()) & set(following.listchain())
    if any(node not in own and type(node) is not _FOLDER for node in shared):
        return False
    # A fixture with parameters is made anew for each of them.
    first, second, third = map(_parameters, (previous, following, visited))
    return not any(
        second.get(name) == value != third.get(name, value) for name, value in first.items()
    )


def _parameters(item: pytest.Item) -> Mapping[str, int]:
    """Which parameter a test has of each fixture that several tests share."""
    call: Any = getattr(item, "callspec", None)
    scopes = getattr(call, "_arg2scope", {})
    return {
        name: number
        for name, number in getattr(call, "indices", {}).items()
        if getattr(scopes.get(name), "value", "function") != "function"
    }


#: Options and markers of plug-ins that run a test in a way of their own, several times or in another process, and
#: of pytest where it shows how a test is set up: such a test is visited once.
_OPTIONS = ("reruns", "force_flaky", "forked", "setupshow", "setuponly")
_MARKERS = ("flaky", "forked")


@dataclass
class _Pending:
    """A test that is to be visited again.

    Attributes:
        order: its place in the user's order.
        due: before which test of the run it is due at the earliest, counted from 0; at the number of tests: after
            them all.
        session: which session is next, from 2 on.
        durations: seconds that each phase took in its earlier visits.
    """

    order: int
    due: float = 0.0
    session: int = 2
    durations: dict[str, float] = field(default_factory=dict)


class Visits:
    """The visits of one run; in a pytest-xdist worker, of that worker's share. A plug-in of its own.

    Args:
        session: pytest's.
        claiming: the tests that ask for a claim.
    """

    def __init__(self, session: pytest.Session, claiming: Collection[pytest.Item]) -> None:
        self._session = session
        self._claiming = claiming
        self._config = session.config
        # A worker does not know its share beforehand.
        workers = getattr(session.config, "workerinput", {}).get("workercount", 1)
        self._total = math.ceil(len(session.items) / workers)
        self._begun = 0
        self._previous: pytest.Item | None = None
        self._pending: dict[pytest.Item, _Pending] = {}
        self._revisited: _Pending | None = None

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, object, object]:
        """Around a test of the main loop: what is due before it, and after the last one all the rest."""
        if self._revisited is not None:
            return (yield)
        while due := self._due(item):
            self._revisit(due, item)
        self._begun += 1
        self._previous = item
        result = yield
        if nextitem is None:
            # pytest's loop ends after this test as it does after any other: it looks at -x and Ctrl-C itself.
            while self._pending and not self._stopping:
                self._revisit(self._in_passes()[0], None)
        return result

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Before a visit between two tests: leave the folders that only those two share."""
        if self._revisited is not None:
            item.session._setupstate.teardown_exact(item)

    def run(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        """The protocol of a test; ``None`` leaves it to others."""
        if self._stopping:
            return True  # a visit before this test has ended the run
        if _left_to_others(item):
            return None
        if item in self._claiming:
            self._visit(item, nextitem)
            return True
        following = self._following(None)
        if nextitem is not None or following is None:
            return None
        # The last test, and visits remain: they need the fixtures of the session.
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        runtestprotocol(item, nextitem=following)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    @property
    def _stopping(self) -> bool:
        return bool(self._session.shouldfail or self._session.shouldstop)

    def _due(self, nextitem: pytest.Item) -> pytest.Item | None:
        """The first test to be visited between the last one of the main loop and its next one."""
        previous = self._previous
        due = [
            item
            for item, each in self._pending.items()
            if each.due <= self._begun and previous and comes_between(item, previous, nextitem)
        ]
        if not due or self._stopping:
            return None
        return min(due, key=lambda item: (self._pending[item].due, self._pending[item].order))

    def _in_passes(self) -> list[pytest.Item]:
        """What is pending, all second sessions before all third ones, in the user's order."""
        known = self._pending
        return sorted(known, key=lambda item: (known[item].session, known[item].order))

    def _following(self, nextitem: pytest.Item | None) -> pytest.Item | None:
        """Which test runs next, where pytest says ``nextitem``."""
        if nextitem is not None:
            return self._due(nextitem) or nextitem
        return next(iter(self._in_passes()), None)

    def _revisit(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        """Run a test again, as pytest's main loop does."""
        self._revisited = self._pending.pop(item)
        worker: Any = next(
            (each for each in self._config.pluginmanager.get_plugins() if _is_worker(each)), None
        )
        index = getattr(worker, "item_index", None)
        try:
            if worker is not None:  # what a worker of pytest-xdist reports, it reports of this one
                worker.item_index = self._revisited.order
            self._config.hook.pytest_runtest_protocol(item=item, nextitem=nextitem)
        finally:
            self._revisited = None
            if worker is not None:
                worker.item_index = index

    def _visit(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        """As `_pytest.runner.runtestprotocol`, but its reports are held until it is known whether another follows."""
        again, hook, known = self._revisited, item.ihook, cast("Any", item)
        visit = again or _Pending(self._session.items.index(item))
        claims = item.stash[TEST_CLAIMS] if again else TestClaims()
        item.stash[TEST_CLAIMS] = claims
        claims.begin_visit(revisited="subtests" not in getattr(item, "fixturenames", ()))
        properties, travelled = list(item.user_properties), claims.reported
        # In one line per file, a later visit that ends nothing leaves no trace.
        started = again is None or self._shows_tests
        if started:
            hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        if again is not None:
            _as_new(item)
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
            if following is item:  # what it shares with itself is all but its own fixtures
                following = item.parent
            claims.ledger.begin_teardown()
            reports.append(call_and_report(item, "teardown", log=False, nextitem=following))
        except BaseException:
            claims.reported = travelled if claims.continues else claims.reported  # see below
            raise
        finally:
            if hasattr(known, "_request"):
                known._request = False
                known.funcargs = None
        if claims.continues:
            visit.durations.update(
                (each.when, visit.durations.get(each.when, 0.0) + each.duration) for each in reports
            )
            claims.reported = travelled  # what was put on these reports has gone nowhere
            _restore_properties(item, properties)
            self._show_session(claims)
            return
        if self._pending.pop(item, None) is None:
            _log(item, reports[-1:], visit)
        else:  # the teardown failed, which ended what was to be continued
            vars(reports[-2])["vperf_verdict"] = "inconclusive"
            _log(item, reports, visit)
        hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)

    def _put_off(self, item: pytest.Item, visit: _Pending, claims: TestClaims) -> None:
        """Say when the test is due again."""
        paused = claims.ledger.paused
        assert paused is not None
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
            session = claims.ledger.paused.sampling.session
            self._reporter.write_ensure_prefix(self._reporter.currentfspath, session)


def _log(item: pytest.Item, reports: Iterable[pytest.TestReport], visit: _Pending) -> None:
    """Log the reports of a test's last visit, with the time of all its visits."""
    for report in reports:
        report.duration += visit.durations.get(report.when, 0.0)
        item.ihook.pytest_runtest_logreport(report=report)


def _restore_properties(item: pytest.Item, before: list[tuple[str, object]]) -> None:
    """Take back what a visit recorded that is recorded anew in the next one: all but claims that have ended."""
    new = [each for each in item.user_properties if each not in before]
    item.user_properties[:] = [*before, *(each for each in new if each[0].startswith("vperf."))]


def _as_new(item: pytest.Item) -> None:
    """Give a test that has run what it had before: a request, and an instance of its class that nobody has used."""
    known: Any = item
    if getattr(known, "_request", None) is False:
        known._initrequest()
    if isinstance(item.parent, pytest.Class) and hasattr(known, "_getobj"):
        vars(item).pop("_instance", None)
        known.obj = known._getobj()


def _left_to_others(item: pytest.Item) -> bool:
    """Whether a test is run in another way than pytest's own."""
    option = item.config.getoption
    if any(option(name, None) for name in _OPTIONS):
        return True
    return any(item.get_closest_marker(name) for name in _MARKERS)


def _is_worker(plugin: object) -> bool:
    # By its name: a worker gets its module as a text to execute.
    return type(plugin).__name__ == "WorkerInteractor"
