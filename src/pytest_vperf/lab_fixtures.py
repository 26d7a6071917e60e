"""Hosts of a lab as a fixture: started when they are first wanted, ended with the run."""

from __future__ import annotations

import functools
from collections import Counter
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_vperf.lab.host import LabHost
    from pytest_vperf.machine.runs import Run


#: How often a host is started in a run: what kills it again and again kills the next one, too.
_MOST = 3


@pytest.fixture(scope="session")
def lab(request: pytest.FixtureRequest, vperf_run: Run) -> Iterator[Callable[[str], LabHost]]:
    """A host of a lab by its kind, ``kvm`` or ``xen``: ``lab("xen").uri``. One that has died is started again.

    The user's own is taken where it is up (``vperf lab up xen``), which saves the run its start; else one is started
    for the run, and ended with it.
    """
    from pytest_vperf.lab import labs
    from pytest_vperf.reporting import notice
    from pytest_vperf.targets.base import CannotConnect

    say = functools.partial(notice.say, request.config)
    found: dict[str, LabHost] = {}
    ours: list[LabHost] = []
    starts: Counter[str] = Counter()

    def get(kind: str) -> LabHost:
        if kind in found and not labs.is_there(found[kind]):
            died = found.pop(kind)
            if starts[kind] == _MOST:
                raise CannotConnect(
                    f"the host of lab {kind} died {_MOST} times in this run, and is not started once more"
                )
            say(f"the host of lab {kind} has died: another one is started")
            if died in ours:
                ours.remove(died)
                labs.end(died)
        if kind not in found:
            starts[kind] += 1
            host = labs.running(kind)
            if host is None:
                host = labs.up(kind, run=vperf_run, say=say)
                ours.append(host)
            found[kind] = host
        return found[kind]

    try:
        yield get
    finally:
        for host in ours:
            labs.end(host)
