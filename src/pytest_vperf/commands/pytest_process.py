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
#: Exit statuses that say the run went as it should: all passed, some tests failed.
RAN = (0, 1)
NOTHING_COLLECTED = 5


def run_pytest(words: Sequence[str]) -> tuple[int, bool]:
    """Run pytest; what it prints goes to standard error, so that the command's own table stands alone.

    Args:
        words: its arguments; where none of them is a path, the folder of claims comes too.

    Returns:
        its exit status, and whether it was interrupted.
    """
    interrupted = False
    command = [sys.executable, "-m", "pytest", *_with_place(words)]
    # In a session of its own, so that a Ctrl-C at the terminal reaches it once, from us, as SIGTERM does. It ends in
    # order then, and what it has measured is there.
    with subprocess.Popen(
        command, stdout=sys.stderr.fileno(), start_new_session=True, preexec_fn=_heeding_us()
    ) as process:
        while True:
            try:
                return process.wait(), interrupted
            except KeyboardInterrupt:
                interrupted = True
                with contextlib.suppress(ProcessLookupError):
                    process.send_signal(signal.SIGINT)


def _heeding_us() -> Callable[[], None]:
    """What the new process calls: it ends in order when we ask for it, and also when we were killed."""
    at_our_death = at_parents_death(signal.SIGINT)

    def heed() -> None:
        # A shell has its background jobs ignore it, and what they start ignores it, too.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        at_our_death()

    return heed


def _with_place(words: Sequence[str]) -> list[str]:
    # An expression may be a path by chance; os.path takes what is too long for a path for one that is not there.
    named = any(
        os.path.exists(word.partition("::")[0])  # noqa: PTH110
        for before, word in pairwise(["", *words])
        if before not in ("-k", "-m")
    )
    place = [] if named or not Path(USUAL_PLACE).is_dir() else [USUAL_PLACE]
    return [*words, *place]
