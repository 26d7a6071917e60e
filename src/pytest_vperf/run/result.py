"""The result of a run: one word for its last line and its record, and the exit status.

Tests can swallow a refutation, skip after it, or end the run; workers can die. So the result rests on the records of
the claims and on the reports that pytest logged, and not on what a test made of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_vperf.results.record import ClaimRecord
    from pytest_vperf.run.options import Level
    from pytest_vperf.run.reports import Reports

#: The exit status of a run whose record could not be written; EX_IOERR of sysexits.h. pytest's own are 0 to 5.
RECORD_LOST = 74
#: Statuses that say that there was no proper run.
_NO_RUN = (
    pytest.ExitCode.INTERRUPTED,
    pytest.ExitCode.INTERNAL_ERROR,
    pytest.ExitCode.USAGE_ERROR,
)

Word = Literal["ok", "refuted", "broken", "not proven", "nothing measured"]


class Result(NamedTuple):
    """How a run ended.

    Attributes:
        word: the gravest of what it found, a refuted claim first.
        status: the exit status.
        swallowed: the refuted claims whose test did not fail, each with the last record of the same claim from a
            later attempt at the test; ``None`` without any.
    """

    word: Word
    status: int
    swallowed: Sequence[tuple[ClaimRecord, ClaimRecord | None]] = ()


def fails(level: Level, verdict: str) -> bool:
    """Whether a verdict fails a test at a level."""
    return verdict in failing(level)


def failing(level: Level) -> frozenset[str]:
    """The verdicts that fail a test at a level."""
    return frozenset(_FAILS[level])


_FAILS = {
    "advisory": (),
    "refuted": ("refuted",),
    "measured": ("refuted", "not measured"),
    "strict": ("refuted", "not measured", "not comparable", "inconclusive"),
}


def conclude(
    records: Iterable[ClaimRecord],
    reports: Reports,
    *,
    level: Level,
    status: int,
    unmet: bool,
    record_lost: bool,
    usage_error: bool,
    compares: bool = False,
) -> Result:
    """The result of a run that is over.

    Args:
        records: of all its claims.
        reports: of all its tests.
        level: what fails a run.
        status: the exit status that pytest gives.
        unmet: whether a target that was asked for was not measured.
        record_lost: whether the record could not be written.
        usage_error: whether something kept claims from being judged.
        compares: whether sides, or stored runs, are compared: a run that compared nothing then has no answer,
            whatever else passed.
    """
    claims = list(records)
    counted = [each for each in claims if each["nodeid"] not in reports.excused]
    refuted = [each for each in counted if fails(level, "refuted") and _is(each, "refuted")]
    swallowed = [
        (each, _again(each, claims)) for each in refuted if each["nodeid"] not in reports.failed
    ]
    last: dict[str, int] = {}
    for each in claims:
        last[each["nodeid"]] = max(each["attempt"], last.get(each["nodeid"], 0))
    unproven = (
        unmet
        or any(reports.failed.values())
        # Whatever became of its test: a failure that is expected, but not strictly, hides nothing.
        or any(
            fails(level, each["verdict"])
            for each in counted
            if each["attempt"] == last[each["nodeid"]]
        )
    )
    nothing = (
        level != "advisory"
        and not reports.broken
        and (
            (compares and _compared_nothing(claims))
            or (
                bool(claims)
                and all(_is(each, "not measured") for each in claims)
                and not reports.passed
            )
        )
    )
    word: Word = "ok"
    if refuted:
        word = "refuted"
    elif usage_error or record_lost or reports.broken or status in _NO_RUN:
        word = "broken"
    elif nothing or status == pytest.ExitCode.NO_TESTS_COLLECTED:
        word = "nothing measured"
    elif unproven:
        word = "not proven"
    elif status != pytest.ExitCode.OK:
        word = "broken"
    # A usage error or an internal error says more than the others: there was no proper run.
    grave = status in (pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.INTERNAL_ERROR)
    if usage_error:
        status = pytest.ExitCode.USAGE_ERROR
    elif record_lost and not grave:
        status = RECORD_LOST
    elif status == pytest.ExitCode.OK and (unproven or word in ("refuted", "broken")):
        status = pytest.ExitCode.TESTS_FAILED
    elif status == pytest.ExitCode.OK and nothing:
        status = pytest.ExitCode.NO_TESTS_COLLECTED  # as where pytest finds nothing to run
    return Result(word, int(status), swallowed)


def _compared_nothing(claims: Iterable[ClaimRecord]) -> bool:
    """Whether no claim came to a comparison: of two sides there is none without a pair of samples, of runs none with
    so few of them that they could not show any change."""
    from pytest_vperf.results.record import of_sides

    return not any(
        (of_sides(each) or ((own := each["baseline"]) is not None and not own["missing"]))
        and each["n"]
        and each["verdict"] not in ("not measured", "not comparable")
        for each in claims
    )


def _again(record: ClaimRecord, claims: Sequence[ClaimRecord]) -> ClaimRecord | None:
    """The last record of a claim from a later attempt at its test."""
    return next(
        (
            each
            for each in reversed(claims)
            if each["attempt"] > record["attempt"]
            and (each["nodeid"], each["name"]) == (record["nodeid"], record["name"])
        ),
        None,
    )


def _is(record: ClaimRecord, verdict: str) -> bool:
    return record["verdict"] == verdict
