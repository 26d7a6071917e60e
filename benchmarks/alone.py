"""What every benchmark here does around its measuring: it waits its turn, and cleans up when it is interrupted."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING

from pytest_vperf.machine.ending import ending_in_order
from pytest_vperf.machine.lock import LockTimeout, measuring

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

INTERRUPTED = 130  # as a shell has it: 128 + SIGINT


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Hold the machine for a measurement; says once for whom it waits.

    Raises:
        SystemExit: another measurement held the machine for too long.
    """
    said = False

    def on_wait(holder: str) -> None:
        nonlocal said
        if not said:
            print(f"waiting for another measurement: {holder}", file=sys.stderr, flush=True)
        said = True

    try:
        with measuring(on_wait):
            yield
    except LockTimeout as error:
        raise SystemExit(str(error)) from error


def interruptible(name: str, main: Callable[[], int]) -> int:
    """Run ``main``; Ctrl-C and SIGTERM end it with one line, after it has cleaned up.

    Returns:
        its exit status, or 130.
    """
    try:
        with ending_in_order():
            return main()
    except KeyboardInterrupt:
        print(f"{name}: interrupted", file=sys.stderr)
        return INTERRUPTED
