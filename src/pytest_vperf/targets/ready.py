"""Waits for sockets, also where the process has so many that select(2), which knows 1024, cannot."""

from __future__ import annotations

import math
import select
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence

#: Milliseconds that poll(2) takes: an int.
_LONGEST = (1 << 31) - 1
_READABLE = select.POLLIN | select.POLLHUP | select.POLLERR | select.POLLNVAL
_WRITABLE = select.POLLOUT | select.POLLHUP | select.POLLERR | select.POLLNVAL


def ready(
    readers: Sequence[socket.socket], writers: Sequence[socket.socket], seconds: float
) -> tuple[list[socket.socket], list[socket.socket]]:
    """Which of the sockets have something to read, or take something; an end and an error are to be read, too.

    Args:
        readers: to be read.
        writers: to be written to.
        seconds: to wait at most; after 24 days nothing is ready, whatever was asked for.
    """
    wanted: dict[int, int] = {}
    for sockets, events in ((readers, select.POLLIN), (writers, select.POLLOUT)):
        for each in sockets:
            wanted[each.fileno()] = wanted.get(each.fileno(), 0) | events
    poll = select.poll()
    for descriptor, events in wanted.items():
        poll.register(descriptor, events)
    found = dict(poll.poll(math.ceil(min(max(0.0, seconds) * 1000, _LONGEST))))
    return (
        [each for each in readers if found.get(each.fileno(), 0) & _READABLE],
        [each for each in writers if found.get(each.fileno(), 0) & _WRITABLE],
    )
