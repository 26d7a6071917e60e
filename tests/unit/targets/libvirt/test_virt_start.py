"""A full machine gets a root disk, disks of the run and a network card; a failed start releases them all."""

from __future__ import annotations

from contextlib import nullcontext
from ipaddress import IPv4Network
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from pytest_vperf.targets.base import CannotStart, Facts
from pytest_vperf.targets.guest import guests
from pytest_vperf.targets.guest.guests import Guests
from pytest_vperf.targets.libvirt.network import MachineNetwork, VirtualNetwork
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
        self.fails = ""
        self.scope = Scope()
        made = SimpleNamespace(
            sha256="", release="6.1", name="image", path="", image="", modules=()
        )
        self.daemon: Any = SimpleNamespace(
            mark=" (lab x)",
            details={"libvirt": "9"},
            is_remote=False,
            connection=None,
            run=SimpleNamespace(labels={"run": "1"}),
            new_name=lambda: "vperf-1-1",
            root_disk=lambda _: "/base",
            kernel=lambda _: "/kernel",
            initramfs=lambda *_: "/initramfs",
            storage=SimpleNamespace(
                remove=lambda name: self.events.append(f"remove {name}"),
                overlay=lambda name, base, _: self.note(f"overlay {name} of {base}"),
                relied_on=nullcontext,
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
            "guest": Guests(lambda: self.daemon, lambda: made, lambda: made, self.scope),  # type: ignore[arg-type,return-value]
            "domu": Domus(lambda: self.daemon, lambda: made, lambda: made, self.scope),  # type: ignore[arg-type,return-value]
        }

    def note(self, what: str) -> Any:
        self.events.append(what)
        return SimpleNamespace(path="/overlay", unlink=lambda: None)

    def booted(self, config: Any) -> None:
        self.configs.append(config)
        self.events.append("boot")
        if self.fails == "boot":
            raise CannotStart("boot fails")

    def start_guest(self, _: object, config: Any, *__: object, **___: object) -> Machine:
        self.booted(config)
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
