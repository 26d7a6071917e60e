"""How a verdict becomes a test's outcome, and what pytest calls it.

The outcome is set in the test's call phase, so JUnit, ``-x``, ``--maxfail``, xfail and plug-ins that rerun tests see
it. A refuted claim fails the test at once. Any other verdict short of a pass waits for the end of the test, so that
the test's other claims are measured too, and then skips it, or fails it where the level says so.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn

import pytest

from pytest_vperf.claims.circumstances import Ledger
from pytest_vperf.pytest_internals import Failed, Skipped
from pytest_vperf.reporting.words import OUTCOMES
from pytest_vperf.run.result import fails

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_vperf.claims.claim import Claim
    from pytest_vperf.claims.judgement import Judgement
    from pytest_vperf.results.record import ClaimRecord
    from pytest_vperf.run.options import Level


class _ClaimFailure(Failed, AssertionError):
    """A failure that pytest prints without a traceback: its text is complete."""

    def __init__(self, text: str) -> None:
        super().__init__(text, pytrace=False)


class ClaimRefuted(_ClaimFailure):
    """The samples show that a claim does not hold."""


class ClaimUndecided(_ClaimFailure):
    """At a level that fails it: a claim was not measured, or not shown to hold."""


class ToBeContinued(Skipped):
    """A session of a claim is over; its test will run again for the next one. It is a skip so that ``--pdb`` and
    others that see it first do not take it for a failure.
    """

    def __init__(self, judgement: Judgement) -> None:
        over = judgement.sampling.session or "its time"
        super().__init__(f"{judgement.name}: {over} is over, and more follows later in the run")
        self._use_item_location = True  # the line of the test, not this one


class ClaimUnjudged(_ClaimFailure):
    """A test asked for `claim` and judged nothing, or not all that it named."""

    def __init__(self, named: Named | None) -> None:
        call = "call .holds(…), .compares(…), .near(…) or .saturates(…)"
        if named is None:
            text = f"claimed nothing: this test asks for `claim` and judges none: claim(NAME), then {call}"
        elif named.error:
            text = f"claim {named.name!r} was never judged: {named.error}"
        else:
            text = f"claim {named.name!r} was named but never judged: {call}"
        super().__init__(text)


# As pytest has it for its own: the short summary shows the bare name.
for _kind in (ClaimRefuted, ClaimUndecided, ClaimUnjudged, ToBeContinued):
    _kind.__module__ = "builtins"


@dataclass
class Named:
    """A name that a test gave to ``claim``.

    Attributes:
        name: of the claim.
        claim: what the test got for it; ``None`` where nothing is judged, as in a calibration.
        error: why it got none.
        missing: whether a target was unavailable outside any sampler, which its record says.
    """

    name: str
    claim: Claim | None = None
    error: str = ""
    missing: bool = False

    @property
    def judged(self) -> bool:
        """Whether it was judged, whatever came of it."""
        return self.missing or (not self.error and (self.claim is None or self.claim.judged))


@dataclass
class TestClaims:
    """The claims of one test while it runs, over all visits to it.

    Attributes:
        ledger: what outlives a visit. prepared: whether we are about to run a visit; otherwise somebody else runs the
            test. continues: whether this visit ended so that another can follow. records: of the claims that ended.
            reported: how many of them a report has carried already.
        named: the names the test gave to ``claim``, in order.
        in_teardown: whether a fixture got ``claim``, and may judge only in its teardown. over: whether the test ended
            early, or was found to have judged too little: that it judged nothing need not be said (again).
        skipped: why the test was skipped, or failed as expected, before it had judged what it named; empty if not.
        attempt: counted up from 1 when a plug-in runs the test again.
        refutation: the text of the first refuted claim that was to fail the test; empty without one.
        verdict: the test's, once it is known.
    """

    __test__ = False

    ledger: Ledger = field(default_factory=Ledger)
    prepared: bool = False
    continues: bool = False
    records: list[ClaimRecord] = field(default_factory=list)
    reported: int = 0
    named: list[Named] = field(default_factory=list)
    in_teardown: bool = False
    over: bool = False
    skipped: str = ""
    attempt: int = 1
    refutation: str = ""
    verdict: str | None = None

    def begin_visit(self, *, once: str) -> None:
        """Note that `Visits` runs the test, and will run it again if a claim needs that."""
        self.prepared, self.continues, self.over, self.skipped = True, False, False, ""
        self.ledger.begin_visit(once=once)
        self.named.clear()

    @property
    def current(self) -> str | None:
        """The claim named last, which an `Unavailable` raised outside a sampler is about."""
        return self.named[-1].name if self.named else None

    @property
    def unjudged(self) -> Sequence[Named | None]:
        """What the test named and did not judge; ``None`` for a test that did neither."""
        left = [each for each in self.named if not each.judged]
        return left if self.named or self.records else [None]

    def check_judged(self) -> None:
        """Refuse to let a test pass that judged nothing, or not all that it named.

        Raises:
            ClaimUnjudged: it did so.
        """
        if left := self.unjudged:
            self.over = True
            raise ClaimUnjudged(left[0])

    def gravest(self, level: Level) -> ClaimRecord | None:
        """The first of the gravest records, of those that fail the test if there are any; ``None`` without any."""
        order = list(OUTCOMES)
        failing = [record for record in self.records if fails(level, record["verdict"])]
        return max(
            failing or self.records,
            key=lambda record: order.index(record["verdict"]),
            default=None,
        )

    def not_reported(self) -> list[ClaimRecord]:
        """Take the records that no report has carried yet."""
        left = self.records[self.reported :]
        self.reported = len(self.records)
        return left


#: On a test: its claims.
TEST_CLAIMS: pytest.StashKey[TestClaims] = pytest.StashKey()


def end_test(claims: TestClaims, level: Level) -> None:
    """Turn the worst verdict of a test that ran to its end into the test's outcome.

    Raises:
        ClaimRefuted: a claim was refuted, and the test caught the error that said so.
        ClaimUnjudged: the test judged nothing, or not all that it named, at every level: that is no verdict.
        ClaimUndecided: a claim was not shown to hold, and the level fails that.
        pytest.skip.Exception: a claim was not shown to hold; a refuted one only where nothing fails.
    """
    record = claims.gravest(level)
    if record is not None and record["verdict"] == "refuted" and fails(level, "refuted"):
        claims.verdict = "refuted"
        raise _refuted(claims, record) from None
    if not claims.in_teardown:
        claims.check_judged()
    if record is None:
        return
    claims.verdict = record["verdict"]
    if record["verdict"] == "holds":
        return
    others = sum(each["verdict"] != "holds" for each in claims.records) - 1
    word = record["verdict"] + (" (advisory)" if record["verdict"] == "refuted" else "")
    text = f"{word}: {record['reason']}" + (f" (and {others} more)" if others else "")
    not_proven(text, fail=fails(level, record["verdict"]), name=record["name"])


def end_teardown(claims: TestClaims, level: Level) -> None:
    """Fail the test for claims that fixtures judged in teardown: too late to skip it.

    Raises:
        ClaimRefuted: such a claim was refuted, and the fixture caught the error that said so.
        ClaimUndecided: such a claim was not shown to hold, and the level fails that.
        ClaimUnjudged: up to now nothing was judged, or not all that was named.
    """
    for record in claims.records[claims.reported :]:
        if record["verdict"] == "refuted" and fails(level, "refuted"):
            raise _refuted(claims, record) from None
        if fails(level, record["verdict"]):
            text = f"{record['verdict']}: {record['reason']}"
            not_proven(text, fail=True, name=record["name"])
    if not claims.over:
        claims.check_judged()


def _refuted(claims: TestClaims, record: ClaimRecord) -> ClaimRefuted:
    return ClaimRefuted(claims.refutation or f"{record['name']} is refuted: {record['reason']}")


def pause(judgement: Judgement) -> NoReturn:
    """End this visit to a test.

    Raises:
        ToBeContinued: always.
    """
    __tracebackhide__ = True
    raise ToBeContinued(judgement)


def not_proven(text: str, *, fail: bool, name: str) -> NoReturn:
    """Fail the running test, or skip it.

    Raises:
        ClaimUndecided: it fails.
        pytest.skip.Exception: otherwise.
    """
    if fail:
        raise ClaimUndecided(f"{name} was not shown to hold: {text}")
    skipped = pytest.skip.Exception(text)
    skipped._use_item_location = True  # the line of the test, not this one
    raise skipped


def unavailable(error: BaseException | None) -> bool:
    """Whether an error is `Unavailable`. Imports nothing to find out."""
    base = sys.modules.get("pytest_vperf.targets.base")
    return base is not None and isinstance(error, base.Unavailable)


def status(report: pytest.TestReport) -> tuple[str, str, str] | None:
    """The category, letter and word for a report that a claim decided; ``None`` for any other.

    The word gets no colour of its own: pytest's green, red and yellow for passed, failed and skipped already fit.
    """
    verdict = getattr(report, "vperf_verdict", None)
    if verdict is None or hasattr(report, "wasxfail"):
        return None
    if report.outcome not in ("passed", "failed", "skipped"):
        return None  # a plug-in that runs tests again tells of a run that does not count
    if (verdict == "holds") != report.passed:
        return None  # somebody changed the outcome: xfail(strict=True) and a claim that holds
    return OUTCOMES[verdict]
