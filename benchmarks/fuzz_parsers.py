"""Feeds every parser of a tool's output with what no tool should print.

Each golden output is cut at every byte, loses each of its numbers and lines in turn, and is then mutated at random:
decimal commas, prefixes, infinities, digits of other scripts, lines of standard error, two outputs in one, changed
bytes (tests/unit/workloads/harness/hostile.py). A parser returns a result or raises ParseError; a result's figures
are finite, not negative, and zero only where the text has a zero. Anything else is printed with what caused it.

    python benchmarks/fuzz_parsers.py --inputs 100000
"""

from __future__ import annotations

import argparse
import collections
import random
import sys
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "unit" / "workloads" / "harness"))

import golden_cases

import hostile

if TYPE_CHECKING:
    from pytest_vperf.workloads.base import Output

#: How much of a long text is cut at every byte; beyond, the lengths are drawn.
EVERY_BYTE = 4096


def main() -> int:
    """Fuzz, print a line for each parser, and return 1 if one escaped."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--inputs", type=int, default=100_000, help="least inputs in all")
    parser.add_argument("--seed", type=int, default=None, help="of the mutations")
    parser.add_argument("--only", default="", help="workloads whose name begins so")
    arguments = parser.parse_args()
    seed = arguments.seed if arguments.seed is not None else random.randrange(2**32)
    cases: dict[str, list[golden_cases.Case]] = collections.defaultdict(list)
    for case in golden_cases.cases():
        if case.workload.startswith(arguments.only):
            cases[case.workload].append(case)
    share = -(-arguments.inputs // max(1, len(cases)))
    print(f"{len(cases)} parsers, {sum(map(len, cases.values()))} golden outputs, seed {seed}")
    print(f"{'parser':24} {'inputs':>8} {'result':>8} {'ParseError':>10} {'escaped':>8} {'s':>6}")
    total: collections.Counter[str] = collections.Counter()
    for name, mine in sorted(cases.items()):
        counts = _fuzz(mine, share, random.Random(f"{seed} {name}"))
        total += counts
        _print(name, counts)
    _print("all", total)
    return 1 if total["escaped"] else 0


def _print(name: str, counts: collections.Counter[str]) -> None:
    inputs = counts["result"] + counts["ParseError"] + counts["escaped"]
    print(
        f"{name:24} {inputs:8} {counts['result']:8} {counts['ParseError']:10} {counts['escaped']:8} "
        f"{counts['ms'] / 1000:6.1f}",
        flush=True,
    )


def _fuzz(
    cases: list[golden_cases.Case], share: int, source: random.Random
) -> collections.Counter[str]:
    counts: collections.Counter[str] = collections.Counter()
    started = time.monotonic()

    def judge(case: golden_cases.Case, output: Output, damaged: bool) -> None:
        try:
            counts[hostile.judge(case, output, damaged=damaged)] += 1
        except Exception:
            counts["escaped"] += 1
            if counts["escaped"] <= 3:
                print(f"--- {case.name}: {output.stdout[:3000]!r}\n{traceback.format_exc()}")

    tried = 0
    for case in cases:
        cuts = list(hostile.truncations(case)) if len(case.raw) <= EVERY_BYTE else []
        for output in cuts:
            judge(case, output, False)
        struck = [*hostile.struck_numbers(case), *hostile.struck_lines(case)]
        if len(struck) > share // (2 * len(cases)):
            struck = source.sample(struck, share // (2 * len(cases)))
        for output in struck:
            judge(case, output, True)
        tried += len(cuts) + len(struck)
    while tried < share:
        case = source.choice(cases)
        if len(case.raw) > EVERY_BYTE and source.random() < 0.1:
            cut = case.raw[: source.randrange(len(case.raw))].decode("utf-8", "replace")
            judge(case, hostile.with_text(case, cut), False)
        else:
            judge(case, hostile.mutated(case, source), False)
        tried += 1
    counts["ms"] = int((time.monotonic() - started) * 1000)
    return counts


if __name__ == "__main__":
    sys.exit(main())
