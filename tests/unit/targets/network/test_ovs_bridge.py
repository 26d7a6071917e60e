"""Making a bridge of Open vSwitch by commands, and the errors where that fails."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from far import Far

from pytest_vperf.machine.runs import LABEL_FOLDER, LABEL_PLACE, LABEL_RUN, place
from pytest_vperf.targets.base import TargetError, Unavailable
from pytest_vperf.targets.network import commands, open_vswitch
from pytest_vperf.targets.network.open_vswitch import Bridge

if TYPE_CHECKING:
    from pathlib import Path

ASK = "ovs-vsctl --timeout=10"
VERSION = "ovs-vswitchd (Open vSwitch) 3.1.0\n"
LABELS = {"run": "0a1b2c3d", LABEL_FOLDER: "/var/tmp/vperf-0/run-0a1b2c3d"}
START = (
    "systemctl start openvswitch-switch; without systemd: /usr/share/openvswitch/scripts/ovs-ctl --system-id=random"
    " start, and without its kernel module: ovs-vswitchd --pidfile --detach; as root"
)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VPERF_RUNS_DIR", str(tmp_path / "runs"))
    return tmp_path / "runs"


def make(far: Far) -> Bridge:
    return open_vswitch.make(commands.on(far), "vp0a1b2c3dn0", LABELS)  # type: ignore[arg-type]


def answers(*ports: str) -> Far:
    return Far(
        {
            "ovs-appctl": (0, VERSION),
            f"{ASK} --format=json": (0, '{"data": []}'),
            f"{ASK} get Interface": [(0, f"{port}\n") for port in ports],
        }
    )


def test_a_bridge_uses_the_kernels_datapath() -> None:
    far = answers("65534")
    bridge = make(far)
    assert bridge == Bridge("vp0a1b2c3dn0", "system", "3.1.0")
    assert bridge.details == {
        "open_vswitch": "3.1.0",
        "open_vswitch_datapath": "system: the kernel moves the packets",
    }
    assert far.told == [
        "ovs-appctl --timeout=10 version",
        f"{ASK} --format=json --columns=name,external_ids list Bridge",
        f"{ASK} add-br vp0a1b2c3dn0 -- set Bridge vp0a1b2c3dn0 datapath_type=system"
        ' external_ids:run="0a1b2c3d"'
        f' external_ids:{LABEL_FOLDER}="/var/tmp/vperf-0/run-0a1b2c3d"',
        f"{ASK} get Interface vp0a1b2c3dn0 ofport",
    ]


@pytest.mark.parametrize("none", ["[]", "-1"])
def test_a_bridge_falls_back_to_the_userspace_datapath(none: str) -> None:
    far = answers(none, "65534")
    assert make(far).details["open_vswitch_datapath"] == "netdev: ovs-vswitchd moves the packets"
    assert far.told[4] == f"{ASK} --if-exists del-br vp0a1b2c3dn0"
    assert "datapath_type=netdev" in far.told[5]
    mark = "pytest-vperf /var/tmp/vperf-0/run-0a1b2c3d"
    assert far.told[7] == f"ip link set dev vp0a1b2c3dn0 alias {mark}"


def test_without_any_datapath_a_bridge_is_unavailable() -> None:
    far = answers("[]")
    with pytest.raises(Unavailable) as caught:
        make(far)
    assert str(caught.value) == (
        "Open vSwitch 3.1.0 cannot create a bridge, neither with the kernel's datapath nor with its own (to mend it:"
        " modprobe -a openvswitch tun, as root; otherwise see its log in /var/log/openvswitch)"
    )
    assert far.told[-1] == f"{ASK} --if-exists del-br vp0a1b2c3dn0"


@pytest.mark.parametrize(
    ("said", "remedy"),
    [
        (
            (127, "sh: exec: ovs-appctl: not found"),
            "ovs-appctl is not installed on host (lab kvm)"
            " (to mend it: apt-get install openvswitch-switch, there)",
        ),
        (
            (
                1,
                "2026-01-01T00:00:00Z|00001|daemon_unix|WARN|x.pid: open: No such file or directory\n"
                'ovs-appctl: cannot read pidfile "/var/run/openvswitch/ovs-vswitchd.pid" (No such file or directory)',
            ),
            "ovs-appctl --timeout=10 version on host (lab kvm): 2026-01-01T00:00:00Z|00001|daemon_unix|WARN|x.pid:"
            " open: No such file or directory ovs-appctl: cannot read pidfile"
            f' "/var/run/openvswitch/ovs-vswitchd.pid" (No such file or directory) (to mend it: {START})',
        ),
        (
            (1, "ovs-appctl: cannot connect to x.ctl (Permission denied)"),
            "ovs-appctl --timeout=10 version on host (lab kvm): ovs-appctl: cannot connect to x.ctl (Permission"
            " denied) (to mend it: run as the machine's root; in a container, run it with --privileged)",
        ),
    ],
    ids=["not installed", "does not run", "not root"],
)
def test_a_silent_open_vswitch_is_unavailable(said: tuple[int, str], remedy: str) -> None:
    far = Far({"ovs-appctl": said})
    with pytest.raises(Unavailable) as caught:
        make(far)
    assert str(caught.value) == remedy
    assert len(far.told) == 1


@pytest.mark.parametrize(
    "said",
    [
        "ovs-vsctl: unix:/var/run/openvswitch/db.sock: database connection failed (No such file or directory)",
        "2026-01-01T00:00:00Z|00002|fatal_signal|WARN|terminating with signal 14 (Alarm clock)",
    ],
    ids=["database", "switch"],
)
def test_a_silent_database_is_unavailable(said: str) -> None:
    far = Far({"ovs-appctl": (0, VERSION), ASK: (1, said)})
    with pytest.raises(Unavailable) as caught:
        make(far)
    assert caught.value.remedy == START
    assert said in caught.value.reason


def test_a_refusal_is_an_error() -> None:
    far = Far(
        {
            "ovs-appctl": (0, VERSION),
            f"{ASK} add-br": (1, "ovs-vsctl: a bridge named x already exists"),
        }
    )
    with pytest.raises(TargetError, match="already exists") as caught:
        make(far)
    assert not isinstance(caught.value, Unavailable)


def test_an_unreadable_version_is_an_error() -> None:
    with pytest.raises(TargetError, match="the version of Open vSwitch is not understood: 'hello'"):
        open_vswitch.version(lambda *_: "hello")


def test_leftovers_of_our_dead_runs_on_another_machine_are_removed(home: Path) -> None:
    def row(name: str, **changes: str) -> list[object]:
        of = {
            LABEL_RUN: "01234567",
            LABEL_PLACE: place(),
            LABEL_FOLDER: str(home.resolve() / "run-01234567"),
        }
        return [name, ["map", [*{**of, **changes}.items()]]]

    rows = [row("vp01234567n0"), row("other", **{LABEL_PLACE: "elsewhere/0"}), ["br0", ["map", []]]]
    far = answers("65534")
    far.say(f"{ASK} --format=json", (0, json.dumps({"data": rows})))
    make(far)
    removed = [words for words in far.told if "del-br" in words]
    assert removed == [f"{ASK} --if-exists del-br vp01234567n0"]


def test_the_doctor_reports_open_vswitch(monkeypatch: pytest.MonkeyPatch) -> None:
    far = answers("65534")
    monkeypatch.setattr(commands, "here", lambda: commands.on(far))  # type: ignore[arg-type]
    found = open_vswitch.check()
    assert (found.name, found.usable) == ("openvswitch", True)
    assert found.why == "Open vSwitch 3.1.0: ovs-vswitchd answers"
    far.say("ovs-appctl", (127, ""))
    found = open_vswitch.check()
    assert (found.usable, found.remedy) == (False, "apt-get install openvswitch-switch, there")
