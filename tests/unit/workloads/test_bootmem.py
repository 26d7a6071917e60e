"""What a machine's start takes of its memory, from what its kernel says."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pytest_vperf.targets.base import Completed, Unavailable
from pytest_vperf.workloads.base import ParseError
from pytest_vperf.workloads.memory import BootMem

MEMINFO = """\
MemTotal:         480412 kB
MemFree:          446668 kB
MemAvailable:     448628 kB
Buffers:               0 kB
Cached:             5796 kB
"""


class Machine:
    """Has a ``cat`` that prints a text."""

    name = "pod tcg qboot"

    def __init__(self, text: str) -> None:
        self._text = text

    def program(self, name: str) -> Any:
        return SimpleNamespace(name=name, argv=(f"/usr/bin/{name}",))

    def run(self, argv: Any, **_: Any) -> Completed:
        assert list(argv) == ["/usr/bin/cat", "/proc/meminfo"]
        return Completed(tuple(argv), 0, self._text.encode(), b"", 0.0)


def taken(text: str, of: str = "512 MiB") -> Any:
    # A bench whose clock would be asked for is one too many: nothing is timed.
    bench: Any = SimpleNamespace(version=lambda *_: "9.1")
    machine: Any = Machine(text)
    return BootMem(bench).taken(machine, of=of)


def test_boot_memory_is_the_assigned_less_the_available_memory() -> None:
    found = taken(MEMINFO)
    assert (found.value, found.unit, found.direction) == (524288 - 448628, "KiB", "lower")
    assert dict(found.breakdown) == {"reserved": 524288 - 480412, "in use": 480412 - 448628}
    assert sum(dict(found.breakdown).values()) == found.value


def test_more_than_was_given_is_refused() -> None:
    with pytest.raises(ParseError) as caught:
        taken(MEMINFO, of="256 MiB")
    first = str(caught.value).splitlines()[0]
    assert (
        first
        == "cat 9.1: MemTotal 480412 kB and MemAvailable 448628 kB are not of 256 MiB; it printed:"
    )


def test_a_kernel_that_does_not_know_what_is_available_is_not_measured() -> None:
    lines = [line for line in MEMINFO.splitlines() if not line.startswith("MemAvailable")]
    with pytest.raises(Unavailable, match="does not say how much memory is available"):
        taken("\n".join(lines))
