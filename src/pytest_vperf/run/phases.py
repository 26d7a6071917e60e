"""How verdicts get from a test's phases into its report, and from an xdist worker to the controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_vperf.results.record import to_wire
from pytest_vperf.run import outcomes
from pytest_vperf.run.outcomes import TEST_CLAIMS
from pytest_vperf.run.stash import claims_session

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_vperf.run.outcomes import TestClaims
    from pytest_vperf.run.settings import Mode


def decide(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Make the verdicts the outcome of a phase, before pytest reports it. As pytest's own unittest plug-in does, it
    replaces the exception in ``call.excinfo``.
    """
    claims = item.stash.get(TEST_CLAIMS, None)
    error = call.excinfo.value if call.excinfo else None
    if claims is not None and (error is not None or call.when == "call"):
        if _continues(call, claims):
            return
        _replace(call, lambda: claims_session(item.config).keep_begun(item, claims, "test"))
    if call.when == "teardown":
        if claims is not None and error is None and not claims.continues:
            known, strict = claims, claims_session(item.config).settings.mode == "strict"
            _replace(call, lambda: outcomes.end_teardown(known, strict=strict))
        return
    if outcomes.unavailable(error):
        _replace(call, lambda: _unavailable(item, error))
    elif claims is None:
        return
    elif isinstance(error, outcomes.ClaimRefuted):
        claims.verdict = "refuted"
    elif call.when == "call":
        mode = claims_session(item.config).settings.mode
        if error is None or _hides(error, claims, mode):
            _replace(call, lambda: outcomes.end_test(claims, mode))


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


def _hides(error: BaseException, claims: TestClaims, mode: Mode) -> bool:
    """Whether a test skips although the verdict of one of its claims is to fail it."""
    if not isinstance(error, pytest.skip.Exception):
        return False
    refuted = any(record["verdict"] == "refuted" for record in claims.records)
    return bool(claims.records) and (mode == "strict" or (refuted and mode != "advisory"))


def _replace(call: pytest.CallInfo[None], conclude: Callable[[], None]) -> None:
    try:
        conclude()
    except BaseException:
        call.excinfo = pytest.ExceptionInfo.from_current()


def _unavailable(item: pytest.Item, error: BaseException | None) -> None:
    """Record a claim as not measured because a target was unavailable outside any sampler."""
    from pytest_vperf.results import run
    from pytest_vperf.results.record import unmeasured
    from pytest_vperf.results.run import now

    session, reason = claims_session(item.config), str(error)
    target = str(getattr(error, "target", ""))
    strict = session.settings.mode == "strict"
    if item not in session.claiming:
        strict = strict or run.names(target)
        outcomes.not_proven(f"not measured: {reason}", strict=strict, name=item.name)
    claims = item.stash.setdefault(TEST_CLAIMS, outcomes.TestClaims())
    if claims.records and not claims.named:
        # An earlier visit to the test has measured what there is.
        outcomes.end_test(claims, session.settings.mode)
        return
    claims.verdict = "not measured"
    record = unmeasured(
        claims.current or item.name,
        reason,
        target=target,
        nodeid=item.nodeid,
        started_at=now(),
        budget=session.settings.budget,
        seed=session.settings.seed,
        mismatches=session.mismatches,
    )
    session.keep(item, record)
    outcomes.not_proven(f"not measured: {reason}", strict=strict, name=record["name"])


def attach(item: pytest.Item, report: pytest.TestReport) -> None:
    """Attach the verdict, and the records not carried by an earlier report, to the report of a phase."""
    claims: TestClaims | None = item.stash.get(TEST_CLAIMS, None)
    if claims is None or claims.continues:
        return
    carried = vars(report)  # what pytest-xdist serialises
    session = claims_session(item.config)
    if error := session.usage_error:
        carried["vperf_usage_error"] = error
    if report.when != "teardown" and claims.verdict is not None:
        carried["vperf_verdict"] = claims.verdict
        claims.verdict = None
    records = claims.not_reported()
    if records and session.is_worker:  # elsewhere they are in the run's record already
        carried["vperf_claims"] = to_wire(records)
