"""Every tool on every kind of target, for real: a figure comes back, or the true reason why there is none.

`benchmarks/tools_on_targets.py` runs these tests and prints their figures as a table.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vperf.targets.base import CommandFailed

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_vperf.quantity import Quantity

TARGETS = ("host", "container runc", "container runsc", "pod tcg")
on_every_target = pytest.mark.parametrize("start", TARGETS, indirect=True)


def keep(record_property: Callable[[str, object], None], figure: Quantity) -> None:
    """Check a figure, and keep it for the table."""
    assert figure.value > 0
    record_property("figure", str(figure))


@on_every_target
def test_sysbench_cpu(start: Any, sysbench: Any, record_property: Any) -> None:
    result = sysbench.cpu(start(), max_prime=20_000, events=100)
    assert result.events == 100
    keep(record_property, result.events_per_second)


@on_every_target
@pytest.mark.parametrize("operation", ["read", "write"])
def test_sysbench_memory(start: Any, sysbench: Any, operation: str, record_property: Any) -> None:
    result = sysbench.memory(
        start(), operation=operation, block_size="64 KiB", total_size="512 MiB"
    )
    keep(record_property, result.throughput)


@on_every_target
def test_dhrystone(start: Any, dhrystone: Any, record_property: Any) -> None:
    keep(record_property, dhrystone.run(start(), time=0.5).dmips)


@on_every_target
def test_whetstone(start: Any, whetstone: Any, record_property: Any) -> None:
    keep(record_property, whetstone.run(start(), time=0.5).mflops)


@on_every_target
def test_stream(start: Any, stream: Any, record_property: Any) -> None:
    keep(record_property, stream.run(start()).triad)


@on_every_target
@pytest.mark.parametrize("kind", ["raw", "ext4"])
def test_fio(start: Any, disks: Any, fio: Any, kind: str, record_property: Any) -> None:
    disk = disks.make("128 MiB", format="" if kind == "raw" else "ext4")
    target = start(disks=[disk])
    try:
        result = fio.randread(target, disk, runtime="1 s", ramp_time="1 s")
    except CommandFailed as error:
        # The sandbox of gVisor has no asynchronous direct I/O; what fio says is the reason.
        pytest.skip(str(error))
    keep(record_property, result.iops)


@on_every_target
def test_iperf3(
    start: Any, network: Any, other_host: Any, iperf3: Any, record_property: Any
) -> None:
    target = start(network=network)
    keep(record_property, iperf3.tcp(other_host, to=target, time=2, omit=1).throughput)


@on_every_target
def test_iperf_udp(
    start: Any, network: Any, other_host: Any, iperf: Any, record_property: Any
) -> None:
    target = start(network=network)
    result = iperf.udp(other_host, to=target, rate="20 Mbit/s", time=2)
    assert result.arrival is not None
    keep(record_property, result.arrival.packets)


@on_every_target
def test_netperf(
    start: Any, network: Any, other_host: Any, netperf: Any, record_property: Any
) -> None:
    target = start(network=network)
    keep(record_property, netperf.tcp_rr(other_host, to=target, time=2).rate)


@on_every_target
def test_cpuhog(start: Any, cpuhog: Any, record_property: Any) -> None:
    with cpuhog.load(start(), workers=1) as load:
        time.sleep(1)
        keep(record_property, load.cpu_time())


@on_every_target
def test_guestmem(start: Any, guestmem: Any, record_property: Any) -> None:
    memory = guestmem.free(start())
    assert 0 < memory.used.value < memory.total.value
    keep(record_property, memory.total)
