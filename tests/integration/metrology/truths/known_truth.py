"""What the system is told to be, the wrappers must find: rows of a table, each judged by pairs with an interval."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_vperf.machine import lock
from pytest_vperf.stats.pair import PairRule

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_vperf.targets.base import Target

#: Seconds that one row may sample.
BUDGET = 90.0

#: The process that pytest-xdist has made this, if it has: ``gw0``, ``gw1``, …
_WORKER = os.environ.get("PYTEST_XDIST_WORKER", "")

_CPUS = sorted(os.sched_getaffinity(0))

#: The CPU that everything measured here is pinned to; of two processes each has one to itself, where there are two.
CPU = str(_CPUS[int(_WORKER.removeprefix("gw") or 0) % len(_CPUS)])

#: A sample counts if the hypervisor took no more than this share of the CPU's time meanwhile. What is compared with
#: an undisturbed run bears least: of the 4 % that half a CPU's speed may be off, this is a quarter.
STOLEN = 0.01


@dataclass(frozen=True)
class Row:
    """One setting on one target.

    Attributes:
        setting: what is limited.
        target: where.
        read_back: what the system has of it.
        expected: what has to be measured.
        measured: the median, with its interval.
        pairs: how many pairs stand behind it.
        disturbed: samples that did not count, see `STOLEN`.
        verdict: ``holds``, or why it does not.
    """

    setting: str
    target: str
    read_back: str
    expected: str
    measured: str
    pairs: int
    verdict: str
    disturbed: int = 0


#: The name of a row among the properties of a test: they are in JUnit files, and come from workers.
ROW = "known truth"


@dataclass
class Table:
    """The rows of a test, or of a session."""

    rows: list[Row] = field(default_factory=list)

    def add(self, row: Row) -> None:
        """One more."""
        self.rows.append(row)

    def lines(self) -> list[str]:
        """As Markdown, which is what the docs have."""
        head = (
            "setting",
            "target",
            "read back",
            "expected",
            "measured",
            "pairs",
            "disturbed",
            "verdict",
        )
        cells = [
            head,
            ("---",) * len(head),
            *(
                (
                    *(r.setting, r.target, r.read_back, r.expected, r.measured),
                    *(str(r.pairs), str(r.disturbed), r.verdict),
                )
                for r in self.rows
            ),
        ]
        return ["| " + " | ".join(row) + " |" for row in cells]


_WORDS = {"inconclusive": "not decided"}


def judge(
    table: Table,
    *,
    setting: str,
    target: str,
    read_back: str,
    measured: Callable[[], float | None],
    reference: Callable[[], float | None] = lambda: 1.0,
    expected: float,
    within: float,
    scale: float = 1.0,
    unit: str = "",
    bearable: float = STOLEN,
    budget: float = BUDGET,
) -> None:
    """Sample both in turn until the ratio is shown to lie within, or outside of, the band; fails unless within.

    The order within a pair is a coin's, so that a machine whose speed drifts favours none. Whether a sample counts is
    said by the kernel's account of time that the hypervisor took, of both sides alike, and never by its value. What
    is undecided when the time is over proves nothing, neither way: skipped, with the reason, and with its row. So is
    a truth of which most samples did not count.

    Args:
        table: gets the row.
        setting: for the row.
        target: likewise.
        read_back: likewise.
        measured: takes a sample of what is limited; ``None`` is one that was disturbed.
        reference: takes a sample of what it is compared with; nothing for a known number.
        expected: the ratio of the two.
        within: how far it may be off, in the same unit.
        scale: what a ratio of 1 is in the row's unit.
        unit: of the row.
        bearable: instead of `STOLEN`, for what is less moved by it: the most that the hypervisor may take of the
            CPU's time in a sample that counts.
        budget: seconds, after which it is undecided.
    """
    rule = PairRule.near(expected, within / expected)
    samplers = {"a": measured, "b": reference}
    disturbed = counted = 0
    with lock.measuring():
        began = time.monotonic()
        while not rule.decided:
            before = _account()
            value = samplers[rule.next()]()
            if value is None or _stolen(before, _account()) > bearable:
                disturbed += 1
            else:
                counted += 1
                rule.add(value)
            if time.monotonic() - began > budget:
                rule.stop("budget", f"undecided after {budget:g} s")
    state = rule.state
    text = _interval(state.estimate, state.low, state.high, scale, unit)
    plus = f"{expected * scale:g} ± {within * scale:g} {unit}".rstrip()
    stolen = rule.decision == "inconclusive" and disturbed > counted
    verdict = (
        "not measured: CPU time stolen" if stolen else _WORDS.get(rule.decision, rule.decision)
    )
    table.add(Row(setting, target, read_back, plus, text, state.samples, verdict, disturbed))
    if stolen:
        pytest.skip(
            f"{disturbed} of {disturbed + counted} samples were disturbed, by a hypervisor that took more than"
            f" {bearable:.0%} of CPU {CPU} or by a late start: {state.reason}"
        )
    if rule.decision == "inconclusive":
        pytest.skip(f"{setting}, {target}: not decided: {text}, expected {plus}: {state.reason}")
    assert rule.decision == "holds", f"{setting}, {target}: {text}, expected {plus}: {state.reason}"


def _account() -> list[int]:
    """The CPU's ticks by kind (proc(5), /proc/stat)."""
    for line in Path("/proc/stat").read_text().splitlines():
        name, *ticks = line.split()
        if name == f"cpu{CPU}":
            return [int(each) for each in ticks]
    raise AssertionError(f"/proc/stat has no cpu{CPU}")


def _stolen(before: list[int], after: list[int]) -> float:
    """The share of the time between that the hypervisor took; the eighth kind of ticks is called steal."""
    passed = [late - early for early, late in zip(before, after, strict=True)]
    return passed[7] / max(1, sum(passed[:8]))


def _interval(
    estimate: float | None, low: float | None, high: float | None, scale: float, unit: str
) -> str:
    def number(value: float | None) -> str:
        return "?" if value is None else f"{value * scale:.4g}"

    return f"{number(estimate)} [{number(low)}, {number(high)}] {unit}".rstrip()


def settings(target: Target, *names: str) -> str:
    """Of a target's facts, those that were read back."""
    details = target.facts().details
    return ", ".join(f"{name} {details[name]}" for name in names)
