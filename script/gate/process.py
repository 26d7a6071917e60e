"""Runs a command of a step: its output to a file and to ours, with a time limit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

#: Seconds for a command to end what it started, after an interrupt.
GRACE = 60.0
#: Seconds between two looks at the output.
LOOK = 0.1
#: The exit status of what was ended at its limit, as timeout(1) has it.
LIMIT_STATUS = 124


def run(argv: Sequence[str], *, limit: float, log: Path, cwd: Path, env: Mapping[str, str]) -> int:
    """Run a command, and show what it prints.

    The output goes through a file, not a pipe: what a command leaves running cannot keep us waiting.

    Args:
        argv: the command.
        limit: seconds. At the limit it gets an interrupt, and what is left of it a minute later is killed.
        log: what it prints is appended to this file.
        cwd: where it runs.
        env: its whole environment.

    Returns:
        Its exit status; `LIMIT_STATUS` if it was ended at its limit.
    """
    with log.open("ab") as output, log.open("rb") as shown:
        shown.seek(0, os.SEEK_END)
        process = subprocess.Popen(
            argv,
            cwd=cwd,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # a signal for all of it
        )

        def show() -> None:
            sys.stdout.buffer.write(shown.read())
            sys.stdout.buffer.flush()

        def wait(seconds: float) -> bool:
            ends = time.monotonic() + seconds
            while process.poll() is None and time.monotonic() < ends:
                show()
                time.sleep(LOOK)
            show()
            return process.poll() is not None

        try:
            if wait(limit):
                return process.returncode
            process.send_signal(signal.SIGINT)
            wait(GRACE)
            return LIMIT_STATUS
        except KeyboardInterrupt:
            process.send_signal(signal.SIGINT)
            wait(GRACE)
            raise
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            show()
