"""What the plugin costs a test run that makes no claim.

Times `pytest --collect-only` on an empty folder, with the plugin and without it (`-p no:vperf`), as whole
processes on the host's monotonic clock. The plug-ins of others that are installed are left out of both, as they only
add noise. Each pair runs in a random order, so that a drift of the machine
falls on both. The cost is the median of the differences within the pairs, with the interval of order
statistics for it (exact binomial, at least 95 %).

    python benchmarks/plugin_cost.py --pairs 60
    python benchmarks/plugin_cost.py --plugin benchmark   # pytest-benchmark, which is installed with it
"""

from __future__ import annotations

import argparse
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING

from interval import median_interval

if TYPE_CHECKING:
    from collections.abc import Sequence

COLLECT = (sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider")
NOTHING_COLLECTED = 5


def main() -> int:
    """Measure, print, and return 1 if the cost is surely more than `--limit`."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--pairs", type=int, default=40, help="pairs to time (default: 40, least: 8)"
    )
    parser.add_argument("--limit", type=float, default=5.0, help="allowed cost in ms (default: 5)")
    parser.add_argument(
        "--plugin",
        default="vperf",
        help="what to leave out: vperf (default), or benchmark, which is installed with it",
    )
    parser.add_argument("--seed", type=int, default=None, help="of the order within the pairs")
    arguments = parser.parse_args()
    if arguments.pairs < 8:
        parser.error("--pairs: an interval for the median needs at least 8")
    seed = arguments.seed if arguments.seed is not None else random.randrange(2**32)
    with tempfile.TemporaryDirectory() as empty:
        folder = Path(empty)
        # An ini file of its own, or pytest would look for one in the folders above.
        folder.joinpath("pytest.ini").write_text("[pytest]\n")
        with_plugin, without = _pairs(
            folder, arguments.plugin, arguments.pairs, random.Random(seed)
        )
    differences = [a - b for a, b in zip(with_plugin, without, strict=True)]
    low, cost, high = median_interval(differences)
    ratio = statistics.median(a / b for a, b in zip(with_plugin, without, strict=True))
    told = f"{arguments.pairs} pairs, seed {seed}"
    print(f"pytest --collect-only on an empty folder, with and without {arguments.plugin}, {told}")
    print(f"  without the plugin  median {statistics.median(without):8.2f} ms")
    print(f"  with the plugin     median {statistics.median(with_plugin):8.2f} ms")
    print(f"  cost                median {cost:8.2f} ms   [{low:.2f}, {high:.2f}] at 95 %")
    print(f"  ratio               median {ratio:8.4f}")
    if arguments.plugin != "vperf":
        return 0
    imports = _import_times()
    total = sum(imports.values())
    print(
        f"modules of pytest_vperf, their own import time: {total:.2f} ms in {len(imports)} modules"
    )
    for name, own in sorted(imports.items(), key=lambda item: -item[1]):
        print(f"  {own:8.2f} ms  {name}")
    verdict = "held" if high <= arguments.limit else "refuted" if low > arguments.limit else "open"
    print(f"cost ≤ {arguments.limit:g} ms: {verdict}")
    return 1 if verdict == "refuted" else 0


def _pairs(
    folder: Path, plugin: str, count: int, order: random.Random
) -> tuple[list[float], list[float]]:
    """Times in ms of the two commands, pair by pair; one pair before the first warms the caches."""
    others = {each.name for each in entry_points(group="pytest11")} - {plugin}
    with_plugin = (*COLLECT, *(f"-pno:{name}" for name in sorted(others)))
    without = (*with_plugin, f"-pno:{plugin}")
    times: dict[tuple[str, ...], list[float]] = {with_plugin: [], without: []}
    for _ in range(count + 1):
        for command in order.sample([with_plugin, without], k=2):
            times[command].append(_time(command, folder))
    return times[with_plugin][1:], times[without][1:]


def _environment() -> dict[str, str]:
    """A user's: with compiled files kept, since pytest compiles a plugin's modules at every run without them."""
    unusual = ("PYTHONDONTWRITEBYTECODE", "PYTEST_ADDOPTS", "PYTEST_DISABLE_PLUGIN_AUTOLOAD")
    return {name: value for name, value in os.environ.items() if name not in unusual}


def _time(command: Sequence[str], folder: Path) -> float:
    began = time.perf_counter()
    done = subprocess.run(
        command, cwd=folder, env=_environment(), capture_output=True, text=True, check=False
    )
    elapsed = (time.perf_counter() - began) * 1000
    if done.returncode != NOTHING_COLLECTED:
        raise SystemExit(
            f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}{done.stdout}"
        )
    return elapsed


def _import_times() -> dict[str, float]:
    """Own import time of each module of ours, in ms, as `python -X importtime` tells.

    Imported by a statement: the import of an entry point, which is made by `importlib`, is not timed.
    """
    program = "import pytest, pytest_vperf.plugin"
    command = (sys.executable, "-X", "importtime", "-c", program)
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    line = re.compile(r"import time:\s+(\d+) \|\s+\d+ \|\s+(pytest_vperf\S*)")
    return {name: int(own) / 1000 for own, name in line.findall(done.stderr)}


if __name__ == "__main__":
    raise SystemExit(main())
