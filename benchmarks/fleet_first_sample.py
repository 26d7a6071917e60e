"""How much later the first sample of a run is taken when an engine of a fleet starts it on its machine.

The machine is a namespace of this one, as in tests/integration/fleet: a run of the same test in it, without a fleet,
is what the others are compared with. All take turns, in a random order; the cost is the median of the differences
within a turn, with the interval of order statistics for it (exact binomial, at least 95 %).

    python benchmarks/fleet_first_sample.py --turns 12    # as root
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from alone import interruptible
from interval import median_interval

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "integration" / "machines"))

import fleet_project
import fleet_rig

if TYPE_CHECKING:
    from fleet_project import Project

MACHINE, TYPE = "h3", "type-b"
WORDS = ["--claims-sessions=1", "--claims-budget=2s", "test_it.py::test_quick[0]"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=12, help="at least 6")
    parser.add_argument("--seed", type=int, help="of the order")
    arguments = parser.parse_args()
    if arguments.turns < 6:
        parser.error("--turns: an interval for the median needs at least 6")
    if not (can := fleet_rig.check()).usable:
        raise SystemExit(can.why)
    seed = random.randrange(2**32) if arguments.seed is None else arguments.seed
    order = random.Random(seed)
    slurm = fleet_rig.check_slurm()
    engines = ["ssh", "slurm"] if slurm.usable else ["ssh"]
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        rig_folder = Path(folder, "rig")
        with fleet_rig.machines(rig_folder, fleet_project.TYPES, slurm=slurm.usable) as rig:
            projects = {}
            for engine in engines:
                (own := Path(folder, engine)).mkdir()
                projects[engine] = fleet_project.make_project(own, rig, engine)
            ways = ["plain", *engines]
            taken: dict[str, list[float]] = {way: [] for way in ways}
            for _ in range(arguments.turns + 1):
                for way in order.sample(ways, k=len(ways)):
                    taken[way].append(first_sample(projects.get(way, projects["ssh"]), way))
    plain = taken["plain"][1:]  # the first turn fills caches
    print(f"the first sample of a run, {arguments.turns} turns, seed {seed}")
    print(f"  without a fleet  {statistics.median(plain):6.2f} s")
    for engine in engines:
        times = taken[engine][1:]
        low, cost, high = median_interval([a - b for a, b in zip(times, plain, strict=True)])
        least, ratio, most = median_interval([a / b for a, b in zip(times, plain, strict=True)])
        print(
            f"  {engine:16} {statistics.median(times):6.2f} s"
            f"   cost {cost:.2f} s [{low:.2f}, {high:.2f}]"
            f"   ratio {ratio:.2f} [{least:.2f}, {most:.2f}]"
        )
    return 0


def first_sample(project: Project, way: str) -> float:
    """Seconds from the start of a run to its first sample."""
    samples = project.folder / f"samples-{MACHINE}"
    samples.unlink(missing_ok=True)
    words = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", *WORDS]
    if way == "plain":
        words = project.rig.on(MACHINE, words, project.folder)
    else:
        own = ["--claims-fleet=fleet.yaml", f"--claims-fleet-hw={TYPE}"]
        words = project.rig.inside([*words, *own], project.folder)
        if way == "slurm":
            project.rig.await_nodes(len(fleet_project.TYPES))
    environment = {key: each for key, each in os.environ.items() if "PYTEST" not in key}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    began = time.monotonic()
    done = subprocess.run(
        words, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    if not samples.is_file():
        raise SystemExit(f"{way}: no sample\n{done.stdout}{done.stderr}")
    return float(samples.read_text().split()[1]) - began


if __name__ == "__main__":
    raise SystemExit(interruptible("fleet_first_sample", main))
