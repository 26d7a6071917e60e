"""pytest as a user calls it, with machines that he names: ``--vperf-machine``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ssh_login import wrapper

if TYPE_CHECKING:
    from ssh_login import Login

ROOT = Path(__file__).parents[3]
CLAIMS = ROOT / "tests/claims/test_response.py"


class Named:
    """pytest as a user calls it, with machines that he names.

    Args:
        folder: for files.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.said = ""

    def pytest(
        self, words: list[str], logins: list[Login], *arguments: str, test: Path = CLAIMS
    ) -> list[dict[str, Any]]:
        """The records of a run.

        Args:
            words: NAME=URL of each machine.
            logins: how they are reached.
            arguments: further ones of pytest.
            test: the file; by default the shipped claims about response times.
        """
        wrapper(self.folder, logins)
        record = self.folder / "run.json"
        done = subprocess.run(
            [
                *(sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rs"),
                str(test),
                *(f"--claims-json={record}", "--claims-budget=3 s", "--claims-sessions=1"),
                *(f"--vperf-machine={word}" for word in words),
                *arguments,
            ],
            env={**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}", "VPERF_REQUIRE": ""},
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
        )
        self.said = done.stdout + done.stderr
        assert record.exists(), self.said
        claims: list[dict[str, Any]] = json.loads(record.read_text())["claims"]
        return claims


def details(claim: dict[str, Any], name: str) -> dict[str, str]:
    """The facts about a machine in the record of a claim."""
    (found,) = [each for each in claim["targets"] if each["name"] == name]
    assert found["kind"] == "machine"
    told: dict[str, str] = found["details"]
    return told
