"""What a run over a fleet costs the machine that has it, for a claim: its processor's time, and its memory.

The machines are those of the engine `runners`. One of them really runs its tests; the others have left the same
reports, each for its own order. So the run reads, logs and records what so many machines would send, as fast as it
can. The time of a claim is that of the loop that does so; the whole has the run's begin and end as well.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

TESTS = """
import pytest
from pytest_vperf import Quantity

@pytest.mark.parametrize("number", range({tests}))
def test_quick(claim, number):
    values = iter(350 + 7 * (k % 5) for k in range(10**6))
    claim("start.quick").holds(lambda: Quantity(next(values), "ms"))
"""
CONFTEST = """
import json, os, resource, time
import pytest

SPENT = {}

@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtestloop():
    began = time.process_time()
    yield
    SPENT["loop"] = time.process_time() - began

@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config):
    if "loop" in SPENT and not hasattr(config, "workerinput"):
        SPENT["whole"] = time.process_time()
        SPENT["most"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with open(os.environ["SPENT"], "w") as file:
            json.dump(SPENT, file)
"""
THRESHOLDS = """
hardware:
  name: here
  summary: whatever runs this
  match: {logical_cpus: ">= 1"}
claims:
  start.quick:
    at_most: 400 ms
    summary: it starts quickly
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--machines", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--tests", type=int, default=20, help="that each machine runs")
    arguments = parser.parse_args()
    print("machines   claims   CPU of a claim   of the whole run   most memory")
    for machines in arguments.machines:
        with tempfile.TemporaryDirectory() as folder:
            spent = measure(Path(folder), machines, arguments.tests)
        claims = machines * arguments.tests
        each, whole = 1000 * spent["loop"] / claims, spent["whole"]
        most = spent["most"] / 1024
        print(
            f"{machines:8} {claims:8} {each:11.2f} ms {whole:16.1f} s {most:9.0f} MiB", flush=True
        )


def measure(folder: Path, machines: int, tests: int) -> dict[str, float]:
    (project := folder / "project").mkdir()
    (project / "test_it.py").write_text(TESTS.format(tests=tests))
    (project / "conftest.py").write_text(CONFTEST)
    (project / "pytest.ini").write_text("[pytest]\n")
    (project / "thresholds").mkdir()
    (project / "thresholds" / "here.yaml").write_text(THRESHOLDS)
    names = [f"m{number}" for number in range(machines)]
    hosts = "".join(f"  {name}: type1\n" for name in names)
    (project / "fleet.yaml").write_text(f"engine: runners\nhosts:\n{hosts}")
    own = {"VPERF_CACHE_DIR": str(folder / "cache"), "VPERF_LOCK": str(folder / "lock")}
    spent = folder / "spent.json"
    environment = {**os.environ, **own, "SPENT": str(spent)}
    words = [sys.executable, "-m", "pytest", "-q", "--claims-fleet=fleet.yaml"]
    words += ["--claims-fleet-run=each", "--claims-sessions=1", "--claims-budget=0.2s"]
    words += ["--claims-thresholds=thresholds", "--hw=here", "-p", "no:cacheprovider"]

    def run(*more: str) -> None:
        done = subprocess.run(
            [*words, *more], cwd=project, env=environment, capture_output=True, text=True
        )
        if done.returncode:
            raise SystemExit(f"{done.stdout}{done.stderr}")

    run("--claims-fleet-plan=orders")
    with (project / "orders" / "m0.order").open("rb") as order:
        done = subprocess.run(
            [sys.executable, "-m", "pytest_vperf.fleet.shard"],
            stdin=order,
            capture_output=True,
            env=environment,
            check=True,
        )
    (project / "reports").mkdir()
    for name in names:
        with (project / "orders" / f"{name}.order").open("rb") as order:
            digest = hashlib.sha256(order.readline().rstrip(b"\n")).hexdigest()
        with (project / "reports" / f"{name}.reports").open("wb") as file:
            for line in done.stdout.splitlines():
                said = json.loads(line)
                if isinstance(said, dict) and said.get("vperf") == "begins":
                    line = json.dumps({**said, "order": digest}).encode()
                file.write(line.replace(b'"m0"', f'"{name}"'.encode()) + b"\n")
    run("--claims-json=out.json")
    found: dict[str, float] = json.loads(spent.read_text())
    record = json.loads((project / "out.json").read_text())
    lost = [each for each in record["claims"] if each["verdict"] == "not measured"]
    if lost or len(record["claims"]) != machines * tests:
        raise SystemExit(f"{len(record['claims'])} claims, {len(lost)} not measured")
    return found


if __name__ == "__main__":
    main()
