"""How a verdict becomes a test's outcome, and what pytest calls it.

The outcome is set in the test's call phase, so JUnit, ``-x``, ``--maxfail``, xfail and plug-ins that rerun tests see
it. A refuted claim fails the test at once. Any other verdict short of a pass waits for the end of the test, so that
the test's other claims are measured too, and then skips it, or fails it in strict mode.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn

import pytest
from _pytest.outcomes import Failed, Skipped  # pytest.fail.Exception and so on, with a type

from pytest_vperf.claims.circumstances import Ledger
from pytest_vperf.reporting.words import OUTCOMES

if TYPE_CHECKING:
    from pytest_vperf.claims.judgement import Judgement
    from pytest_vperf.results.record import ClaimRecord
    from pytest_vperf.run.settings import Mode


class _ClaimFailure(Failed, AssertionError):
    """A failure that pytest prints without a traceback: its text is complete."""

    def __init__(self, text: str) -> None:
        super().__init__(text, pytrace=False)


class ClaimRefuted(_ClaimFailure):
    """The samples show that a claim does not hold."""


class ClaimUndecided(_ClaimFailure):
    """Under ``--claims-strict``: a claim was not shown to hold."""


class ToBeContinued(Skipped):
    """A session of a claim is over; its test will run again for the next one. It is a skip so that ``--pdb`` and
    others that see it first do not take it for a failure.
    """

    def __init__(self, judgement: Judgement) -> None:
        over = judgement.sampling.session
        super().__init__(f"{judgement.name}: {over} is over, the next one follows later in the run")
        self._use_item_location = True  # the line of the test, not this one


class ClaimUnjudged(_ClaimFailure):
    """A test named a claim and ended without a sample for it."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"claim {name!r} was named but never judged: call .holds(…), .compares(…) or .near(…)"
        )


# As pytest has it for its own: the short summary shows the bare name.
for _kind in (ClaimRefuted, ClaimUndecided, ClaimUnjudged, ToBeContinued):
    _kind.__module__ = "builtins"


@dataclass
class TestClaims:
    """The claims of one test while it runs, over all visits to it.

    Attributes:
        ledger: what outlives a visit. prepared: whether we are about to run a visit; otherwise somebody else runs the
            test. continues: whether this visit ended so that another can follow. records: of the claims that ended.
            reported: how many of them a report has carried already.
        named: the names the test gave to ``claim``, in order.
        refutation: the text of the first refuted claim that was to fail the test; empty without one.
        verdict: the test's, once it is known.
    """

    __test__ = False

    ledger: Ledger = field(default_factory=Ledger)
    prepared: bool = False
    continues: bool = False
    records: list[ClaimRecord] = field(default_factory=list)
    reported: int = 0
    named: list[str] = field(default_factory=list)
    refutation: str = ""
    verdict: str | None = None

    def begin_visit(self, *, revisited: bool) -> None:
        """Note that `Visits` runs the test, and will run it again if a claim needs that."""
        self.prepared, self.continues = True, False
        self.ledger.begin_visit(revisited=revisited)
        self.named.clear()

    @property
    def current(self) -> str | None:
        """The claim named last, which an `Unavailable` raised outside a sampler is about."""
        return self.named[-1] if self.named else None

    @property
    def unjudged(self) -> str | None:
        """The first name that has no record; ``None`` where all have one."""
        judged = {record["name"] for record in self.records}
        return next((name for name in self.named if name not in judged), None)

    def gravest(self) -> ClaimRecord | None:
        """The first of the gravest records; ``None`` without any."""
        order = list(OUTCOMES)
        return max(self.records, key=lambda record: order.index(record["verdict"]), default=None)

    def not_reported(self) -> list[ClaimRecord]:
        """Take the records that no report has carried yet."""
        left = self.records[self.reported :]
        self.reported = len(self.records)
        return left


#: On a test: its claims.
TEST_CLAIMS: pytest.StashKey[TestClaims] = pytest.StashKey()


def end_test(claims: TestClaims, mode: Mode) -> None:
    """Turn the worst verdict of a test that ran to its end into the test's outcome.

    Raises:
        ClaimRefuted: a claim was refuted, and the test caught the error that said so.
        ClaimUnjudged: the test named a claim and did not judge it, in every mode: that is no verdict.
        ClaimUndecided: strict, and a claim was not shown to hold.
        pytest.skip.Exception: a claim was not shown to hold; a refuted one in advisory mode only.
    """
    record = claims.gravest()
    if record is not None and record["verdict"] == "refuted" and mode != "advisory":
        claims.verdict = "refuted"
        raise ClaimRefuted(
            claims.refutation or f"{record['name']} is refuted: {record['reason']}"
        ) from None
    if claims.unjudged is not None:
        raise ClaimUnjudged(claims.unjudged) from None
    if record is None:
        return
    claims.verdict = record["verdict"]
    if record["verdict"] == "holds":
        return
    others = sum(each["verdict"] != "holds" for each in claims.records) - 1
    word = record["verdict"] + (" (advisory)" if record["verdict"] == "refuted" else "")
    text = f"{word}: {record['reason']}" + (f" (and {others} more)" if others else "")
    not_proven(text, strict=mode == "strict", name=record["name"])


def end_teardown(claims: TestClaims, *, strict: bool) -> None:
    """Fail the test, in strict mode, for claims that fixtures judged in teardown: too late to skip it.

    Raises:
        ClaimUndecided: strict, and such a claim was not shown to hold.
    """
    for record in claims.records[claims.reported :]:
        if strict and record["verdict"] != "holds":
            text = f"{record['verdict']}: {record['reason']}"
            not_proven(text, strict=True, name=record["name"])


def pause(judgement: Judgement) -> NoReturn:
    """End this visit to a test.

    Raises:
        ToBeContinued: always.
    """
    __tracebackhide__ = True
    raise ToBeContinued(judgement)


def not_proven(text: str, *, strict: bool, name: str) -> NoReturn:
    """Skip the running test, or fail it where strict.

    Raises:
        ClaimUndecided: strict.
        pytest.skip.Exception: otherwise.
    """
    if strict:
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
