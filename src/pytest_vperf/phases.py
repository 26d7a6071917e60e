"""The way of a test's verdicts: from its phases to its report, and from a worker to the controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_vperf import outcomes
from pytest_vperf.stash import TEST_CLAIMS, claims_session

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_vperf.outcomes import TestClaims
    from pytest_vperf.settings import Mode


def decide(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Before pytest reports a phase: make the verdicts its outcome.

    pytest's own unittest plug-in has the precedent: it puts another exception in ``call.excinfo``.
    """
    if call.when not in ("setup", "call"):
        return
    claims = item.stash.get(TEST_CLAIMS, None)
    error = call.excinfo.value if call.excinfo else None
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


def _hides(error: BaseException, claims: TestClaims, mode: Mode) -> bool:
    """Whether a test skips itself after a claim whose verdict is to fail it."""
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
    """A target cannot be had, and it was no sampler that found out: nothing could be measured."""
    from pytest_vperf import require
    from pytest_vperf.fixtures import asks_for_claim
    from pytest_vperf.results.record import unmeasured
    from pytest_vperf.results.run import now

    session, reason = claims_session(item.config), str(error)
    target = str(getattr(error, "target", ""))
    strict = session.settings.mode == "strict"
    if not asks_for_claim(item):
        strict = strict or require.names(target)
        outcomes.not_proven(f"not measured: {reason}", strict=strict, name=item.name)
    claims = item.stash.setdefault(TEST_CLAIMS, outcomes.TestClaims())
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
    """After pytest reported a phase: give the report the verdict, and the records that have not travelled yet."""
    claims: TestClaims | None = item.stash.get(TEST_CLAIMS, None)
    if claims is None:
        return
    carried = vars(report)  # what pytest-xdist serialises
    if error := claims_session(item.config).usage_error:
        carried["vperf_usage_error"] = error
    if report.when != "teardown" and claims.verdict is not None:
        carried["vperf_verdict"] = claims.verdict
        claims.verdict = None
    if len(claims.records) > claims.reported:
        carried["vperf_claims"] = claims.records[claims.reported :]
        claims.reported = len(claims.records)
