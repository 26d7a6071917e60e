"""Fixtures shared by the unit tests of targets."""

from __future__ import annotations

import resource
import socket
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from pytest_vperf.density.filling import many_files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: Runs commands on this machine as sshd does: in a new session, which outlives the client.
SSH = """#!/bin/sh
for word; do last=$word; done
case "$*" in *" -M "*|*" -O "*) exit 0;; esac
SSH_CONNECTION="192.0.2.1 1 192.0.2.2 2" exec setsid --wait sh -c "$last"
"""


@pytest.fixture
def ssh_in_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program in place of ssh, first in the path; the test has its own folder of runs."""
    program = tmp_path / "ssh"
    program.write_text(SSH)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("VPERF_RUNS_DIR", str(tmp_path / "runs"))
    return program


@pytest.fixture
def more_files_than_select_knows() -> Iterator[None]:
    """Opens so many files that the next descriptors are beyond the limit of select(2)."""
    with many_files(), ExitStack() as opened:
        if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < 2048:
            pytest.skip("this process may not have so many files open")
        for _ in range(600):
            for each in socket.socketpair():
                opened.enter_context(each)
        yield
