"""Targets started on a lab's host: ``--vperf-on=lab:KIND``."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from labs_here import SharedLabs


@pytest.mark.parametrize("kind", ["kvm", pytest.param("xen", marks=pytest.mark.patient)])
def test_pods_start_on_a_labs_host(shared_labs: SharedLabs, tmp_path: Path, kind: str) -> None:
    shared_labs.get(kind)
    (tmp_path / "test_it.py").write_text(
        f"""
def test_it(pods_on, native):
    with pods_on("{kind}").start() as pod:
        details = pod.facts().details
        assert details["on"] == "lab {kind}"
        assert details["emulated"] == "yes"
        assert details["accelerator"] == "{kind}"
        assert pod.name.startswith("pod {kind}")
        assert pod.run(["echo", "hello"]).text == "hello\\n"
    assert native.facts().details["on"] == "lab {kind}"
    assert native.run([*native.program("busybox").argv, "echo", "hello"]).text == "hello\\n"
"""
    )
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "--start-timeout=300 s",
            f"--vperf-on=lab:{kind}",
            "test_it.py",
        ],
        env={**os.environ, "VPERF_RUNS_DIR": str(shared_labs.folder)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=550,
        check=False,
    )
    assert "1 passed" in done.stdout, done.stdout
