"""The daemons where `vperf clean` looks for machines of dead runs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vperf.machine import leftovers
from pytest_vperf.machine.leftovers import Kind, Leftover
from pytest_vperf.machine.runs import NOTE, OWNER, Run
from pytest_vperf.targets.libvirt import leftovers as leftover_machines

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "runs"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("VPERF_RUNS_DIR", str(folder))
    return folder


def dead(home: Path, name: str, text: str | bytes) -> None:
    folder = home / name
    folder.mkdir()
    (folder / OWNER).write_text('{"pid": 1, "command": [], "began": 0}')
    (folder / NOTE).write_bytes(text if isinstance(text, bytes) else text.encode())


def test_each_daemon_that_dead_runs_used_once(home: Path) -> None:
    dead(home, "run-00000001", "xen:///system\nqemu+ssh://root@far/system?keyfile=/k\n")
    dead(home, "run-00000002", "xen:///system\nxen:///system\n")
    with Run.begin() as alive:
        (alive.folder / NOTE).write_text("qemu:///system\n")
        assert leftover_machines.noted() == [
            "xen:///system",
            "qemu+ssh://root@far/system?keyfile=/k",
        ]


@pytest.mark.parametrize("quoted", [False, True])
def test_a_daemon_of_a_runs_own_ended_with_it(home: Path, quoted: bool) -> None:
    socket = f"{home}/run-00000001/libvirt0/libvirt-sock"
    socket = socket.replace("/", "%2F") if quoted else socket
    dead(home, "run-00000001", f"qemu:///system?socket={socket}\n")
    assert leftover_machines.noted() == []
    assert leftover_machines.in_reach() == ([], [])


def test_an_unreadable_note_names_no_daemon(home: Path) -> None:
    dead(home, "run-00000001", b"\xff\xfe\n")
    assert leftover_machines.noted() == []


def test_machines_go_before_the_groups_and_disks_before_the_folder() -> None:
    order: list[str] = []

    def left(kind: Kind) -> Leftover:
        def gone() -> str:
            order.append(kind)
            return ""

        return Leftover("0", kind, kind, gone)

    assert leftovers.remove([left("folder"), left("cgroup"), left("disk"), left("machine")]) == []
    assert order == ["machine", "cgroup", "disk", "folder"]


class Refusal(Exception):
    def get_error_code(self) -> int:
        return 3

    def get_error_message(self) -> str:
        return "this function is not supported by the connection driver: virConnectListAllNetworks"


def test_a_daemon_without_networks_is_asked_about_the_rest() -> None:
    def refuse() -> None:
        raise Refusal

    asked: list[str] = []

    def pool(name: str) -> Any:
        asked.append(name)
        return SimpleNamespace(listVolumes=list)

    handle = SimpleNamespace(
        listAllDomains=list, listAllNetworks=refuse, storagePoolLookupByName=pool
    )
    # 3: VIR_ERR_NO_SUPPORT (libvirt/virterror.h)
    libvirt = SimpleNamespace(libvirtError=Refusal, VIR_ERR_NO_SUPPORT=3)
    connection: Any = SimpleNamespace(libvirt=libvirt, handle=handle, shown="xen:///system")
    assert leftover_machines.find(connection) == []
    assert asked == ["vperf"]
