"""A network on a bridge of Open vSwitch: its commands, and that a failure or interrupt leaves nothing."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
from far import Far

from pytest_vperf.machine.runs import Run
from pytest_vperf.targets.base import CannotConnect, TargetError, Unavailable
from pytest_vperf.targets.libvirt.network import (
    MachineNetwork,
    OvsNetwork,
    VirtualNetwork,
    _cleaning,
    check_kind,
)
from pytest_vperf.targets.remote.connection import AtEnd

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ASK = "ovs-vsctl --timeout=10"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    monkeypatch.setenv("VPERF_RUNS_DIR", str(tmp_path / "runs"))
    with Run.begin() as made:
        yield made


def answers(port: str = "65534", **options: Any) -> Far:
    return Far(
        {
            "ovs-appctl": (0, "ovs-vswitchd (Open vSwitch) 3.1.0\n"),
            f"{ASK} --format=json": (0, '{"data": []}'),
            f"{ASK} get Interface": [(0, f"{port}\n"), (0, "65534\n")],
            "ip -j -4 address": (0, "[]"),
            "ip -j -4 route": (0, "[]"),
        },
        **options,
    )


def made(far: Far, run: Run) -> OvsNetwork:
    return OvsNetwork(far, run, "qemu+ssh://root@there/system", 2)  # type: ignore[arg-type]


def test_a_network_is_made_and_removed(run: Run) -> None:
    far, name = answers(), f"vp{run.id}n2"
    network = made(far, run)
    subnet = str(network.own.network)
    assert far.told[-3:] == [
        f"ip link set {name} addrgenmode none",
        f"ip address add {network.own} dev {name}",
        f"ip link set {name} up",
    ]
    plug = network.plug("vhost-net moves the packets")
    assert (plug.bridge, plug.switch, plug.offloads) == (name, "openvswitch", True)
    assert plug.link.address_for(network.host) == plug.link.address
    assert plug.link.details() == {
        "network": "bridge of Open vSwitch's, vhost-net moves the packets",
        "address": plug.link.address,
        "open_vswitch": "3.1.0",
        "open_vswitch_datapath": "system: the kernel moves the packets",
    }
    assert plug.link.monitor == f"vp{run.id}w2"
    assert network.host.details()["network"] == "bridge of Open vSwitch's, the host's end"
    network.close()
    network.close()
    assert far.told[-1] == f"{ASK} --if-exists del-br {name}"
    assert subnet.endswith("/24")


def test_a_subnet_that_the_machine_has_is_not_taken(run: Run) -> None:
    number = int(run.id, 16) + 2
    octets = number % 512
    has = f"198.{18 + octets // 256}.{octets % 256}.7"
    far = answers()
    far.say("ip -j -4 address", (0, json.dumps([{"addr_info": [{"local": has, "prefixlen": 24}]}])))
    network = made(far, run)
    assert has.rpartition(".")[0] != str(network.own.ip).rpartition(".")[0]


def test_a_userspace_datapath_has_no_offloads(run: Run) -> None:
    network = made(answers("[]"), run)
    assert network.bridge.datapath == "netdev"
    assert not network.plug("").offloads


@pytest.mark.parametrize("at", ["route", "add-br", "address add", "up"])
def test_an_interrupt_leaves_nothing(run: Run, at: str) -> None:
    far = answers(interrupt=at)
    with pytest.raises(KeyboardInterrupt):
        made(far, run)
    assert far.told[-1] == f"{ASK} --if-exists del-br vp{run.id}n2"


def test_an_address_that_is_refused_leaves_nothing(run: Run) -> None:
    far = answers()
    far.say("ip address add", (2, "RTNETLINK answers: File exists"))
    with pytest.raises(TargetError, match="File exists"):
        made(far, run)
    assert far.told[-1] == f"{ASK} --if-exists del-br vp{run.id}n2"


def test_a_missing_open_vswitch_is_reported(run: Run) -> None:
    far = answers()
    far.say("ovs-appctl", (127, ""))
    far.say(ASK, (127, ""))
    with pytest.raises(Unavailable, match="ovs-appctl is not installed on host"):
        made(far, run)


def test_its_end_is_quiet_where_the_machine_is_gone(run: Run) -> None:
    far = answers()
    network = made(far, run)

    def gone(*_: object, **__: object) -> None:
        raise CannotConnect("ssh: gone")

    far.run = gone  # type: ignore[assignment, method-assign]
    network.close()


def test_guests_are_plugged_into_either_kind_and_other_machines_are_not(run: Run) -> None:
    network = made(answers(), run)
    assert check_kind(network, "guest kvm", MachineNetwork) is network
    with pytest.raises(TargetError) as caught:
        check_kind(network, "domu pv", VirtualNetwork)
    assert str(caught.value) == (
        "domu pv cannot be plugged into OvsNetwork: start it with network=machines.network, where machines is the"
        " fixture that starts it"
    )


# ---- the guardian on the other machine, which waits for the end of this process
# --------------------------------------------


class Here:
    """A connection to this machine."""

    environment = None

    def words(self, line: str) -> list[str]:
        return ["sh", "-c", line]


#: Ends without releasing the guardian.
KILLED = """
import os, sys
from pytest_vperf.targets.remote.connection import AtEnd
class Here:
    environment = None
    def words(self, line):
        return ["sh", "-c", line]
AtEnd(Here(), ["touch", sys.argv[1]])
os.kill(os.getpid(), 9)
"""


def test_a_released_remote_guardian_removes_nothing(tmp_path: Path) -> None:
    waiting = AtEnd(Here(), ["touch", str(tmp_path / "done")])  # type: ignore[arg-type]
    waiting.close()
    waiting.close()
    assert not (tmp_path / "done").exists()


def test_a_remote_guardian_cleans_up_after_a_killed_process(tmp_path: Path) -> None:
    file = tmp_path / "a 'file'"
    done = subprocess.run([sys.executable, "-c", KILLED, str(file)], check=False)
    assert done.returncode == -9
    deadline = time.monotonic() + 10
    while not file.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_remote_guardian_removes_only_objects_of_its_run(tmp_path: Path) -> None:
    """With fake programs, and paths in the test's folder."""
    told = tmp_path / "told"
    for name in ("ovs-vsctl", "ip"):
        program = tmp_path / name
        program.write_text(f'#!/bin/sh\necho "{name} $*" >>{told}\n')
        program.chmod(0o755)
    for name in (
        "net/vp0a1b2c3dw2",
        "net/vp0a1b2c3dn1",
        "net/vnet0",
        "ns/vperf-0a1b2c3d-other1",
        "ns/x",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    words = _cleaning("vp0a1b2c3dn0", "0a1b2c3d")
    assert words[-2:] == ["/sys/class/net/vp0a1b2c3dw", "/run/netns/vperf-0a1b2c3d-other"]
    words[-2:] = [f"{tmp_path}/net/vp0a1b2c3dw", f"{tmp_path}/ns/vperf-0a1b2c3d-other"]
    subprocess.run(words, env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, check=True)
    assert told.read_text().splitlines() == [
        "ovs-vsctl --timeout=10 -- --if-exists del-br vp0a1b2c3dn0",
        "ip link delete vp0a1b2c3dw2",
        "ip netns delete vperf-0a1b2c3d-other1",
    ]
