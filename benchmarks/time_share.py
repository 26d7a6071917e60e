"""How many verdicts a run reaches in a time that its claims share, against one in which each has an equal part.

20 claims compare two simulated samplers whose noise is drawn so that what a verdict takes differs by a factor of 25,
evenly on a logarithmic scale: as the claims of a real gate did, 5 to 120 s (docs/gate.md), in a twentieth of the
time. Each round runs pytest twice with the same claims: with --claims-time=T, and with --claims-budget=T/20.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import mean

TEST = """
import random
import time
import pytest
from pytest_vperf import Quantity

NEEDS = {needs!r}

@pytest.mark.parametrize("number", range(len(NEEDS)))
def test_it(claim, number):
    noise, pause = NEEDS[number]
    source = random.Random(f"{seed} {{number}}")
    def sample(level):
        time.sleep(pause)
        return Quantity(level * source.lognormvariate(0, noise), "ms", direction="lower")
    claim(f"share.{{number}}").compares(lambda: sample(1.0), to=lambda: sample(1.0))
"""
THRESHOLDS = """
hardware: {name: any, match: {}}
claims:
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--claims", type=int, default=20)
    parser.add_argument("--time", type=float, default=60, help="seconds of each run")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    ratios = []
    for number in range(arguments.rounds):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            make(folder, arguments.claims, random.Random(arguments.seed + number))
            shared = run(folder, f"--claims-time={arguments.time} s")
            each = run(folder, f"--claims-budget={arguments.time / arguments.claims} s")
        ratios.append(shared[0] / max(1, each[0]))
        print(
            f"shared {shared[0]} verdicts in {shared[1]:.0f} s, equal {each[0]} in {each[1]:.0f} s, "
            f"ratio {ratios[-1]:.2f}",
            flush=True,
        )
    print(
        f"of {arguments.claims} claims, mean ratio {mean(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
    )


def make(folder: Path, claims: int, source: random.Random) -> None:
    # The pairs of a verdict grow with the square of the noise: 5 times the noise takes 25 times as many.
    needs = [(0.08 * 5 ** (number / (claims - 1)), 0.005) for number in range(claims)]
    source.shuffle(needs)
    (folder / "test_share.py").write_text(TEST.format(needs=needs, seed=source.random()))
    (folder / "thresholds").mkdir()
    lines = "".join(
        f"  share.{number}: {{no_worse: lower_is_better}}\n" for number in range(claims)
    )
    (folder / "thresholds" / "any.yaml").write_text(THRESHOLDS + lines)


def run(folder: Path, option: str) -> tuple[int, float]:
    """The verdicts that were reached, and the seconds that it took."""
    began = time.monotonic()
    words = [
        "--claims-json=out.json",
        "--claims-seed=1",  # both runs have the same luck
        "--claims-tolerance=5 %",
        "--claims-pairs=100000",
        "--claims-advisory",
    ]
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", option, *words],
        cwd=folder,
        check=False,
        capture_output=True,
    )
    took = time.monotonic() - began
    claims = json.loads((folder / "out.json").read_text())["claims"]
    return sum(each["verdict"] in ("holds", "refuted") for each in claims), took


if __name__ == "__main__":
    main()
