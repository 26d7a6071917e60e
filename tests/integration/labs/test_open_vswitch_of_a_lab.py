"""A guest on a bridge of Open vSwitch on a lab's KVM host: mirrored by the switch, and nothing is left."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from pytest_vperf.targets.libvirt.network import OvsNetwork
from pytest_vperf.targets.network.mirror import mirrored
from pytest_vperf.targets.scope import Scope
from pytest_vperf.workloads.bench import Bench
from pytest_vperf.workloads.iperf import Iperf

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_vperf.machine.runs import Run
    from pytest_vperf.targets.base import Target
    from pytest_vperf.targets.guest.guests import Guests
    from pytest_vperf.targets.libvirt.daemon import Daemon

pytestmark = pytest.mark.patient

ASK = ("ovs-vsctl", "--timeout=10")


def said(host: Target, *words: str) -> str:
    return host.run(["env", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", *words]).text.strip()


def left(host: Target, run: Run) -> list[str]:
    """A run's remaining networks and ports on Open vSwitch on the lab's host."""
    bridges = said(host, *ASK, "list-br").split()
    ports = [port for bridge in bridges for port in said(host, *ASK, "list-ports", bridge).split()]
    links = said(host, "sh", "-c", "ls /sys/class/net /run/netns 2>/dev/null; true").split()
    return [*bridges, *ports, *(name for name in links if run.id in name or "vnet" in name)]


@pytest.fixture
def shell(daemon_of: Callable[[str], Daemon], session_run: Run) -> Iterator[Target]:
    """The lab's host, on which nothing is left."""
    host = daemon_of("kvm").shell(lambda _: None)
    before = left(host, session_run)
    yield host
    assert left(host, session_run) == before


def test_a_mirror_of_the_switch_copies_what_goes_to_a_guest(
    guests: Guests, shell: Target, daemon_of: Callable[[str], Daemon]
) -> None:
    network = guests.ovs_network
    try:
        with (
            guests.start(init="small", network=network, vhost=True) as guest,
            guests.other_host(network) as other,
        ):
            details = guest.facts().details
            assert details["open_vswitch_datapath"] == "system: the kernel moves the packets"
            assert details["network"] == "bridge of Open vSwitch's, vhost-net moves the packets"
            iperf = Iperf(Bench(Scope()))
            with mirrored(guest, host=guests.host, by="ovs") as mirror:
                before = mirror.copied
                sent = iperf.udp(other, to=guest, rate="400 kbit/s", time=2, length=1000)
                copied = mirror.copied - before
                # Each packet once, and a few of other protocols.
                assert 50 < sent.datagrams <= copied <= sent.datagrams + 50
                # The switch updates its own count every five seconds.
                deadline, counted = time.monotonic() + 20, 0
                while counted < sent.datagrams and time.monotonic() < deadline:
                    time.sleep(1)
                    count = ("--if-exists", "get", "mirror", mirror.monitor)
                    counted = int(said(shell, *ASK, *count, "statistics:tx_packets") or 0)
                assert counted >= sent.datagrams
            assert said(shell, *ASK, "--columns=name", "list", "mirror") == ""
    finally:
        network.close()


def test_targets_of_a_killed_run_on_another_machine_end_by_themselves(
    shell: Target, session_run: Run, daemon_of: Callable[[str], Daemon]
) -> None:
    network = OvsNetwork(shell, session_run, daemon_of("kvm").connection.uri, 99)
    name = f"vp{session_run.id}n99"
    assert name in left(shell, session_run)
    assert network._at_end is not None
    # The guardian's input ends, as when this process ends.
    network._at_end._process.kill()
    deadline = time.monotonic() + 20
    while name in left(shell, session_run):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    network.close()
