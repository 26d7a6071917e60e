"""Ending a process of ours that waits for the end of its input."""

from __future__ import annotations

import contextlib
import subprocess


def end_by_input(process: subprocess.Popen[bytes], timeout: float) -> None:
    """Close its input and wait until it has ended; it is killed where that is not heard. Safe to repeat.

    Args:
        process: with a pipe as its input; its other pipes are closed, too.
        timeout: seconds to wait.
    """
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()
    try:
        process.wait(timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()
