"""A machine on Xen: its configuration, its libvirt XML, and its start, timed until its agent is ready.

Format of the XML: https://libvirt.org/drvxen.html, formatdomain.html.
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


#: Virtualisation mode → libvirt's operating system type and machine type. ``pv`` needs no hardware virtualisation,
#: the others do.
MODES = {"pv": ("linux", "xenpv"), "pvh": ("xenpvh", "xenpvh"), "hvm": ("hvm", "xenfv")}


@dataclass(frozen=True)
class XenDisk:
    """A disk.

    Attributes:
        path: on the daemon's machine.
        format: ``raw`` or ``qcow2``.
        readonly: whether the machine may only read it.
        block: whether it is a block device rather than a file.
    """

    path: str
    format: str = "raw"
    readonly: bool = False
    block: bool = False


@dataclass(frozen=True)
class DomuConfig:
    """The configuration of a machine on Xen.

    Attributes:
        name: the domain's.
        mode: a key of `MODES`.
        kernel: its path on the daemon's machine.
        initramfs: likewise.
        parameters: the kernel's command line.
        disks: in the machine's order: ``xvda``, ``xvdb``, …
        vcpus: virtual CPUs.
        memory_mib: memory in MiB.
        limits: on its use of the host.
        bridge: for its network card; empty for no card.
        mac: its card's MAC address.
        labels: the run's, by which leftovers are recognised.
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
    """The machine's definition for libvirt."""
    system, machine = MODES[config.mode]
    domain = ElementTree.Element("domain", type="xen")
    add(domain, "name", config.name)
    domain.append(metadata(config.labels))
    add(domain, "memory", str(config.memory_mib), unit="MiB")
    vcpu = add(domain, "vcpu", str(config.vcpus))
    if config.limits.cpuset:
        vcpu.set("cpuset", config.limits.cpuset)
        # Xen's driver pins only vCPUs that are listed one by one.
        tune = add(domain, "cputune")
        for number in range(config.vcpus):
            add(tune, "vcpupin", vcpu=str(number), cpuset=config.limits.cpuset)
    os = add(domain, "os")
    add(os, "type", system, arch="x86_64", machine=machine)
    add(os, "kernel", config.kernel)
    add(os, "initrd", config.initramfs)
    add(os, "cmdline", config.parameters)
    # A kernel that panics reboots, and a rebooted machine is no longer the one that was started.
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
    # Xen's backend in the host's kernel where possible; only QEMU's supports overlays.
    driver = "qemu" if disk.format == "qcow2" else "phy"
    add(element, "driver", name=driver, type=disk.format)
    add(element, "source", **{"dev" if disk.block else "file": disk.path})
    add(element, "target", dev=name, bus="xen")
    if disk.readonly:
        add(element, "readonly")


@dataclass
class Booted:
    """A machine whose agent is ready.

    Attributes:
        domain: the machine.
        speaker: reaches its agent.
        began: time of the request, on time.perf_counter()'s clock.
        marks: the end of each phase so far, on that clock.
        deadline: of the start, on that clock.
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
        """Wait for a frame whose arrival ends a phase.

        Raises:
            CannotStart: the machine ended, or its agent reports a failure.
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
        """Frames received but not awaited; if none, those that arrive before the deadline.

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
        kernel_line: the first line of its first process, which ends the phase ``kernel``.
        timeout: seconds for the whole start.
        opened: called once the machine has opened its files, or its start has failed.

    Raises:
        CannotStart: libvirt or Xen refuses, or the machine ended; with the end of its output.
        TimedOut: its agent was not ready within ``timeout``.
        CannotConnect: the daemon has gone.
    """
    libvirt = connection.libvirt
    domain = Domain(connection, config.name, name)
    description = domain_xml(config)
    began = time.perf_counter()
    deadline = began + timeout
    try:
        # Created paused, so that no output is missed. Xen's driver cannot end a machine with its client.
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
        # Its drivers are running, so its disks are open.
        opened()
        return booted
    except BaseException:
        opened()
        domain.destroy()
        raise
