"""The runs of a fleet in a store: each machine's is its own, and is held against its own."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from fleets import record, run

pytest.importorskip("pytest_reportlog")

TESTS = """
import os
from samplers import around
LEVELS = {"h1": 300, "h2": 340, "h3": 270}
def test_it(claim): claim("start.quick").holds(around(LEVELS[os.environ["HOST"]] * FACTOR))
"""


def keep(fleet: pytest.Pytester, *words: str, factor: float = 1.0) -> pytest.RunResult:
    fleet.makepyfile(test_it=TESTS.replace("FACTOR", str(factor)))
    return run(fleet, "--claims-fleet-run=each", "--claims-store=store", *words)


def vperf(fleet: pytest.Pytester, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest_vperf", *words, "--store=store", "--json"]
    return subprocess.run(command, cwd=fleet.path, capture_output=True, text=True, check=False)


def test_each_machine_has_its_own_run(fleet: pytest.Pytester) -> None:
    result = keep(fleet, "--claims-save=main")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*main on h1, *; main on h2, *; main on h3, *"])
    files = [json.loads(path.read_text()) for path in (fleet.path / "store").glob("*.json")]
    assert len(files) == len({each["run"] for each in files}) == 3
    for each in files:
        name = each["fingerprint"]["machine"]
        assert [claim["machine"]["name"] for claim in each["claims"]] == [name]
        assert [level["claim"] for level in each["stored"]["levels"]] == ["start.quick"]

    # A claim is held against the runs of its own machine.
    result = keep(fleet, "--claims-save=new", "--baseline=main", factor=1.1)
    result.stdout.fnmatch_lines(["baseline main: *undecided*"])
    found = {each["machine"]["name"]: each for each in record(fleet)["claims"] if each["baseline"]}
    for name in ("h1", "h2", "h3"):
        assert found[name]["estimate"] == pytest.approx(1.1, rel=0.02)
        assert found[name]["baseline"]["runs"] == 1

    # So is what commands compare, from the store as from a file of the run.
    for new, name, old in (("new", "h2", 340), ("out.json", "h3", 270)):
        compared = json.loads(vperf(fleet, "compare", "main", new, f"--machine={name}").stdout)
        (row,) = compared["claims"]
        assert row["old"][0] == pytest.approx(old, rel=0.02)
        assert row["new"][0] == pytest.approx(old * 1.1, rel=0.02)
    history = json.loads(vperf(fleet, "history", "--machine=h2", "--last=2").stdout)
    (claim,) = history["claims"]
    assert [round(each["value"] / 340, 1) for each in claim["runs"]] == [1.0, 1.1]
    wrong = vperf(fleet, "compare", "main", "new", "--machine=h9")
    assert wrong.returncode == 2
    message = "vperf compare: main has no run of machine 'h9'; there are those of h1, h2, h3\n"
    assert wrong.stderr == message


def test_a_machine_without_a_run_is_named(fleet: pytest.Pytester) -> None:
    assert keep(fleet, "--claims-save=main", "--claims-fleet-hw=type-b").ret == 0
    result = keep(fleet, "--baseline=main")
    result.stdout.fnmatch_lines(
        ["fleet: h1: no run of main is of it", "fleet: h2: no run of main is of it"]
    )
    found = {each["machine"]["name"]: each for each in record(fleet)["claims"] if each["baseline"]}
    assert {name: each["verdict"] == "not measured" for name, each in found.items()} == {
        "h1": True,
        "h2": True,
        "h3": False,
    }
    assert found["h1"]["reason"] == (
        "the runs of main are of another machine than this: machine: h3 / h1"
    )
    result = keep(fleet, "--baseline=main", "--claims-fleet-hw=type-a")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["ERROR: --baseline: no run of main is of one of the machines h1, h2"]
    )
