"""A gate of one build against itself, again and again: nothing may be red.

Each round is a run of the claims about builds (`tests/claims/test_gate.py`) with a seed of its own. A line is printed
for each comparison as its round ends, and a count at the end, with the exact bound for the rate of false alarms
(Clopper and Pearson 1934, 95 %). What was not measured is counted apart, and is no comparison.

    python benchmarks/gate_aa.py [--rounds 3] [--base runtime=runc] [--head runtime=./copy] [--seed 1] [--json FOLDER]
        [-- OPTIONS OF PYTEST]

The exit status is 1 where a claim was refuted or a round broke, and where nothing was compared.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alone import interruptible

from pytest_vperf.stats.self_check import share_at_most

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).parents[1]
CLAIMS = ROOT / "tests" / "claims" / "test_gate.py"
#: Verdicts that say something about a comparison; the others say that there was none.
COMPARED = ("holds", "refuted", "inconclusive")


def main() -> int:
    """Run the rounds; 0 where something was compared and nothing refuted."""
    options = _options()
    counts: Counter[str] = Counter()
    broken = 0
    with tempfile.TemporaryDirectory() as folder:
        kept = options.json or Path(folder)
        kept.mkdir(parents=True, exist_ok=True)
        for number in range(1, options.rounds + 1):
            file = kept / f"round-{number}.json"
            file.unlink(missing_ok=True)  # one of an earlier run is none of this one
            sides = [
                f"--claims-base={options.base}",
                f"--claims-head={options.head or options.base}",
            ]
            seed = options.seed + number - 1
            status = play(seed, file, [*sides, "--same-on-purpose", *options.pytest])
            claims = json.loads(file.read_text())["claims"] if file.is_file() else []
            for claim in claims:
                counts[claim["verdict"]] += 1
                print(line(number, claim), flush=True)
            # Advisory: a verdict fails nothing, so what fails is an error of a test or of pytest.
            if status or not claims:
                broken += 1
                print(f"round {number} ended with status {status}", flush=True)
    return conclude(counts, broken)


def _options() -> Any:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--base", default="runtime=runc", metavar="KEY=VALUE")
    parser.add_argument("--head", metavar="KEY=VALUE", help="default: what base is")
    parser.add_argument("--seed", type=int, default=1, help="of the first round")
    parser.add_argument("--json", type=Path, metavar="FOLDER", help="keep the records there")
    parser.add_argument("pytest", nargs="*", metavar="OPTION", help="of pytest, after --")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error(f"--rounds is {options.rounds}, not a number from 1 on")
    return options


def play(seed: int, file: Path, options: Sequence[str]) -> int:
    """One round; the exit status of pytest."""
    command = [sys.executable, "-m", "pytest", str(CLAIMS), "-q"]
    rest = ["--claims-advisory", f"--claims-seed={seed}", f"--claims-json={file.absolute()}"]
    with subprocess.Popen(
        [*command, *options, *rest],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            said, _ = process.communicate()
        except BaseException:
            # subprocess.run would kill it, and its machines would be left.
            process.terminate()
            process.wait(timeout=60)
            raise
    if process.returncode:
        print(said[-2000:], file=sys.stderr, flush=True)
    return process.returncode


def line(number: int, claim: dict[str, Any]) -> str:
    """A comparison in one line."""
    ratio = claim["estimate"]
    measured = "-" if ratio is None else f"ratio {ratio:.4f}"
    reason = claim["reason"]
    return f"{number:3}  {claim['verdict']:14} {claim['name']:28} {measured:14} {reason}".rstrip()


def conclude(counts: Counter[str], broken: int) -> int:
    """Print the count; the exit status."""
    compared = sum(counts[verdict] for verdict in COMPARED)
    print(
        ", ".join(f"{number} {verdict}" for verdict, number in sorted(counts.items())) or "nothing"
    )
    if compared:
        bound = share_at_most(counts["refuted"], compared)
        print(f"{counts['refuted']} of {compared} comparisons refuted (≤ {100 * bound:.1f} %)")
    if broken:
        print(f"{broken} rounds broke")
    return int(bool(counts["refuted"] or broken or not compared))


if __name__ == "__main__":
    sys.exit(interruptible("gate_aa", main))
