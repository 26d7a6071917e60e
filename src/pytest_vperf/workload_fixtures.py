"""The field's tools as fixtures: ``sysbench.cpu(container, max_prime=20_000).total_time``.

A test that asks for one of them gets targets whose image has the tools.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_vperf.stash import claims_session

if TYPE_CHECKING:
    from pytest_vperf.targets.scope import Scope
    from pytest_vperf.workloads.bench import Bench
    from pytest_vperf.workloads.bootmem import BootMem
    from pytest_vperf.workloads.cpuhog import CpuHog
    from pytest_vperf.workloads.crowd import Crowds
    from pytest_vperf.workloads.dhrystone import Dhrystone
    from pytest_vperf.workloads.fio import Fio
    from pytest_vperf.workloads.guestmem import GuestMem
    from pytest_vperf.workloads.iperf import Iperf
    from pytest_vperf.workloads.iperf3 import Iperf3
    from pytest_vperf.workloads.loaded import Loaded
    from pytest_vperf.workloads.netperf import Netperf
    from pytest_vperf.workloads.procmem import ProcMem
    from pytest_vperf.workloads.stream import Stream
    from pytest_vperf.workloads.switches import Switches
    from pytest_vperf.workloads.sysbench import Sysbench
    from pytest_vperf.workloads.syscalls import Syscalls
    from pytest_vperf.workloads.threadcpu import ThreadCpu
    from pytest_vperf.workloads.whetstone import Whetstone


@pytest.fixture
def bench(scope: Scope) -> Bench:
    """Runs workloads: ``bench.run(target, workload)``; the tools' fixtures are made with it."""
    from pytest_vperf.workloads.bench import Bench

    return Bench(scope)


@pytest.fixture
def sysbench(bench: Bench) -> Sysbench:
    """sysbench: ``sysbench.cpu(target, …)`` and ``sysbench.memory(target, …)``."""
    from pytest_vperf.workloads.sysbench import Sysbench

    return Sysbench(bench)


@pytest.fixture
def dhrystone(bench: Bench) -> Dhrystone:
    """Weicker's Dhrystone."""
    from pytest_vperf.workloads.dhrystone import Dhrystone

    return Dhrystone(bench)


@pytest.fixture
def whetstone(bench: Bench) -> Whetstone:
    """Curnow and Wichmann's Whetstone."""
    from pytest_vperf.workloads.whetstone import Whetstone

    return Whetstone(bench)


@pytest.fixture
def stream(bench: Bench) -> Stream:
    """McCalpin's STREAM."""
    from pytest_vperf.workloads.stream import Stream

    return Stream(bench)


@pytest.fixture
def syscalls(bench: Bench) -> Syscalls:
    """The rate of system calls, as lmbench defines the null one."""
    from pytest_vperf.workloads.syscalls import Syscalls

    return Syscalls(bench)


@pytest.fixture
def switches(bench: Bench) -> Switches:
    """The rate of context switches between two processes."""
    from pytest_vperf.workloads.switches import Switches

    return Switches(bench)


@pytest.fixture
def fio(bench: Bench) -> Fio:
    """fio, on block devices and file systems."""
    from pytest_vperf.workloads.fio import Fio

    return Fio(bench)


@pytest.fixture
def iperf(bench: Bench) -> Iperf:
    """iperf 2, for UDP packets per second."""
    from pytest_vperf.workloads.iperf import Iperf

    return Iperf(bench)


@pytest.fixture
def iperf3(bench: Bench) -> Iperf3:
    """iperf3, TCP and UDP."""
    from pytest_vperf.workloads.iperf3 import Iperf3

    return Iperf3(bench)


@pytest.fixture
def netperf(bench: Bench) -> Netperf:
    """netperf, for transactions per second."""
    from pytest_vperf.workloads.netperf import Netperf

    return Netperf(bench)


@pytest.fixture
def cpuhog(bench: Bench) -> CpuHog:
    """stress-ng as load in the background."""
    from pytest_vperf.workloads.cpuhog import CpuHog

    return CpuHog(bench)


@pytest.fixture
def loaded(cpuhog: CpuHog, scope: Scope) -> Loaded:
    """The conditions of a response time: ``loaded("loaded_system", by=start, on=host).during(target, sample)``."""
    from pytest_vperf.workloads.loaded import Loaded

    return Loaded(cpuhog, scope)


@pytest.fixture
def crowds(request: pytest.FixtureRequest, bench: Bench, scope: Scope) -> Crowds:
    """Many targets at work at once: ``crowds.start(containers.start).sample(work, figure, of_all="sum")``."""
    from pytest_vperf.workloads.crowd import Crowds

    return Crowds(bench, scope, claims_session(request.config).settings.scale_count)


@pytest.fixture
def procmem() -> ProcMem:
    """The memory of a process, by the host's account."""
    from pytest_vperf.workloads.procmem import ProcMem

    return ProcMem()


@pytest.fixture
def guestmem(bench: Bench) -> GuestMem:
    """The memory of a target, as ``free`` in it says."""
    from pytest_vperf.workloads.guestmem import GuestMem

    return GuestMem(bench)


@pytest.fixture
def bootmem(bench: Bench) -> BootMem:
    """The memory that a machine's start takes."""
    from pytest_vperf.workloads.bootmem import BootMem

    return BootMem(bench)


@pytest.fixture
def threadcpu() -> ThreadCpu:
    """The share of a processor that one thread takes."""
    from pytest_vperf.workloads.threadcpu import ThreadCpu

    return ThreadCpu()
