"""Starting a machine on Xen: the clock runs until the agent has said, over the console, that it takes orders.

What a domU is made of.

A machine on Xen as libvirt's XML. Pure. Format: https://libvirt.org/drvxen.html, formatdomain.html.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from pytest_vperf.targets.agent.wire import Failure, Frame, Type, WireError
from pytest_vperf.targets.base import CannotConnect, CannotStart, TimedOut
from pytest_vperf.targets.libvirt.console import ConsoleSpeaker, WireConsole
from pytest_vperf.targets.libvirt.domain import Domain
from pytest_vperf.targets.libvirt.storage import add, metadata
from pytest_vperf.targets.limits import Limits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_vperf.targets.libvirt.connection import Connection


#: How a machine is virtualised → libvirt's type of operating system and its machine type. ``pv`` needs no help of the
#: processor, the others do.
MODES = {"pv": ("linux", "xenpv"), "pvh": ("xenpvh", "xenpvh"), "hvm": ("hvm", "xenfv")}


@dataclass(frozen=True)
class XenDisk:
    """A disk.

    Attributes:
        path: of the daemon's machine.
        format: ``raw`` or ``qcow2``.
        readonly: whether the machine may only read it.
        block: whether it is a block device, and no file.
    """

    path: str
    format: str = "raw"
    readonly: bool = False
    block: bool = False


@dataclass(frozen=True)
class DomuConfig:
    """A machine on Xen.

    Attributes:
        name: of the domain.
        mode: a key of `MODES`.
        kernel: path of the daemon's machine.
        initramfs: likewise.
        parameters: of the kernel.
        disks: in the order in which it sees them: ``xvda``, ``xvdb``, …
        vcpus: virtual CPUs.
        memory_mib: memory in MiB.
        limits: what it is held to.
        bridge: that its network card is plugged into; empty: it has none.
        mac: of its card.
        labels: by which a run finds its own again.
    """

    name: str
    mode: str
    kernel: str
    initramfs: str
    parameters: str
    disks: tuple[XenDisk, ...]
    vcpus: int
    memory_mib: int
    limits: Limits = field(default_factory=Limits)
    bridge: str = ""
    mac: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


def domain_xml(config: DomuConfig) -> str:
    """The description that libvirt starts the machine from."""
    system, machine = MODES[config.mode]
    domain = ElementTree.Element("domain", type="xen")
    add(domain, "name", config.name)
    domain.append(metadata(config.labels))
    add(domain, "memory", str(config.memory_mib), unit="MiB")
    vcpu = add(domain, "vcpu", str(config.vcpus))
    if config.limits.cpuset:
        vcpu.set("cpuset", config.limits.cpuset)
        # Xen's driver binds those processors alone that are named one by one.
        tune = add(domain, "cputune")
        for number in range(config.vcpus):
            add(tune, "vcpupin", vcpu=str(number), cpuset=config.limits.cpuset)
    os = add(domain, "os")
    add(os, "type", system, arch="x86_64", machine=machine)
    add(os, "kernel", config.kernel)
    add(os, "initrd", config.initramfs)
    add(os, "cmdline", config.parameters)
    # A kernel that dies reboots, and a machine that reboots is not the one that was started.
    for event in ("on_poweroff", "on_reboot", "on_crash"):
        add(domain, event, "destroy")
    devices = add(domain, "devices")
    for letter, disk in zip("abcdefghijklmnopqrstuvwxyz", config.disks, strict=False):
        _disk(devices, f"xvd{letter}", disk)
    if config.bridge:
        interface = add(devices, "interface", type="bridge")
        add(interface, "source", bridge=config.bridge)
        add(interface, "mac", address=config.mac)
    console = add(devices, "console", type="pty")
    add(console, "target", type="xen", port="0")
    return ElementTree.tostring(domain, encoding="unicode")


def _disk(devices: ElementTree.Element, name: str, disk: XenDisk) -> None:
    element = add(devices, "disk", type="block" if disk.block else "file", device="disk")
    # Xen's own back end in the host's kernel where it can; only QEMU's knows overlays.
    driver = "qemu" if disk.format == "qcow2" else "phy"
    add(element, "driver", name=driver, type=disk.format)
    add(element, "source", **{"dev" if disk.block else "file": disk.path})
    add(element, "target", dev=name, bus="xen")
    if disk.readonly:
        add(element, "readonly")


@dataclass
class Booted:
    """A machine whose agent takes orders.

    Attributes:
        domain: the machine.
        speaker: over which it is spoken to.
        began: the request, on time.perf_counter()'s clock.
        marks: the end of each phase so far, on that clock.
        deadline: when it is given up.
    """

    domain: Domain
    speaker: ConsoleSpeaker
    began: float
    marks: dict[str, float]
    deadline: float
    _frames: list[Frame] = field(default_factory=list)

    def __enter__(self) -> Booted:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        """End the machine if the rest of its start fails."""
        if error is not None:
            self.domain.destroy()

    def await_frame(self, wanted: Type, phase: str) -> None:
        """Wait for a frame, whose coming is the end of a phase.

        Raises:
            CannotStart: the machine ended, or says that it cannot.
            TimedOut: the deadline passed.
        """
        name = self.domain.name
        while True:
            while self._frames:
                frame = self._frames.pop(0)
                if frame.type is wanted:
                    self.marks[phase] = time.perf_counter()
                    return
                if frame.type is Type.FAILED:
                    try:
                        what = f"its agent could not {Failure.of(frame.payload)}"
                    except WireError as error:
                        what = str(error)
                    raise CannotStart(f"{name}: {what}{self.domain.last_words()}", target=name)
            if time.perf_counter() >= self.deadline:
                raise TimedOut(
                    f"{name} was not ready in time: it never left its phase {phase!r}"
                    f"{self.domain.last_words()}",
                    target=name,
                )
            self._frames += self._receive(self.deadline, phase)

    def _receive(self, deadline: float, phase: str) -> list[Frame]:
        name = self.domain.name
        try:
            frames = self.speaker.wait(deadline)
        except CannotConnect as error:
            raise CannotStart(str(error), target=name) from error
        if frames is None:
            raise CannotStart(
                f"{name} ended in the phase {phase!r}: {self.domain.why_gone()}{self.domain.last_words()}",
                target=name,
            )
        return frames

    def frames(self, deadline: float) -> list[Frame]:
        """What came and nobody awaited; what comes until the deadline if there is nothing.

        Raises:
            CannotStart: the machine ended.
        """
        if not self._frames:
            return self._receive(deadline, "container")
        waiting, self._frames = self._frames, []
        return waiting


def boot(
    connection: Connection,
    config: DomuConfig,
    name: str,
    *,
    kernel_line: bytes,
    timeout: float,
    opened: Callable[[], None],
) -> Booted:
    """Start a machine and wait for its agent; nothing is left running when this raises.

    Args:
        connection: to a daemon with Xen's driver.
        config: the machine.
        name: in messages and reports.
        kernel_line: what its first process prints first: the end of the phase ``kernel``.
        timeout: seconds for the whole start.
        opened: called as soon as the machine has opened its files, whether it then starts or not.

    Raises:
        CannotStart: libvirt or Xen refuses, or the machine ended; the message has its last words.
        TimedOut: its agent was not there within ``timeout``.
        CannotConnect: the daemon has gone.
    """
    libvirt = connection.libvirt
    domain = Domain(connection, config.name, name)
    description = domain_xml(config)
    began = time.perf_counter()
    deadline = began + timeout
    try:
        # Made stopped, so that nothing it prints is missed. Xen's driver ends no machine with its client.
        domain.create(description, libvirt.VIR_DOMAIN_START_PAUSED)
        console = domain.console = WireConsole(connection, domain.handle, (kernel_line,))
        domain.resume()
        booted = Booted(
            domain,
            ConsoleSpeaker(name, console, domain.watch),
            began,
            {"process": time.perf_counter()},
            deadline,
        )
        booted.await_frame(Type.READY, "agent")
        printed = console.when(kernel_line)
        if printed is not None:
            booted.marks["kernel"] = printed
        # Its drivers are up, so its disks are open.
        opened()
        return booted
    except BaseException:
        opened()
        domain.destroy()
        raise
