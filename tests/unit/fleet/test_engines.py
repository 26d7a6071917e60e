"""Whether an engine failed, or the command that it started."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_vperf.fleet.engines import Slurm, Ssh
from pytest_vperf.fleet.file import read_fleet

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("said", "failed"),
    [
        # As srun of Slurm 22.05 says it.
        ("srun: error: Node failure on h1\nsrun: error: h1: task 0: Killed", True),
        (
            "srun: error: Task launch for StepId=2.0 failed on node h1: Communication connection failure\n"
            "srun: error: Application launch failed: Communication connection failure\n"
            "srun: Job step aborted",
            True,
        ),
        (
            "srun: error: Unable to allocate resources: Requested node configuration is not available",
            True,
        ),
        (
            "/usr/bin/python3: No module named pytest_vperf\n"
            "srun: error: h1: task 0: Exited with exit code 1",
            False,
        ),
        (
            "slurmstepd: error: execve(): /no/such/python: No such file or directory\n"
            "srun: error: h1: task 0: Exited with exit code 2",
            False,
        ),
    ],
)
def test_srun(tmp_path: Path, said: str, failed: bool) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text("engine: slurm\n")
    assert Slurm(read_fleet(path, {"slurm": ()})).failed(1, said) is failed


def test_ssh(tmp_path: Path) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text("engine: ssh\nhosts: {h1: a}\n")
    engine = Ssh(read_fleet(path, {"ssh": ("hosts",)}))
    assert engine.failed(255, "ssh: connect to host h1 port 22: No route to host")
    assert not engine.failed(127, "sh: 1: /no/such/python: not found")
