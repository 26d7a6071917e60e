"""``script/test``: see ``--help``."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from gate.running import Result, run
from gate.steps import steps

if TYPE_CHECKING:
    from collections.abc import Sequence

#: With more tests than this that passed only alone, something is.
ONLY_ALONE = 3
#: How many of the slowest tests are named.
SLOWEST = 10


def main() -> int:
    """Run the steps, say what became of them, and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="script/test",
        description="Runs the checks that a change passes before it lands: docs/development.md says what is where.",
        epilog="The exit status is 0 only if every step is green.",
    )
    parser.add_argument("--all", action="store_true", help="the patient suite, too")
    parser.add_argument("-e", dest="only", metavar="STEP[,STEP…]", help="these steps alone")
    parser.add_argument("--list", action="store_true", help="name the steps, and do nothing")
    parser.add_argument("arguments", nargs="*", help="after --, for the pytest of those steps")
    options = parser.parse_args()

    with tempfile.TemporaryDirectory(prefix="vperf-gate-") as folder:
        work = Path(folder)
        known = steps(work)
        if options.list:
            for step in known:
                print(f"{step.name:12} {'patient' if step.patient else ''}".rstrip())
            return 0
        if options.arguments and not options.only:
            parser.error("arguments for pytest need a step that takes them: -e unit -- -k quantity")
        chosen = [step for step in known if options.all or not step.patient]
        if options.only:
            names = options.only.split(",")
            unknown = [name for name in names if name not in {step.name for step in known}]
            if unknown:
                parser.error(
                    f"there is no step {unknown[0]!r}; there are "
                    + ", ".join(step.name for step in known)
                )
            for step in reversed(known):  # what a step needs comes before it
                names += [step.needs] if step.name in names else []
            chosen = [step for step in known if step.name in names]
        results: list[Result] = []
        for step in chosen:
            if any(each.name == step.needs and each.faults for each in results):
                results.append(Result(step.name, faults=[f"not run, because {step.needs} failed"]))
            else:
                results.append(run(step, work, options.arguments))
        return summary(results, work)


def summary(results: Sequence[Result], work: Path) -> int:
    """Print what became of all steps, the most telling last, and return the exit status."""
    for result in results:  # once more: the middle of a long output is easily cut
        if result.faults:
            print(f"\n==== the end of what {result.name} printed")
            print(*_last_lines(work / f"{result.name}.txt", 120), sep="\n")

    print("\n==== steps")
    for result in results:
        print(f"{result.name:12} {result.seconds:6.0f} s  {'failed' if result.faults else 'ok'}")
    slowest = sorted(
        ((seconds, test) for each in results for test, seconds in each.outcome.seconds.items()),
        reverse=True,
    )
    if slowest:
        print(f"==== the slowest {min(SLOWEST, len(slowest))} tests")
        for seconds, test in slowest[:SLOWEST]:
            print(f"{seconds:6.1f} s  {test}")
    alone = [test for each in results for test in each.alone]
    faults = [f"{each.name}: {fault}" for each in results for fault in each.faults]
    if alone:
        print(f"==== passed when run alone ({len(alone)})", *alone, sep="\n")
    if len(alone) > ONLY_ALONE:
        faults.append(f"{len(alone)} tests passed only when run alone; {ONLY_ALONE} may")
    if faults:
        print("==== faults", *faults, sep="\n")
    total = sum(each.seconds for each in results)
    print(f"total time: {int(total // 60)} min {int(total % 60)} s")
    counts = {
        kind: sum(len(each.outcome.of(kind)) for each in results)
        for kind in ("passed", "failed", "skipped")
    }
    print("vperf: " + ", ".join(f"{number} {kind}" for kind, number in counts.items()))
    return 1 if faults else 0


def _last_lines(log: Path, number: int) -> list[str]:
    return log.read_text("utf-8", errors="replace").splitlines()[-number:] if log.exists() else []


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    # What is started in the background may ignore an interrupt, and so does what it starts itself (signal(7)); but it
    # is by an interrupt that a step is ended.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(main())
