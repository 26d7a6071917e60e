"""What a run of pytest did, read from its record, and whether that is what it was to do."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path

#: Reasons of skips that are expected: a regular expression a line. Any other skip is a fault.
KNOWN_SKIPS = "known_skips.txt"
#: How many names a message gives.
NAMED = 5


@dataclass
class Outcome:
    """Of one run; tests are named by their node IDs."""

    collected: list[str] = field(default_factory=list)
    #: Of those that ended: ``passed``, ``failed`` or ``skipped``.
    ended: dict[str, str] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    #: Began, and did not end.
    running: list[str] = field(default_factory=list)

    def of(self, outcome: str) -> list[str]:
        """The tests that ended so."""
        return [test for test, each in self.ended.items() if each == outcome]

    @property
    def unfinished(self) -> list[str]:
        """What was collected and did not end."""
        return [test for test in self.collected if test not in self.ended]


def read(record: Path) -> Outcome:
    """The outcome that a record of `record.Record` tells; of no record: that of no test."""
    found = Outcome()
    phases: dict[str, set[str]] = {}
    lines = record.read_text("utf-8").splitlines() if record.exists() else []
    for text in lines:
        try:
            line = json.loads(text)
        except ValueError:
            continue  # the last line of a run that was killed
        if "collected" in line:
            found.collected += line["collected"]
        elif "start" in line:
            found.running.append(line["start"])
        else:
            test, outcome = line["report"], line["outcome"]
            phases.setdefault(test, set()).add(outcome)
            found.seconds[test] = found.seconds.get(test, 0.0) + line["seconds"]
            if outcome == "skipped":
                found.reasons[test] = line["why"]
            # A test whose process died has neither a set-up nor a tear-down.
            if outcome == "failed" or line["when"] == "teardown":
                found.ended[test] = _worst(phases[test])
                found.running = [each for each in found.running if each != test]
    return found


def _worst(outcomes: set[str]) -> str:
    return next(each for each in ("failed", "skipped", "passed") if each in outcomes)


def known_skips(file: str) -> list[re.Pattern[str]]:
    """The expected reasons, of a file beside this one: patterns of ``REASON``, or of ``TEST: REASON``."""
    lines = Path(__file__).with_name(file).read_text("utf-8").splitlines()
    return [re.compile(line) for line in lines if line and not line.startswith("#")]


def faults(outcome: Outcome, status: int, skips: str = KNOWN_SKIPS) -> list[str]:
    """What is wrong with a run besides tests that failed, in words.

    Args:
        outcome: of the run.
        status: its exit status.
        skips: the file of the reasons that are expected.
    """
    found: list[str] = []
    if status not in (0, 1):
        found.append(f"pytest ended with the exit status {status}")
    elif status == 1 and not outcome.of("failed"):
        found.append("pytest ended with the exit status 1, and no test failed")
    if not outcome.collected:
        found.append("no test was collected")
    if outcome.unfinished:
        found.append(
            f"{len(outcome.unfinished)} of {len(outcome.collected)} collected tests did not end: "
            + named(outcome.unfinished)
        )
    known = known_skips(skips)
    for test in outcome.of("skipped"):
        reason = outcome.reasons.get(test, "")
        if not any(each.search(text) for each in known for text in (reason, f"{test}: {reason}")):
            found.append(f"{test} was skipped, which nobody expects: {reason}")
    return found


def named(tests: list[str]) -> str:
    """Some names, and how many more there are."""
    more = len(tests) - NAMED
    return ", ".join(tests[:NAMED]) + (f" and {more} more" if more > 0 else "")
