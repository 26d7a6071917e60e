"""The disk of the results is full: a real file system, mounted for the test alone, in a mount namespace."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

THRESHOLDS = "hardware: {name: any, match: {}}\nclaims: {start.*: {at_most: 400 ms}}\n"
TESTS = """
import itertools, pytest
from pytest_vperf.quantity import Quantity
noise = itertools.cycle([0, 3, -1, 2, -2, 1])
@pytest.mark.parametrize("number", range(30))
def test_it(claim, number):
    claim(f"start.n{number}").holds(lambda: Quantity(350 + next(noise), "ms"))
def test_last(claim):
    LAST
"""
SCRIPT = """
set -u
mount -t tmpfs -o size=64k,mode=0755 vperf-test "$1/results" || exit 99
shift
"$@" > out.txt 2>&1
status=$?
cp -a results/. kept/
df --output=avail results | tail -n1 > avail.txt
exit $status
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a file system")
@pytest.mark.parametrize(
    ("last", "options"),
    [("pass", []), ("assert False", ["-x"]), ("raise KeyboardInterrupt", [])],
    ids=["to the end", "-x", "ctrl-c"],
)
def test_a_full_disk_ends_no_run_and_what_was_written_stays(
    tmp_path: Path, last: str, options: list[str]
) -> None:
    for name in ("results", "kept", "thresholds"):
        (tmp_path / name).mkdir()
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "thresholds" / "any.yaml").write_text(THRESHOLDS)
    (tmp_path / "test_it.py").write_text(TESTS.replace("LAST", last))
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--claims-sessions=1"]
    command += ["--claims-json=results/out.json", *options]
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", SCRIPT, "sh", str(tmp_path), *command],
        cwd=tmp_path,
        env={**os.environ, "VPERF_LOCK": str(tmp_path / "lock"), "COLUMNS": "400"},
        timeout=300,
        check=False,
    )
    if done.returncode == 99:
        pytest.skip("no file system can be mounted here")
    out = (tmp_path / "out.txt").read_text()
    assert done.returncode == 74, out
    assert "claims: 30 held" in out
    assert out.count("No space left on device; measuring goes on") == 1
    (elsewhere,) = (
        Path(line.rpartition(" is in ")[2])
        for line in out.splitlines()
        if "out.json cannot be written: No space left on device; the record is in " in line
    )
    try:
        whole = json.loads(elsewhere.read_text())["claims"]
    finally:
        elsewhere.unlink()
    assert [each["name"] for each in whole] == [f"start.n{number}" for number in range(30)]
    # What the full disk has is a whole journal of the first claims.
    (journal,) = (tmp_path / "kept").glob("out.json.journal-*")
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    names = [line["claim"]["name"] for line in lines if "claim" in line]
    assert names == [f"start.n{number}" for number in range(len(names))]
    assert 0 < len(names) < 30
    assert json.loads((tmp_path / "kept" / "out.json").read_text())["unfinished"] == journal.name
