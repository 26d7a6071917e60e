"""A run over machines that are processes of this one, and what it leaves."""

from __future__ import annotations

import json
import zipfile
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

#: An engine whose machines are processes here, each with a measuring lock of its own.
ENGINE = """
import pathlib
from pytest_vperf import FleetEngine, FleetMachine, piped

class Here:
    def __init__(self, file): self.file = file
    def machines(self):
        return [FleetMachine(n, t, ("hosts", n)) for n, t in self.file.settings["hosts"].items()]
    def start(self, machine, command):
        words = self.file.settings.get("words", {}).get(machine.name, "")
        project = pathlib.Path(__file__).parent
        own_folder = project.with_name(f"{project.name}-{machine.name}")
        own_folder.mkdir(exist_ok=True)
        own = {"VPERF_LOCK": own_folder / "lock", "VPERF_CACHE_DIR": own_folder / "cache",
               "HOST": machine.name, "PROJECT": project}
        given = [f"{key}={value}" for key, value in own.items()]
        return piped([*words.split(), "env", "-C", "/", *given, *command])
    def waits(self, said): return False
    def failed(self, status, said): return "the engine failed" in said
    def end(self, process): process.kill()
    def gone(self): return {}

def pytest_vperf_fleet_engines():
    return [FleetEngine("here", Here, keys=("hosts", "words"))]
"""
FILE = """
engine: here
python: {python}
hosts: {{h1: type-a, h2: type-a, h3: type-b}}
"""
TESTS = """
import os, pathlib, signal
import pytest
from samplers import around

@pytest.mark.parametrize("number", range(4))
def test_quick(claim, number): claim("start.quick").holds(around(350))
def test_plain(): pass
"""


def run(project: pytest.Pytester, *words: str) -> pytest.RunResult:
    return project.runpytest(
        "--claims-fleet=fleet.yaml", "--claims-json=out.json", "--claims-sessions=1", *words
    )


def record(project: pytest.Pytester) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((project.path / "out.json").read_text())
    return found


def places(project: pytest.Pytester) -> list[tuple[str, str, str]]:
    """The test, machine and verdict of each claim."""
    return sorted(
        (each["nodeid"].split("::")[1], each["machine"]["name"], each["verdict"])
        for each in record(project)["claims"]
    )


def cases(path: Path) -> list[tuple[str, str]]:
    """The name and machine of each test case in a JUnit file."""
    found = []
    for case in ElementTree.parse(path).iter("testcase"):
        own = {each.attrib["name"]: each.attrib["value"] for each in case.iter("property")}
        found.append((case.attrib["name"], own.get("vperf.machine", "")))
    return sorted(found)


def wheel(folder: Path, content: str) -> Path:
    """Write a wheel with the module `a_runtime` and a command of that name."""
    path = folder / "a_runtime-1.0-py3-none-any.whl"
    about = "a_runtime-1.0.dist-info"
    files = {
        "a_runtime.py": content,
        f"{about}/METADATA": "Metadata-Version: 2.1\nName: a-runtime\nVersion: 1.0\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{about}/entry_points.txt": "[console_scripts]\na-runtime = a_runtime:main\n",
    }
    record = "".join(f"{name},,\n" for name in (*files, f"{about}/RECORD"))
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in {**files, f"{about}/RECORD": record}.items():
            archive.writestr(name, text)
    return path
