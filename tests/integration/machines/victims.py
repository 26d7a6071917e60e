"""Runs that tests kill, and their remaining traces, found without the product's help."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil


def victim(program: str, *arguments: str) -> tuple[subprocess.Popen[str], str]:
    """Start a program with a run; returns it and the run's ID, the first line that it prints."""
    process = subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def traces(run: str, runs: Path | None = None) -> list[str]:
    """All remaining traces of a run: processes, mounts, control groups.

    Args:
        run: its ID.
        runs: where folders of runs are, to look for its folder, too.
    """
    found = []
    for process in psutil.process_iter():
        try:
            words = " ".join([*process.cmdline(), *process.environ().values()])
            if process.status() != psutil.STATUS_ZOMBIE and run in words:
                found.append(f"{process.name()}: {words[:200]}")
        except psutil.Error:
            continue
    found += [line for line in Path("/proc/mounts").read_text().splitlines() if run in line]
    # Not Path.glob(), which fails where a group vanishes meanwhile.
    for folder, names, _ in os.walk("/sys/fs/cgroup"):
        found += [f"{folder}/{name}" for name in names if f"vperf-{run}" in name]
    if runs is not None:
        found += [str(path) for path in runs.iterdir() if run in path.name]
    return found
