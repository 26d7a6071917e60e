"""What goes between a run and a machine of its fleet: lines of JSON.

To the machine, an order, and later an empty line now and then: a sign of life. From there, objects with the key
``vperf``, which say how the shard is; the lines of pytest-reportlog; and lists, the notes of
`pytest_vperf.run.workers`.
"""

from __future__ import annotations

import json
from typing import Any

#: How the names of files end that hold what goes to a machine and what comes from there, where nothing reaches it.
ORDER, REPORTS = ".order", ".reports"
#: The environment variable that names the descriptors of the order and of the stream to a shard's pytest; gone once
#: read, as what the tests start is no shard.
VARIABLE = "VPERF_SHARD"
#: Seconds between two signs of life.
BEAT = 5.0
#: After so many seconds without a word, a machine is lost for the run: eight signs of life have not come.
SILENT = 40.0
#: After so many seconds without a sign of the run, a machine ends its shard: a little later than the run gives it up.
DESERTED = 60.0
#: Most bytes of a line: a report, with all samples of its claims and what the test printed.
LONGEST = 256 << 20


class TooLong(Exception):
    """A line has more than `LONGEST` bytes."""


class Lines:
    """Makes lines of what is read piece by piece."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> list[bytes]:
        """Take a piece; return the lines that it ends, without their ends.

        Raises:
            TooLong: no end is in sight.
        """
        *whole, rest = data.split(b"\n")
        if whole:
            whole[0] = b"".join((*self._parts, whole[0]))
            self._parts, self._size = [], 0
        if rest:
            self._parts.append(rest)
            self._size += len(rest)
            if self._size > LONGEST:
                raise TooLong
        return whole


def line(kind: str, **more: Any) -> bytes:
    """A line of ours."""
    return f"{json.dumps({'vperf': kind, **more})}\n".encode()
