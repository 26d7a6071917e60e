"""How verdicts get from a test's phases into its report, and from an xdist worker to the controller."""

from __future__ import annotations

import unittest
from typing import TYPE_CHECKING

import pytest

from pytest_vperf.pytest_internals import is_strict_xfail, take_unittest_error
from pytest_vperf.results.record import to_wire
from pytest_vperf.run import outcomes
from pytest_vperf.run.outcomes import TEST_CLAIMS
from pytest_vperf.run.result import fails
from pytest_vperf.run.stash import claims_session

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_vperf.run.options import Level
    from pytest_vperf.run.outcomes import TestClaims


def decide(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Make the verdicts the outcome of a phase, before pytest reports it. As pytest's own unittest plug-in does, it
    replaces the exception in ``call.excinfo``.
    """
    session = claims_session(item.config)
    claims = item.stash.get(TEST_CLAIMS, None)
    if claims is not None:
        _take_from_unittest(item, call)
    error = call.excinfo.value if call.excinfo else None
    if claims is not None and (error is not None or call.when == "call"):
        if _continues(call, claims):
            return
        known = claims
        _replace(call, lambda: session.keep_begun(item, known, "test"))
    if call.when == "teardown":
        if claims is not None and not claims.continues and (error is None or _is_soft(error)):
            if claims.skipped:
                _keep_passed_over(item, claims)
            known = claims
            _replace(call, lambda: outcomes.end_teardown(known, session.settings.level))
        return
    if claims is not None and error is not None:
        claims.over = True
    if outcomes.unavailable(error):
        _replace(call, lambda: _unavailable(item, error))
        return
    if isinstance(error, _SKIPS):
        claims = _pass_over(item, f"skipped: {error}")
    if claims is None:
        return
    if isinstance(error, outcomes.ClaimRefuted):
        claims.verdict = "refuted"
        return
    known, level = claims, session.settings.level
    ended = call.when == "call" and error is None
    expected = isinstance(error, pytest.xfail.Exception) and _is_strict_xfail(item)
    if ended or (_is_soft(error) and not expected and _hides(claims, level)):
        _replace(call, lambda: outcomes.end_test(known, level))


def decide_subtest(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Turn an unavailable target into a skip of the subtest, before pytest reports it. Everything else is decided by
    the test."""
    error = call.excinfo.value if call.excinfo else None
    if not outcomes.unavailable(error):
        return
    _replace(call, lambda: _unavailable(item, error))
    if (claims := item.stash.get(TEST_CLAIMS, None)) is not None:
        claims.verdict = None  # the test goes on, and its verdict comes at its end


def _continues(call: pytest.CallInfo[None], claims: TestClaims) -> bool:
    """Whether this visit ends here and another follows, even if the test caught the exception that ends it."""
    claims.continues = False
    paused = claims.ledger.paused
    if paused is None or call.when == "teardown":
        return False  # a failed teardown must be reported
    if call.excinfo is None:
        _replace(call, lambda: outcomes.pause(paused))
    claims.continues = isinstance(call.excinfo and call.excinfo.value, outcomes.ToBeContinued)
    return claims.continues


#: Raised to skip a test.
_SKIPS = (pytest.skip.Exception, unittest.SkipTest)


def _is_soft(error: BaseException | None) -> bool:
    """Whether an error does not fail a test: it skips it, or says that it is expected to fail."""
    return isinstance(error, (*_SKIPS, pytest.xfail.Exception))


def _hides(claims: TestClaims, level: Level) -> bool:
    """Whether a test that does not fail would hide a verdict that is to fail it."""
    return any(fails(level, record["verdict"]) for record in claims.records)


def _take_from_unittest(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Make the error of a ``unittest.TestCase`` that of the phase, as pytest's own plug-in does after us."""
    if (error := take_unittest_error(item)) is not None:
        call.excinfo = error


def _replace(call: pytest.CallInfo[None], conclude: Callable[[], None]) -> None:
    try:
        conclude()
    except BaseException:
        call.excinfo = pytest.ExceptionInfo.from_current()


def _unavailable(item: pytest.Item, error: BaseException | None) -> None:
    """Record a claim as not measured because a target was unavailable outside any sampler."""
    from pytest_vperf.run import required

    session, reason = claims_session(item.config), str(error)
    target = str(getattr(error, "target", ""))
    fail = fails(session.settings.level, "not measured")
    if item not in session.claiming:
        fail = fail or required.names(target)
        outcomes.not_proven(f"not measured: {reason}", fail=fail, name=item.name)
    claims = item.stash.setdefault(TEST_CLAIMS, outcomes.TestClaims())
    if claims.records and not claims.named:
        # An earlier visit to the test has measured what there is.
        outcomes.end_test(claims, session.settings.level)
        return
    claims.verdict = "not measured"
    if claims.named:
        claims.named[-1].missing = True
    name = claims.current or item.name
    _keep_unmeasured(item, name, reason, target)
    outcomes.not_proven(f"not measured: {reason}", fail=fail, name=name)


def _pass_over(item: pytest.Item, why: str) -> TestClaims | None:
    """Note that a test was skipped, or failed as expected: what it has not judged is not measured. Where a fixture
    may still judge it, that is known in the end.
    """
    claims: TestClaims | None = item.stash.get(TEST_CLAIMS, None)
    if claims is None and item in claims_session(item.config).claiming:
        # It ended before it got `claim`.
        claims = item.stash[TEST_CLAIMS] = outcomes.TestClaims()
    if claims is not None:
        claims.skipped, claims.over = why, True
        if not claims.in_teardown:
            _keep_passed_over(item, claims)
    return claims


def _keep_passed_over(item: pytest.Item, claims: TestClaims) -> None:
    for named in claims.unjudged:
        if named is not None:
            named.missing = True
        _keep_unmeasured(item, named.name if named else item.name, claims.skipped)
        claims.verdict = "not measured"


def _keep_unmeasured(item: pytest.Item, name: str, reason: str, target: str = "") -> None:
    from pytest_vperf.results.record import unmeasured
    from pytest_vperf.results.run import now

    session = claims_session(item.config)
    record = unmeasured(
        name,
        reason,
        target=target,
        nodeid=item.nodeid,
        started_at=now(),
        budget=session.settings.budget,
        seed=session.settings.seed,
        mismatches=session.mismatches,
    )
    session.keep(item, record)


def attach(item: pytest.Item, report: pytest.TestReport) -> None:
    """Attach the verdict, and the records not carried by an earlier report, to the report of a phase."""
    session = claims_session(item.config)
    as_expected = hasattr(report, "wasxfail") and report.skipped
    if as_expected:
        reason = str(report.wasxfail).removeprefix("reason: ")
        _pass_over(item, f"expected to fail: {reason}" if reason else "expected to fail")
    claims: TestClaims | None = item.stash.get(TEST_CLAIMS, None)
    if claims is None or claims.continues:
        return
    carried = vars(report)  # what pytest-xdist serialises
    if error := session.usage_error:
        carried["vperf_usage_error"] = error
    if as_expected and _is_strict_xfail(item):
        carried["vperf_excused"] = True
    if report.when != "teardown" and claims.verdict is not None:
        carried["vperf_verdict"] = claims.verdict
        claims.verdict = None
    records = claims.not_reported()
    if records and session.is_worker:  # elsewhere they are in the run's record already
        carried["vperf_claims"] = to_wire(records)


def _is_strict_xfail(item: pytest.Item) -> bool:
    """Whether a test fails if it does not fail as expected: one that did so says what it was told to say."""
    # unittest.expectedFailure is always strict.
    own = getattr(getattr(item, "obj", None), "__unittest_expecting_failure__", False)
    return bool(own) or is_strict_xfail(item)
