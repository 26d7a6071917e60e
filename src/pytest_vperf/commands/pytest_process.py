"""pytest in a process of its own, for the commands that run tests."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vperf.machine.ending import at_parents_death

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

USUAL_PLACE = "tests/claims"
#: Exit statuses of a complete run: all tests passed, or some failed.
RAN = (0, 1)
NOTHING_COLLECTED = 5


def run_pytest(
    words: Sequence[str], *, output: int | None = None, at: Path | None = None
) -> tuple[int, bool]:
    """Run pytest with its output on standard error, which leaves standard output to the command's own table.

    Args:
        words: its arguments; if none of them is a path, the folder of claims is added.
        output: a file that receives all of its output instead.
        at: the folder that it is called in; by default the current one.

    Returns:
        the exit status, and whether it was interrupted.
    """
    interrupted = False
    command = [sys.executable, "-m", "pytest", *_with_place(words, at or Path())]
    into = sys.stderr.fileno() if output is None else output
    # In a session of its own, so that Ctrl-C at the terminal reaches it only once, from us: it then ends in order,
    # and keeps what it has measured.
    with subprocess.Popen(
        command,
        cwd=at,
        stdin=subprocess.DEVNULL if output is not None else None,
        stdout=into,
        stderr=output,
        start_new_session=True,
        preexec_fn=_heeding_us(),
    ) as process:
        while True:
            try:
                return process.wait(), interrupted
            except KeyboardInterrupt:
                interrupted = True
                with contextlib.suppress(ProcessLookupError):
                    process.send_signal(signal.SIGINT)


def _heeding_us() -> Callable[[], None]:
    """The new process's setup: it ends in order on our SIGINT, and also if we are killed."""
    at_our_death = at_parents_death(signal.SIGINT)

    def heed() -> None:
        # A shell's background jobs ignore SIGINT, and their children inherit that.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        at_our_death()

    return heed


def _with_place(words: Sequence[str], at: Path = Path()) -> list[str]:
    # An expression may look like an existing path. os.path.exists is false for a name that is too long; Path raises.
    named = any(
        os.path.exists(os.path.join(at, word.partition("::")[0]))  # noqa: PTH110, PTH118
        for before, word in pairwise(["", *words])
        if before not in ("-k", "-m")
    )
    place = [] if named or not (at / USUAL_PLACE).is_dir() else [USUAL_PLACE]
    return [*words, *place]
