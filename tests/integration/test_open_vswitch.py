"""A bridge of Open vSwitch on this machine: its hosts are reached and mirrored, and nothing of it is left."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import ovs_here
import pytest
from victims import victim

from pytest_vperf.commands import doctor
from pytest_vperf.machine import leftovers, networks
from pytest_vperf.machine.preflight import program
from pytest_vperf.machine.runs import Run
from pytest_vperf.targets.host import Host
from pytest_vperf.targets.libvirt.neighbour import Neighbour
from pytest_vperf.targets.libvirt.network import OvsNetwork
from pytest_vperf.targets.network.mirror import mirrored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_vperf.machine.preflight import Readiness

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make bridges and links")

#: Makes a network with another host on it, says its run, and waits to be killed or interrupted.
VICTIM = """
import time
from pytest_vperf.machine.runs import Run
from pytest_vperf.targets.host import Host
from pytest_vperf.targets.libvirt.neighbour import Neighbour
from pytest_vperf.targets.libvirt.network import OvsNetwork

with Run.begin() as run, Host(run) as host:
    network = OvsNetwork(host, run, "qemu:///system")
    try:
        with Neighbour(host, network.plug(""), run.id, 1):
            print(run.id, flush=True)
            time.sleep(60)
    finally:
        network.close()
"""
#: Sends packets of UDP to an address and a port.
SEND = """
import socket, sys
with socket.socket(type=socket.SOCK_DGRAM) as out:
    for number in range(int(sys.argv[3])):
        out.sendto(b"x" * 100, (sys.argv[1], int(sys.argv[2])))
"""
PACKETS = 200
SO_RCVBUFFORCE = 33  # socket(7)


@pytest.fixture(scope="module", autouse=True)
def switch(short_folder: Path, require: Callable[[str, Readiness], None]) -> Iterator[None]:
    require("host", program("ovs-vswitchd", "openvswitch-switch"))
    with (
        pytest.MonkeyPatch.context() as patch,
        ovs_here.answering(short_folder / "ovs", patch),
    ):
        yield


def left(run: str) -> list[str]:
    """The remaining traces of a run's networks."""
    bridges = ovs_here.said("list-br").split()
    return [
        *(name for name in bridges if run in name),
        *(path.name for path in Path("/sys/class/net").iterdir() if run in path.name),
        *(path.name for path in networks.NAMESPACES.glob(f"*{run}*")),
    ]


def test_hosts_on_a_bridge_are_reached_and_mirrored(runs_dir: Path) -> None:
    with Run.begin() as run, Host(run) as host:
        network = OvsNetwork(host, run, "qemu:///system")
        with Neighbour(host, network.plug("a namespace"), run.id, 1) as other:
            details = other.facts().details
            assert details["open_vswitch_datapath"].split(":")[0] in ("system", "netdev")
            target: Any = SimpleNamespace(name="other", link=other.link, port=f"vp{run.id}o1")
            with mirrored(target, host=host, by="ovs") as mirror:
                before = mirror.copied
                arrived, seen = sent_to(network.host.listen, other, mirror.monitor)
                # Each once; what other protocols say meanwhile is copied, too.
                assert seen == PACKETS
                assert mirror.copied - before >= PACKETS
                assert arrived == PACKETS
                assert counted_by_the_switch(mirror.monitor) >= PACKETS
            assert ovs_here.said("--columns=name", "list", "mirror").strip() == ""
            assert mirror.monitor not in left(run.id)
        network.close()
        assert left(run.id) == []


def sent_to(address: str, other: Neighbour, monitor: str) -> tuple[int, int]:
    """How many packets arrive at an address of this machine, of those that another host sends; and at the monitor."""
    everything = socket.htons(0x0003)  # ETH_P_ALL (packet(7))
    with (
        socket.socket(type=socket.SOCK_DGRAM) as server,
        socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, everything) as copies,
    ):
        for each in (server, copies):
            # All of them lie there before they are read.
            each.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 8 << 20)
            each.settimeout(5)
        server.bind((address, 0))
        copies.bind((monitor, 0))
        port = server.getsockname()[1]
        other.run([sys.executable, "-c", SEND, address, str(port), str(PACKETS)])
        return received(server, lambda _: True), received(copies, lambda data: is_for(data, port))


def received(server: socket.socket, counts: Callable[[bytes], bool]) -> int:
    """How many packets that count arrive; those that are missing are waited for."""
    found = 0
    while found < PACKETS:
        try:
            found += counts(server.recv(2048))
        except TimeoutError:
            break
    return found


def is_for(packet: bytes, port: int) -> bool:
    """Whether a packet of IPv4 is one of UDP for a port."""
    if len(packet) < 28 or packet[0] >> 4 != 4 or packet[9] != socket.IPPROTO_UDP:
        return False
    begin = (packet[0] & 15) * 4
    return int.from_bytes(packet[begin + 2 : begin + 4], "big") == port


def counted_by_the_switch(mirror: str) -> int:
    """The packets that its own table has for a mirror, which it brings up to date every five seconds."""
    deadline, found = time.monotonic() + 12, 0
    while found < PACKETS and time.monotonic() < deadline:
        time.sleep(0.2)
        # Until the first time it has none.
        said = ovs_here.said("--if-exists", "get", "mirror", mirror, "statistics:tx_packets")
        found = int(said.strip() or 0)
    return found


def test_leftovers_of_a_killed_run_are_found_and_removed(runs_dir: Path) -> None:
    process, run = victim(VICTIM)
    assert {f"vp{run}n0", f"vperf-{run}-other1"} <= {*left(run)}
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=30)
    assert f"vp{run}n0" in left(run)
    found = leftovers.find()
    assert f"run {run}: bridge vp{run}n0" in map(str, found)
    assert leftovers.remove(found) == []
    assert left(run) == []
    assert leftovers.find() == []


def test_a_link_whose_switch_and_folder_are_gone_is_found(runs_dir: Path) -> None:
    """As the tap of a datapath of its own is left by a switch that was killed (tun(4), TUNSETPERSIST)."""
    places = {
        "vpdeadbee0n0": f"pytest-vperf {runs_dir}/run-deadbee0",
        "vpdeadbee1n0": f"pytest-vperf {runs_dir}/elsewhere/run-deadbee1",
        "vpdeadbee2n0": "somebody's",
    }
    for name, alias in places.items():
        subprocess.run(["ip", "tuntap", "add", "dev", name, "mode", "tap"], check=True)
        subprocess.run(["ip", "link", "set", "dev", name, "alias", alias], check=True)
    try:
        assert [str(found) for found in leftovers.find()] == ["run deadbee0: link vpdeadbee0n0"]
        assert len(leftovers.sweep()) == 1
        assert sorted(left("deadbee")) == ["vpdeadbee1n0", "vpdeadbee2n0"]
    finally:
        for name in left("deadbee"):
            subprocess.run(["ip", "link", "delete", name], check=True)


def test_ctrl_c_leaves_nothing(runs_dir: Path) -> None:
    process, run = victim(VICTIM)
    os.kill(process.pid, signal.SIGINT)
    process.communicate(timeout=30)
    assert left(run) == []


def test_the_doctor_reports_open_vswitch(capsys: pytest.CaptureFixture[str]) -> None:
    assert doctor.run(["openvswitch"]) == 0
    assert "ovs-vswitchd answers" in " ".join(capsys.readouterr().out.split())
