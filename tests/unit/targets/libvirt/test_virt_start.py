"""A full machine gets a root disk, disks of the run and a network card; a failed start releases them all."""

from __future__ import annotations

from contextlib import nullcontext
from ipaddress import IPv4Network
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from pytest_vperf.targets.base import CannotStart, Facts, Unavailable
from pytest_vperf.targets.guest import guests
from pytest_vperf.targets.guest.boot import Boot, domain_xml
from pytest_vperf.targets.guest.guests import Guests
from pytest_vperf.targets.guest.own_image import OwnImage
from pytest_vperf.targets.image.rootfs import Rootfs
from pytest_vperf.targets.libvirt.network import MachineNetwork, VirtualNetwork
from pytest_vperf.targets.libvirt.storage import RootDisk
from pytest_vperf.targets.scope import Scope
from pytest_vperf.targets.xen import domus
from pytest_vperf.targets.xen.boot import Booted
from pytest_vperf.targets.xen.domus import Domus

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_vperf.targets.libvirt.network import Plug

KINDS = ("guest", "domu")


class Machine:
    """A machine that fails at a given step."""

    def __init__(self, events: list[str], fails: str) -> None:
        self.name, self.events, self.fails = "machine", events, fails
        self.on_close: Callable[[], None] = lambda: None

    def step(self, name: str, what: str) -> None:
        self.events.append(what)
        if name == self.fails:
            raise CannotStart(f"{name} fails")

    def run(self, argv: list[str]) -> None:
        self.step("put", f"put {argv[4]} at {argv[5]}")

    def join(self, link: Any, address: str) -> None:
        del link
        self.step("join", f"join {address}")

    def facts(self) -> Facts:
        return Facts("machine", self.name, {})

    def close(self) -> None:
        self.events.append("close")
        self.on_close()


class Network(VirtualNetwork):
    """A network that libvirt need not make."""

    def __init__(self, events: list[str]) -> None:
        MachineNetwork.__init__(self, "0a1b2c3d", "br", IPv4Network("198.18.4.0/24"), "", "")
        self.events = events

    def plug(self, how: str) -> Plug:
        plug = super().plug(how)
        plug.link.unplug = lambda: self.events.append("unplug")
        return plug


class Starts:
    """Starts machines on a daemon that records its requests."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.events: list[str] = []
        self.configs: list[Any] = []
        self.details: list[dict[str, str]] = []
        self.fails = ""
        self.scope = Scope()
        made: Any = SimpleNamespace(sha256="", release="6.1", image="", modules=())
        rootfs = Rootfs(Path("/image.tar"), "", "image")
        self.daemon: Any = SimpleNamespace(
            mark=" (lab x)",
            details={"libvirt": "9"},
            is_remote=False,
            connection=None,
            run=SimpleNamespace(labels={"run": "1"}),
            new_name=lambda: "vperf-1-1",
            root_disk=lambda _: RootDisk("/base", 1 << 30),
            kernel=lambda _: "/kernel",
            initramfs=lambda *_: "/initramfs",
            storage=SimpleNamespace(
                remove=lambda name: self.events.append(f"remove {name}"),
                overlay=lambda name, base: self.note(f"overlay {name} of {base.path}"),
                relied_on=nullcontext,
                cached=lambda path, *_: f"/{path.name}",
            ),
        )
        self.disk: Any = SimpleNamespace(
            name="disk0",
            remote=False,
            device="/dev/loop0",
            inside="/vperf-disk0",
            format="ext4",
            lend=lambda machine: self.events.append(f"lend to {machine}"),
            give_back=lambda: self.events.append("give back"),
        )
        monkeypatch.setattr(guests, "start_guest", self.start_guest)
        monkeypatch.setattr(domus, "boot", self.boot)
        monkeypatch.setattr(domus, "need_mode", lambda *_: None)
        monkeypatch.setattr(domus, "set_limits", self.set_limits)
        monkeypatch.setattr(domus, "Domu", lambda *_: Machine(self.events, self.fails))
        self.starters: dict[str, Any] = {
            "guest": Guests(lambda: self.daemon, lambda: rootfs, lambda: made, self.scope),
            "domu": Domus(lambda: self.daemon, lambda: rootfs, lambda: made, self.scope),
        }

    def note(self, what: str) -> Any:
        self.events.append(what)
        return SimpleNamespace(path="/overlay", unlink=lambda: None)

    def booted(self, config: Any) -> None:
        self.configs.append(config)
        self.events.append("boot")
        if self.fails == "boot":
            raise CannotStart("boot fails")

    def start_guest(self, _: object, config: Any, *__: object, **given: Any) -> Machine:
        self.booted(config)
        self.details.append(given["details"])
        return Machine(self.events, self.fails)

    def boot(self, _: object, config: Any, *__: object, **___: object) -> Any:
        self.booted(config)
        domain: Any = SimpleNamespace(destroy=lambda: self.events.append("destroy"))
        return Booted(domain, cast("Any", None), 0.0, {}, 0.0)

    def set_limits(self, *_: object) -> dict[str, str]:
        if self.fails == "limits":
            raise CannotStart("limits fails")
        return {}

    def start(self, kind: str) -> Machine:
        network = Network(self.events)
        machine: Machine = self.starters[kind].start(disks=[self.disk], network=network)
        return machine


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> Starts:
    return Starts(monkeypatch)


@pytest.mark.parametrize(
    ("kind", "name", "device"),
    [("guest", "guest kvm", "/dev/vdb"), ("domu", "domu pv", "/dev/xvdb")],
)
def test_a_machine_is_given_all_it_needs(starts: Starts, kind: str, name: str, device: str) -> None:
    machine = starts.start(kind)
    assert starts.events == [
        f"lend to {name} (lab x)",
        "overlay vperf-1-1.qcow2 of /base",
        "boot",
        f"put {device} at /vperf-disk0",
        "join 198.18.4.2/24",
    ]
    (config,) = starts.configs
    assert (config.name, config.vcpus, config.memory_mib) == ("vperf-1-1", 1, 512)
    assert config.labels == {"run": "1"}
    starts.events.clear()
    starts.scope.close_since()
    assert starts.events == ["close", "give back"]
    assert machine.disks == (starts.disk,)  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", ["boot", "put", "join"])
def test_a_start_that_fails_leaves_nothing(starts: Starts, kind: str, step: str) -> None:
    starts.fails = step
    with pytest.raises(CannotStart, match=f"^{step} fails$"):
        starts.start(kind)
    after = starts.events[starts.events.index("boot") + 1 :]
    ended = {"close", "destroy"} & {*after}
    assert bool(ended) == (step != "boot")
    for undone in ("give back", "remove vperf-1-1.qcow2", "unplug"):
        assert after.count(undone) == 1
        assert after.index(undone) > max((after.index(each) for each in ended), default=-1)
    assert starts.scope.mark == 0


def test_a_domu_whose_limits_fail_is_ended(starts: Starts) -> None:
    starts.fails = "limits"
    with pytest.raises(CannotStart, match=r"^limits fails$"):
        starts.start("domu")
    assert starts.events[-4:] == ["destroy", "remove vperf-1-1.qcow2", "give back", "unplug"]


def own_guests(starts: Starts, **more: Any) -> Any:
    """Guests with their own image."""
    image = OwnImage(Path("/images/own.qcow2"), "5" * 64, 3 << 30)
    return starts.starters["guest"]._like(_own=lambda: image, **more)


def test_a_guest_s_own_image_boots_by_itself(starts: Starts) -> None:
    """From its own disk, by the firmware: neither a kernel nor an image of ours is wanted."""
    refuse: Any = lambda: pytest.fail("nothing else is needed")  # noqa: E731
    own_guests(starts, _rootfs=refuse, _kernel=refuse).start()
    assert "overlay vperf-1-1.qcow2 of /own.qcow2" in starts.events
    (config,) = starts.configs
    assert config.boot == Boot("/overlay")
    xml = domain_xml(config)
    assert "<kernel>" not in xml
    assert 'file="/overlay"' in xml
    assert starts.details[-1] == {
        "machine_type": "q35",
        "cpu_model": "host-passthrough",
        "vcpus": "1",
        "memory": "512 MiB",
        "init": "of its own image",
        "boot": "firmware",
        "guest_image": "own.qcow2",
        "guest_image_sha256": "5" * 64,
        "libvirt": "9",
    }


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"init": "small"}, "init='small'"),
        ({"init": "systemd"}, "init='systemd'"),
        ({"init": "rescue"}, "init='rescue'"),
        ({"boot": "direct"}, "boot='direct'"),
    ],
)
def test_a_guest_s_own_image_cannot_be_told_how_to_boot(
    starts: Starts, asked: dict[str, str], said: str
) -> None:
    with pytest.raises(Unavailable) as caught:
        own_guests(starts).start(**asked)
    assert str(caught.value) == (
        f"a guest with its own image boots as its image says, and cannot be asked for {said} (to mend it: leave out"
        " --guest-image)"
    )
    assert starts.events == []
    own_guests(starts).start(boot="firmware")


def test_a_guest_s_own_image_has_its_own_kernel(starts: Starts) -> None:
    with pytest.raises(
        CannotStart, match=r"its own image has its own kernel: leave out --guest-image"
    ):
        own_guests(starts).of(kernel="/boot/vmlinuz")
    assert own_guests(starts).of(qemu="/usr/bin/qemu") is not None
