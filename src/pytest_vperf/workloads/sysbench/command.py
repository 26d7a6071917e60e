"""sysbench's command line and version, the same for every test."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_vperf.workloads.base import Output, ParseError, Unsupported

if TYPE_CHECKING:
    from collections.abc import Sequence

#: More events than any run does, and the most that an option of 0.4 and 0.5 can hold.
_MANY = 2**31 - 1


def command(
    version: str, test: str, own: Sequence[str], threads: int, events: int, time: int
) -> tuple[str, ...]:
    """The arguments: 1.0 has other names (ChangeLog of 1.0.0); 0 is no limit.

    Raises:
        Unsupported: this version's options are not known.
    """
    major = re.match(r"([0-9]+)\.([0-9]+)", version)
    if major is None:
        raise Unsupported(f"{version!r} is no version whose options are known")
    if int(major[1]) >= 1:
        return (test, *own, f"--threads={threads}", f"--events={events}", f"--time={time}", "run")
    if (int(major[1]), int(major[2])) < (0, 4):
        raise Unsupported("the output of versions before 0.4 is not known")
    # For cpu there 0 is no event at all, and the run ends at once (cpu_get_request in sb_cpu.c of 0.4.12 and 0.5).
    if test == "cpu" and not events:
        events = _MANY
    limits = (f"--max-requests={events}", f"--max-time={time}")
    return (f"--test={test}", *own, f"--num-threads={threads}", *limits, "run")


def version_of(output: Output) -> str:
    """``1.0.20`` of ``sysbench 1.0.20``.

    Raises:
        ParseError: it is not there.
    """
    match = re.search(
        r"^sysbench v?([0-9]+\.[0-9]+[0-9A-Za-z.+-]*)", output.stdout, re.MULTILINE | re.ASCII
    )
    if match is None:
        raise ParseError("sysbench", "there is no version in what --version printed", output)
    return match[1]
