"""Verdicts on real targets whose right answer is known: A against A, and against an A made slower by a known share.

Each decision is one call of `pytest_vperf.stats.compare`, with a seed and samples of its own. The two questions take
turns in shuffled order. A line is printed after each decision, and the JSON file is written anew, so that a run that
is cut loses nothing; the table at the end has exact bounds (Clopper and Pearson 1934, 95 % each).

    python benchmarks/live_targets.py [--kind container,pod,sysbench,process] [--decisions 100] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import sys
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alone import alone, interruptible
from slower_targets import KINDS, timed

from pytest_vperf.machine import fingerprint
from pytest_vperf.machine.whole_file import write_whole
from pytest_vperf.reporting.console import print_table
from pytest_vperf.results.run import now
from pytest_vperf.stats import compare
from pytest_vperf.stats.self_check import share_at_least, share_at_most
from pytest_vperf.targets.base import TargetError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from slower_targets import Arms

    Decision = dict[str, Any]

#: So many of the last plain samples say what a share of the plain one is.
_LEVEL = 15


class _TimeOver(Exception):
    """The time of a decision is over."""


class Level:
    """The level of the plain samples, which moves: the slower arm is kept the same share above it."""

    def __init__(self, calibrate: Callable[[float], None]) -> None:
        self._calibrate = calibrate
        self._last: deque[float] = deque(maxlen=_LEVEL)

    def add(self, value: float) -> None:
        """Take a plain sample; outside any timed path."""
        self._last.append(value)
        self._calibrate(statistics.median(self._last))


class Live:
    """The decisions so far, and the file they are kept in."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.decisions: list[Decision] = []
        self.left_out: dict[str, str] = {}
        self.how: dict[str, str] = {}
        self._started = now()
        self._end = math.inf

    def begin(self) -> None:
        """The time of the run begins: the machine is ours."""
        self._end = time.monotonic() + self.options.budget

    @property
    def over(self) -> bool:
        """Whether the time of the run is over."""
        return self._left <= 0

    @property
    def _left(self) -> float:
        return self._end - time.monotonic()

    def run(self, kind: str) -> None:
        """Make the decisions about one kind of target."""
        options = self.options
        shuffle = random.Random(f"{options.seed} {kind}")
        with KINDS[kind](options.slowdown) as arms:
            self.how[kind] = arms.how
            level = Level(arms.calibrate)
            for _ in range(_LEVEL):
                level.add(arms.plain())
            for number in range(options.decisions):
                for slower in shuffle.sample([False, True], 2):
                    if self.over:
                        return
                    seed = shuffle.getrandbits(32)
                    self._decide(kind, number + 1, arms, slower, level, seed)

    def _decide(
        self, kind: str, number: int, arms: Arms, slower: bool, level: Level, seed: int
    ) -> None:
        options, plain, other = self.options, list[float](), list[float]()
        began = time.monotonic()
        left = min(options.decision_budget, self._left)
        made: Decision = {
            "kind": kind,
            "number": number,
            "slowdown": options.slowdown if slower else 0.0,
            "seed": seed,
            "verdict": "inconclusive",
            "reason": f"time over after {left:.0f} s",
            "ratio": None,
        }
        with suppress(_TimeOver):
            result = compare(
                _kept(timed(arms.plain, left, _TimeOver), plain, level),
                _kept(timed(arms.slower if slower else arms.plain, left, _TimeOver), other),
                tolerance=options.tolerance,
                max_pairs=options.max_pairs,
                seed=seed,
            )
            made |= {"verdict": result.verdict, "reason": result.reason, "ratio": result.ratio}
        made |= {
            "samples": len(plain) + len(other),
            # What the end of the run has cut off is kept, and is no decision.
            "cut": made["ratio"] is None and self.over,
            "seconds": round(time.monotonic() - began, 3),
            "plain": plain,
            "other": other,
        }
        self.decisions.append(made)
        self._write()
        ratio = "" if made["ratio"] is None else f", ratio {made['ratio']:.4f}"
        print(
            f"{kind} {_question(made)} {number} of {options.decisions}: {made['verdict']}, "
            f"{made['samples']} samples{ratio}, {made['seconds']:.1f} s; {made['reason']}",
            flush=True,
        )

    def _write(self) -> None:
        if self.options.json is None:
            return
        given = {key: str(value) for key, value in vars(self.options).items()}
        document = {
            "started": self._started,
            "options": given,
            "fingerprint": fingerprint.read().as_dict(),
            "how": self.how,
            "decisions": self.decisions,
        }
        write_whole(self.options.json, json.dumps(document, allow_nan=False) + "\n")

    def table(self) -> None:
        """Print what came out."""
        rows = []
        for kind in dict.fromkeys(each["kind"] for each in self.decisions):
            of = [each for each in self.decisions if each["kind"] == kind and not each["cut"]]
            same = [each for each in of if not each["slowdown"]]
            slower = [each for each in of if each["slowdown"]]
            wrong, found = _count(same, "refuted"), _count(slower, "refuted")
            rows.append(
                [
                    kind,
                    str(len(same)),
                    f"{wrong} (≤ {100 * share_at_most(wrong, len(same)):.3g} %)",
                    str(_count(same, "holds")),
                    str(_count(same, "inconclusive")),
                    _mean(same),
                    str(len(slower)),
                    f"{found} (≥ {100 * share_at_least(found, len(slower)):.3g} %)",
                    str(_count(slower, "holds")),
                    _mean(slower),
                ]
            )
        more = f"+{100 * self.options.slowdown:g} %"
        print()
        print_table(
            (
                *("kind", "A/A", "refuted", "holds", "inconclusive", "samples"),
                *(more, "found", "holds", "samples"),
            ),
            rows,
        )
        print("bounds in brackets: 95 %, exact (Clopper-Pearson); samples: mean per decision")
        for kind, how in self.how.items():
            print(f"{kind}: slower by {how}")
        for kind, why in self.left_out.items():
            print(f"{kind}: left out: {why}")


def _question(made: Decision) -> str:
    return f"+{100 * made['slowdown']:g} %" if made["slowdown"] else "A/A"


def _count(decisions: Sequence[Decision], verdict: str) -> int:
    return sum(each["verdict"] == verdict for each in decisions)


def _mean(decisions: Sequence[Decision]) -> str:
    return f"{statistics.mean(each['samples'] for each in decisions):.0f}" if decisions else "-"


def _kept(
    sample: Callable[[], float], values: list[float], level: Level | None = None
) -> Callable[[], float]:
    def keeping() -> float:
        value = sample()
        values.append(value)
        if level is not None:
            level.add(value)
        return value

    return keeping


def main() -> int:
    """Run it; the exit status is 0, or 1 where a kind could not be measured."""
    parser = argparse.ArgumentParser(description="Verdicts on real targets, the answer known.")
    parser.add_argument("--kind", default=",".join(KINDS), help="default: %(default)s")
    parser.add_argument("--decisions", type=int, default=100, help="of each question, per kind")
    parser.add_argument("--tolerance", type=float, default=0.02)
    parser.add_argument("--slowdown", type=float, default=0.05)
    parser.add_argument("--max-pairs", type=int, default=512)
    parser.add_argument("--decision-budget", type=float, default=math.inf, metavar="SECONDS")
    parser.add_argument("--budget", type=float, default=math.inf, metavar="SECONDS", help="in all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    kinds = [kind for kind in options.kind.split(",") if kind]
    for kind in kinds:
        if kind not in KINDS:
            parser.error(f"--kind: {kind!r} is not known; there are {', '.join(KINDS)}")
    live = Live(options)
    try:
        with alone():
            live.begin()
            for kind in kinds:
                if live.over:
                    live.left_out[kind] = "the time was over"
                    continue
                try:
                    live.run(kind)
                except TargetError as error:
                    live.left_out[kind] = str(error)
                    print(f"{kind}: {error}", file=sys.stderr, flush=True)
    finally:
        live.table()
    return 1 if live.left_out else 0


if __name__ == "__main__":
    sys.exit(interruptible("live_targets", main))
