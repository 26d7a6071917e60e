"""Every tool on every kind of target, for real: a figure comes back, or the true reason why there is none.

`benchmarks/tools_on_targets.py` runs these tests and prints their figures as a table.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vperf.targets.base import Unavailable
from pytest_vperf.targets.network.link import on_loopback

if TYPE_CHECKING:
    from pytest_vperf.quantity import Quantity

TARGETS = ("host", "container runc", "container runsc", "pod tcg")
on_every_target = pytest.mark.parametrize("start", TARGETS, indirect=True)


def keep(request: pytest.FixtureRequest, figure: Quantity) -> None:
    """Check a figure, and keep it for the table."""
    assert figure.value > 0
    request.node.user_properties.append(("figure", str(figure)))


@on_every_target
def test_sysbench_cpu(start: Any, sysbench: Any, request: pytest.FixtureRequest) -> None:
    result = sysbench.cpu(start(), max_prime=20_000, events=100)
    assert result.events == 100
    keep(request, result.events_per_second)


@on_every_target
@pytest.mark.parametrize("operation", ["read", "write"])
def test_sysbench_memory(
    start: Any, sysbench: Any, operation: str, request: pytest.FixtureRequest
) -> None:
    result = sysbench.memory(
        start(), operation=operation, block_size="64 KiB", total_size="512 MiB"
    )
    keep(request, result.throughput)


@on_every_target
def test_dhrystone(start: Any, dhrystone: Any, request: pytest.FixtureRequest) -> None:
    keep(request, dhrystone.run(start(), time=0.5).dmips)


@on_every_target
def test_whetstone(start: Any, whetstone: Any, request: pytest.FixtureRequest) -> None:
    keep(request, whetstone.run(start(), time=0.5).mflops)


@on_every_target
def test_syscalls(start: Any, syscalls: Any, request: pytest.FixtureRequest) -> None:
    keep(request, syscalls.run(start(), time=0.5).rate)


@on_every_target
def test_switches(start: Any, switches: Any, request: pytest.FixtureRequest) -> None:
    target = start()
    result = switches.run(target, time=0.5)
    # gVisor counts none (getrusage(2)), and so cannot show that there were any.
    assert result.counted == (target.name != "container runsc")
    keep(request, result.rate)


@on_every_target
def test_stream(start: Any, stream: Any, request: pytest.FixtureRequest) -> None:
    keep(request, stream.run(start()).triad)


@on_every_target
@pytest.mark.parametrize("kind", ["raw", "ext4"])
def test_fio(start: Any, disks: Any, fio: Any, kind: str, request: pytest.FixtureRequest) -> None:
    disk = disks.make("128 MiB", format="" if kind == "raw" else "ext4")
    if (request.node.callspec.params["start"], kind) == ("container runsc", "raw"):
        with pytest.raises(Unavailable, match="its runtime does not pass block devices through"):
            start(disks=[disk])
        return
    target = start(disks=[disk])
    result = fio.randread(target, disk, runtime="1 s", ramp_time="1 s")
    keep(request, result.iops)


@on_every_target
def test_iperf3(
    start: Any, network: Any, other_host: Any, iperf3: Any, request: pytest.FixtureRequest
) -> None:
    target = start(network=network)
    keep(request, iperf3.tcp(other_host, to=target, time=2, omit=1).throughput.to("Gbit/s"))


@on_every_target
def test_iperf_udp(
    start: Any, network: Any, other_host: Any, iperf: Any, request: pytest.FixtureRequest
) -> None:
    target = start(network=network)
    result = iperf.udp(other_host, to=target, rate="20 Mbit/s", time=2)
    assert result.arrival is not None
    keep(request, result.arrival.packets)


@on_every_target
def test_netperf(
    start: Any, network: Any, other_host: Any, netperf: Any, request: pytest.FixtureRequest
) -> None:
    target = start(network=network)
    keep(request, netperf.tcp_rr(other_host, to=target, time=2).rate)


@on_every_target
def test_cpuhog(start: Any, cpuhog: Any, request: pytest.FixtureRequest) -> None:
    with cpuhog.load(start(), workers=1) as load:
        time.sleep(1)
        keep(request, load.cpu_time())


@pytest.mark.parametrize("start", ["pod tcg"], indirect=True)
def test_bootmem(start: Any, bootmem: Any, request: pytest.FixtureRequest) -> None:
    keep(request, bootmem.taken(start(), of="1 GiB").to("MiB"))


@pytest.mark.parametrize("start", ["pod tcg"], indirect=True)
def test_netperf_loopback(start: Any, netperf: Any, request: pytest.FixtureRequest) -> None:
    machine = on_loopback(start())
    keep(request, netperf.tcp_rr(machine, to=machine, time=1).rate)


@on_every_target
def test_guestmem(start: Any, guestmem: Any, request: pytest.FixtureRequest) -> None:
    memory = guestmem.free(start())
    assert 0 < memory.used.value < memory.total.value
    keep(request, memory.total.to("MiB"))
