"""Whether a container that has just started stays: one that ends at once has not started, as with an engine's."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pytest_vperf.targets.agent.wire import Frame, Type, WireError, number
from pytest_vperf.targets.base import CannotStart

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

#: Seconds, outside of the clock, that its process is watched for at least.
SETTLED = 0.05
#: Bytes of its output that are kept: its last words.
_KEPT = 1 << 16
#: Emulated, or on a busy host, "at once" is longer: this share of the start, and so many times its last phase. Not by
#: the last phase alone: of two words that arrive together the second seems to have taken no time.
_OF_START, _OF_PHASE = 0.05, 2


def settling_time(start: float, phase: float) -> float:
    """How long to watch, in seconds.

    Args:
        start: what the whole start took, in seconds.
        phase: what the container's phase of it took.
    """
    return max(SETTLED, _OF_START * start, _OF_PHASE * phase)


def settle(
    frames: Callable[[float], Iterable[Frame]], name: str, command: tuple[str, ...], seconds: float
) -> None:
    """Make sure that the container's process is still there a moment later.

    Args:
        frames: gives what the agent says until a time of time.perf_counter().
        name: of the target.
        command: the container's.
        seconds: to wait.

    Raises:
        CannotStart: it ended at once; with its status and what it printed.
    """
    said = b""
    deadline = time.perf_counter() + seconds
    late = False
    while not late:
        # What has come by then counts, also where nobody looked meanwhile.
        late = time.perf_counter() >= deadline
        for frame in frames(deadline):
            if frame.type in (Type.OUTPUT, Type.ERRORS):
                said = (said + frame.payload)[-_KEPT:]
            elif frame.type is Type.EXIT:
                try:
                    status = f"status {number(frame.payload, frame.type)}"
                except WireError as error:
                    status = f"no status: {error}"
                words = said.decode("utf-8", "replace").strip()[-500:]
                raise CannotStart(
                    f"{name}: its container ended at once ({' '.join(command)}) with {status}"
                    + (f":\n{words}" if words else " and no output"),
                    target=name,
                )
