"""A load that is one, on a real target, and nothing of it afterwards."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

import psutil
import pytest

from pytest_vperf.machine.preflight import Readiness
from pytest_vperf.targets.base import TargetError, Unavailable
from pytest_vperf.targets.host import Host
from pytest_vperf.targets.image.debian import tools_rootfs
from pytest_vperf.targets.scope import Scope
from pytest_vperf.workloads import programs
from pytest_vperf.workloads.bench import Bench
from pytest_vperf.workloads.cpuhog import CpuHog
from pytest_vperf.workloads.registry import TOOLS, packages_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_vperf.machine.runs import Run


@pytest.fixture
def host(session_run: Run, require: Callable[[str, Readiness], None]) -> Iterator[Host]:
    try:
        rootfs = tools_rootfs(packages_of(TOOLS), programs.build())
    except Unavailable as error:
        require("host", Readiness("the image with the tools", False, error.reason, error.remedy))
        raise
    with Host(session_run, lambda: rootfs) as host:
        yield host


@pytest.fixture
def cpuhog() -> CpuHog:
    return CpuHog(Bench(Scope()))


def kill(session: int) -> None:
    os.killpg(session, signal.SIGKILL)
    while of_session(session):
        time.sleep(0.05)


def of_session(number: int) -> list[int]:
    found = []
    for pid in psutil.pids():
        try:
            if os.getsid(pid) == number and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                found.append(pid)
        except (ProcessLookupError, psutil.NoSuchProcess):
            continue
    return found


def test_load_uses_cpu_time_while_other_commands_run_and_is_gone_afterwards(host, cpuhog) -> None:
    with cpuhog.load(host, workers=2) as load:
        session = load._session
        before = load.cpu_time()
        assert host.run(["echo", "meanwhile"]).text == "meanwhile\n"
        time.sleep(0.5)
        after = load.cpu_time()
        assert len(of_session(session)) >= 3
    assert before.value > 0
    assert after.value > before.value
    assert of_session(session) == []


def test_load_that_ends_too_early_is_reported(host, cpuhog) -> None:
    with (
        pytest.raises(
            TargetError, match=r"the load on host ended too early: 0 of 1 workers are left"
        ),
        cpuhog.load(host, workers=1) as load,
    ):
        kill(load._session)
    assert of_session(load._session) == []


def test_load_is_ended_where_the_test_fails(host, cpuhog) -> None:
    with pytest.raises(ZeroDivisionError), cpuhog.load(host) as load:
        _ = 1 / 0
    assert of_session(load._session) == []
