"""Replacing a pod's container: the commands to QEMU and the agent, their order, and the error of each failure."""

from __future__ import annotations

import errno
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from fake_machine import FakeQemu, exited, machine_of

from pytest_vperf.targets.agent.wire import Frame, Type, command_payload
from pytest_vperf.targets.base import CannotConnect, CannotStart, TargetError, TimedOut, Unavailable
from pytest_vperf.targets.image.rootfs import Rootfs
from pytest_vperf.targets.pod import pod as pod_module
from pytest_vperf.targets.pod.assets import Assets
from pytest_vperf.targets.pod.config import MachineConfig
from pytest_vperf.targets.pod.pod import DEFAULT_ENVIRONMENT, Pod
from pytest_vperf.targets.pod.qemu import Channels, command_line
from pytest_vperf.targets.scope import Scope
from pytest_vperf.targets.xen.pods import XenPods

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

OLD = Rootfs(Path("/old.tar"), "00", "old")
NEW = Rootfs(Path("/new.tar"), "11", "new")
DELETED = {"event": "DEVICE_DELETED", "data": {"device": "image0", "path": "/machine/image0"}}


def agrees(frame: Frame) -> list[Frame]:
    """An agent with which every step succeeds: the disk appears, the old container ends, the new one runs."""
    if frame.type is Type.IMAGE:
        return [Frame(Type.DISK, 0, b"/dev/vdb")]
    if frame.type is Type.START:
        return [
            Frame(Type.OUTPUT, 1, b"of the old one"),
            exited(137, 7),
            exited(137),
            Frame(Type.RUNNING, 1),
            Frame(Type.RELEASED, 0, b"/dev/vda"),
        ]
    return []


@pytest.fixture
def qemu() -> Iterator[FakeQemu]:
    made = FakeQemu()
    made.answer = agrees
    made.pushed = {"device_del": [DELETED]}
    yield made
    made.end()


@pytest.fixture
def pod(qemu: FakeQemu, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pod]:
    monkeypatch.setattr(pod_module, "build_disk", lambda path, _: path.with_suffix(".squashfs"))
    made = Pod(machine_of(qemu), 0.0, {"rootfs": "old", "rootfs_sha256": "00"}, OLD)
    yield made
    made.close()


def test_replacing_sends_its_commands_in_order(pod: Pod, qemu: FakeQemu) -> None:
    took = pod.replace(NEW, command=("sleep", "9"))
    assert took.unit == "ms"
    assert [name for name, _ in took.breakdown] == ["disk", "stop", "container"]
    assert took.value == pytest.approx(sum(part for _, part in took.breakdown))
    assert all(part >= 0 for _, part in took.breakdown)
    opened = {"driver": "file", "filename": "/new.squashfs"}
    assert qemu.told == [
        (
            "blockdev-add",
            {"driver": "raw", "node-name": "image1", "read-only": True, "file": opened},
        ),
        (
            "device_add",
            {
                "driver": "virtio-blk-pci",
                "disable-legacy": "on",
                "id": "image1",
                "drive": "image1",
                "serial": "vperf-image1",
                "bus": "swap",
            },
        ),
        ("IMAGE", b"vperf-image1\0"),
        ("START", command_payload(("sleep", "9"), DEFAULT_ENVIRONMENT, "/")),
        ("device_del", {"id": "image0"}),
        ("blockdev-del", {"node-name": "image0"}),
    ]
    details = pod.facts().details
    assert (details["rootfs"], details["rootfs_sha256"]) == ("new", "11")


def test_a_second_replacement_replaces_the_first(pod: Pod, qemu: FakeQemu) -> None:
    pod.replace(NEW)
    qemu.told.clear()
    qemu.pushed = {"device_del": [{**DELETED, "data": {"device": "image1"}}]}
    pod.replace()
    told = dict(qemu.told)
    assert told["device_add"]["id"] == "image2"
    assert told["blockdev-add"]["file"]["filename"] == "/new.squashfs"
    assert told["device_del"] == {"id": "image1"}


def test_a_container_that_had_ended_is_replaced_too(pod: Pod, qemu: FakeQemu) -> None:
    """Its end need not be awaited: two phases become one."""
    answers = {
        Type.IMAGE: [Frame(Type.DISK, 0)],
        Type.START: [Frame(Type.RUNNING, 1), Frame(Type.RELEASED, 0)],
    }
    qemu.answer = lambda frame: answers.get(frame.type, [])
    assert [name for name, _ in pod.replace(NEW).breakdown] == ["disk", "stop+container"]


def test_an_event_of_another_device_does_not_end_the_wait(pod: Pod, qemu: FakeQemu) -> None:
    other = {"event": "DEVICE_DELETED", "data": {"path": "/machine/image0/virtio-backend"}}
    qemu.pushed = {"device_del": [other]}
    with pytest.raises(
        TimedOut, match=r"its phase 'release of a replacement' \(QEMU did not answer"
    ):
        pod.replace(NEW, timeout=0.5)


def refused(qemu: FakeQemu) -> None:
    qemu.refuse = {"device_add": "Bus 'swap' not found"}


def never_there(qemu: FakeQemu) -> None:
    qemu.answer = lambda _: []


def ends(when: Type) -> Callable[[FakeQemu], None]:
    def change(qemu: FakeQemu) -> None:
        def answer(frame: Frame) -> list[Frame]:
            if frame.type is when:
                qemu.die(-9)
                return []
            return agrees(frame)

        qemu.answer = answer

    return change


def says(*frames: Frame) -> Callable[[FakeQemu], None]:
    def change(qemu: FakeQemu) -> None:
        qemu.answer = lambda each: list(frames) if each.type is Type.START else agrees(each)

    return change


NO_COMMAND = Frame(Type.FAILED, 1, errno.ENOENT.to_bytes(4, "little") + b"/no/such")


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (refused, CannotStart, "Bus 'swap' not found in the phase 'disk of a replacement'"),
        (never_there, TimedOut, "it never left its phase 'disk of a replacement'"),
        (ends(Type.IMAGE), CannotStart, "killed by signal 9 in the phase 'disk of a replacement'"),
        (ends(Type.START), CannotStart, "killed by signal 9 in the phase 'stop of a replacement'"),
        (
            says(exited(137), NO_COMMAND),
            CannotStart,
            "the container did not start: /no/such: No such file or directory",
        ),
        (
            says(exited(137), Frame(Type.RUNNING, 1), Frame(Type.ERRORS, 1, b"oh"), exited(3)),
            CannotStart,
            r"its container ended at once \(sleep infinity\) with status 3:\noh",
        ),
        (
            says(exited(137), Frame(Type.RUNNING, 1)),
            TimedOut,
            "it never left its phase 'release of a replacement'",
        ),
    ],
)
def test_a_replacement_that_fails_ends_the_machine(
    pod: Pod, qemu: FakeQemu, change: Any, error: type[Exception], words: str
) -> None:
    change(qemu)
    with pytest.raises(error, match=words):
        pod.replace(NEW, timeout=0.5)
    assert qemu.status == -9
    with pytest.raises(CannotConnect, match="is gone: it ended while true ran"):
        pod.run(["true"])
    with pytest.raises(CannotConnect, match="is gone: its container cannot be replaced"):
        pod.replace(NEW)
    assert pod.facts().details["rootfs"] == "old"


def test_a_qemu_that_ends_while_it_unplugs_is_not_waited_for(pod: Pod, qemu: FakeQemu) -> None:
    qemu.pushed = {}
    timer = threading.Timer(0.5, qemu.die, (1,))
    timer.start()
    with pytest.raises(CannotStart, match="ended with status 1 in the phase 'release of a"):
        pod.replace(NEW, timeout=60)
    timer.join()


def test_output_before_the_containers_end_is_reported(pod: Pod, qemu: FakeQemu) -> None:
    """Also where its end comes with the unplugging, long after its output."""

    def answer(frame: Frame) -> list[Frame]:
        if frame.type is not Type.START:
            return agrees(frame)
        threading.Timer(0.3, qemu.say, (Frame(Type.RELEASED, 0),)).start()
        threading.Timer(0.5, qemu.say, (exited(4),)).start()
        return [exited(137), Frame(Type.RUNNING, 1), Frame(Type.ERRORS, 1, b"no config")]

    qemu.answer = answer
    qemu.pushed = {}
    threading.Timer(0.7, qemu.push, (DELETED,)).start()
    with pytest.raises(CannotStart, match=r"with status 4:\nno config$"):
        pod.replace(NEW)


def test_an_image_that_is_missing_changes_nothing(pod: Pod, qemu: FakeQemu, tmp_path: Path) -> None:
    with pytest.raises(CannotStart, match=r"missing\.tar"):
        pod.replace(tmp_path / "missing.tar")
    with pytest.raises(TargetError, match="NUL"):
        pod.replace(NEW, command=("a\0b",))
    assert qemu.told == []
    assert pod.replace(NEW).value > 0


def test_a_pod_is_not_replaced_while_a_command_runs(pod: Pod, qemu: FakeQemu) -> None:
    begun, may_end = threading.Event(), threading.Event()

    def answer(frame: Frame) -> list[Frame]:
        if frame.type is Type.EXEC:
            begun.set()
            may_end.wait(10)
            return [exited(0, frame.stream)]
        return agrees(frame)

    qemu.answer = answer
    command = threading.Thread(target=pod.run, args=(["sleep", "1"],))
    command.start()
    assert begun.wait(10)
    with pytest.raises(TargetError, match="cannot be replaced while a command runs in it"):
        pod.replace(NEW)
    may_end.set()
    command.join()
    pod.replace(NEW)


def test_a_machine_without_a_hotplug_bus_names_the_option(qemu: FakeQemu) -> None:
    with (
        Pod(machine_of(qemu, replaceable=False), 0.0, {}, OLD) as pod,
        pytest.raises(CannotStart, match=r"pods\.start\(replaceable=True\)"),
    ):
        pod.replace(NEW)
    assert qemu.told == []


def test_pods_on_xen_and_microvm_machines_cannot_be_replaced() -> None:
    nothing: Any = None
    with pytest.raises(Unavailable, match="a pod on Xen cannot be replaced") as caught:
        XenPods(nothing, nothing, Scope()).start(replaceable=True)
    assert caught.value.target == "pod xen"
    assets = Assets("qemu", "7.2", nothing, Path("i"), Path("d"), OLD)
    with pytest.raises(Unavailable, match="QEMU's type microvm has no bus") as caught:
        assets.config("tcg", "qboot", machine="microvm", replaceable=True)
    assert caught.value.remedy == "machine= one of pc, q35"


@pytest.mark.parametrize(("kind", "bus"), [("q35", "swap"), ("pc", "pci.0")])
def test_only_a_replaceable_machine_has_the_bus(kind: str, bus: str) -> None:
    file = Path("/a,b")
    channels = Channels("fd=1", "fd=2", "fd=3")
    plain, more = (
        " ".join(
            command_line(
                "qemu",
                MachineConfig("tcg", file, file, file, file, machine=kind, replaceable=replaceable),
                channels,
                "name",
            )
        )
        for replaceable in (False, True)
    )
    assert "image0" not in plain
    assert "bridge" not in plain
    assert f"drive=image0,serial=vperf-image0,bus={bus}" in more
    assert "file.filename=/a,,b" in more
    assert ("pci-bridge,id=swap" in more) == (kind == "q35")
