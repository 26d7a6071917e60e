"""A project whose tests run on the machines of a rig, and what its runs leave."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import fleet_rig

if TYPE_CHECKING:
    from pathlib import Path

    from fleet_rig import Rig

TYPES = {"h1": "type-a", "h2": "type-a", "h3": "type-b"}
#: A machine that has said nothing for so many seconds is lost: a few signs of life, as nothing else disturbs these. A
#: run of ours has 40 s.
SILENT = float(os.environ.get("VPERF_TEST_SILENT", "12"))
PROFILE = """
hardware:
  name: {name}
  summary: a machine of this type
  match: {{cpu_model: "{model}"}}
claims:
  start.quick: {{at_most: 400 ms}}
"""
CONFTEST = """
import os
from pytest_vperf.fleet import links
links.SILENT = float(os.environ.get("SILENT", links.SILENT))
"""
#: Each sample says when and where it was taken, so that two at once are seen.
TESTS = """
import os, pathlib, platform, random, time
import pytest
from pytest_vperf import Quantity

SAMPLES = pathlib.Path("PROJECT", f"samples-{platform.node()}")

def sample():
    began = time.monotonic()
    time.sleep(0.02)
    with SAMPLES.open("a") as stream:
        stream.write(f"{os.getpid()} {began} {time.monotonic()}\\n")
    return Quantity(random.gauss(350, 2), "ms")

@pytest.mark.parametrize("number", range(6))
def test_quick(claim, number):
    claim("start.quick").holds(sample)
"""
NAMES = [f"test_quick[{number}]" for number in range(6)]


@dataclass
class Project:
    """A folder with tests, and the file of the fleet.

    Attributes:
        folder: it.
        rig: the machines.
    """

    folder: Path
    rig: Rig

    def start(self, *words: str, record: str = "out.json", silent: float = SILENT) -> Started:
        """Start a run on the fleet."""
        (self.folder / record).unlink(missing_ok=True)
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-v"]
        command += ["--claims-fleet=fleet.yaml", f"--claims-json={record}", "--claims-sessions=1"]
        environment = {key: each for key, each in os.environ.items() if "PYTEST" not in key}
        process = subprocess.Popen(
            self.rig.inside([*command, *words], self.folder),
            env={**environment, "SILENT": str(silent), "COLUMNS": "160"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        return Started(process, self.folder / record)

    def overlaps(self) -> list[str]:
        """Samples of two processes on one machine that were taken at once."""
        found = []
        for path in self.folder.glob("samples-*"):
            taken = sorted(
                (float(began), float(ended), pid)
                for pid, began, ended in (line.split() for line in path.read_text().splitlines())
            )
            found += [
                f"{path.name}: {one} and {other}"
                for one, other in itertools.pairwise(taken)
                if other[0] < one[1] and one[2] != other[2]
            ]
        return found

    def busy(self, names: list[str]) -> list[str]:
        """What runs on machines beside their sshd."""
        idle = re.compile(r"sshd|ps -e|\(sd-pam\)|munged|slurmd|\[")
        return [
            f"{name}: {line}"
            for name in names
            for line in self.rig.processes(name)
            if not idle.match(line.removeprefix("/usr/sbin/"))
        ]

    def clear_after(self, names: list[str], limit: float) -> float:
        """Seconds until nothing runs on machines any more.

        Raises:
            AssertionError: something does after so many.
        """
        began = time.monotonic()
        while left := self.busy(names):
            assert time.monotonic() - began < limit, left
            time.sleep(0.1)
        return time.monotonic() - began


@dataclass
class Started:
    """A run that goes on.

    Attributes:
        process: of pytest.
        path: of its record.
    """

    process: subprocess.Popen[str]
    path: Path

    def ended(self, limit: float = 120.0) -> tuple[int, str]:
        """Its exit status and output.

        Raises:
            subprocess.TimeoutExpired: it does not end.
        """
        try:
            output, _ = self.process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        return self.process.returncode, output

    @property
    def claims(self) -> list[dict[str, Any]]:
        """What its record has."""
        found: list[dict[str, Any]] = json.loads(self.path.read_text())["claims"]
        return found

    def verdicts(self) -> set[tuple[str, str, str]]:
        """The test, type of machine and verdict of each claim; the machine is the one of its name."""
        found = set()
        for each in self.claims:
            own = each["machine"]
            type_ = TYPES[own["name"]]
            assert own.get("cpu_model", fleet_rig.MODELS[type_]) == fleet_rig.MODELS[type_]
            if each["verdict"] != "not measured":
                assert each["hardware"]["profile"] == type_
            found.add((each["nodeid"].split("::")[1], type_, each["verdict"]))
        return found


def make_project(folder: Path, rig: Rig, engine: str) -> Project:
    """Write its files into a folder.

    Args:
        folder: which.
        rig: the machines.
        engine: that starts something there, ``ssh`` or ``slurm``.
    """
    (folder / "thresholds").mkdir()
    for name, model in fleet_rig.MODELS.items():
        profile = PROFILE.format(name=name, model=model)
        (folder / "thresholds" / f"{name}.yaml").write_text(profile)
    hosts = ", ".join(f"{name}: {type_}" for name, type_ in TYPES.items())
    own = {"ssh": f"ssh_config: {rig.ssh_config}\nhosts: {{{hosts}}}\n", "slurm": ""}
    (folder / "fleet.yaml").write_text(f"engine: {engine}\npython: {sys.executable}\n{own[engine]}")
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_it.py").write_text(TESTS.replace("PROJECT", str(folder)))
    return Project(folder, rig)
