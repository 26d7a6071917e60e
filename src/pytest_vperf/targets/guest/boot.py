"""A guest: its configuration, its libvirt XML, and its start, timed until libvirt reports its agent.

Format of the XML: https://libvirt.org/formatdomain.html.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from pytest_vperf.targets.base import CannotConnect, CannotStart, TargetError, TimedOut
from pytest_vperf.targets.guest.guest import PHASES, GuestAgent
from pytest_vperf.targets.kernel.guest_kernel import INIT_LINE, KERNEL_LINE
from pytest_vperf.targets.libvirt.connection import failed
from pytest_vperf.targets.libvirt.console import Console
from pytest_vperf.targets.libvirt.domain import Domain
from pytest_vperf.targets.libvirt.storage import add, metadata
from pytest_vperf.targets.limits import PERIOD

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_vperf.targets.guest.guest import Guest
    from pytest_vperf.targets.libvirt.connection import Connection
    from pytest_vperf.targets.limits import Limits


#: The agent's port, by the name that libvirt expects.
AGENT_PORT = "org.qemu.guest_agent.0"


@dataclass(frozen=True)
class CardConfig:
    """A virtio network card.

    Attributes:
        bridge: on the daemon's machine, to plug it into.
        mac: its MAC address.
        vhost: whether the host's kernel moves the packets (vhost-net) instead of QEMU.
        switch: ``openvswitch`` for a bridge of Open vSwitch; empty for a Linux bridge.
        offloads: whether it may leave checksums and segmentation to its backend.
    """

    bridge: str
    mac: str
    vhost: bool = False
    switch: str = ""
    offloads: bool = True


@dataclass(frozen=True)
class DiskConfig:
    """A further virtio disk.

    Attributes:
        path: a block device or a raw file on the daemon's machine.
        serial: by which the guest finds it.
        tune: caps, in libvirt's names (``read_iops_sec``, …) and units.
    """

    path: str
    serial: str
    tune: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Boot:
    """What a guest boots from; all paths are on the daemon's machine.

    Attributes:
        disk: the overlay with its root; empty for none: its first process then ends the machine.
        kernel: for a direct boot; empty if the firmware boots from ``boot_disk``.
        initramfs: likewise.
        parameters: the kernel's command line, for a direct boot.
        boot_disk: a disk with a boot loader; empty for a direct boot.
    """

    disk: str
    kernel: str = ""
    initramfs: str = ""
    parameters: str = ""
    boot_disk: str = ""


@dataclass(frozen=True)
class GuestConfig:
    """The configuration of a guest.

    Attributes:
        name: the domain's.
        kind: libvirt's domain type: ``kvm``, or ``qemu`` for emulation.
        boot: what it boots from.
        vcpus: virtual CPUs.
        memory_mib: memory in MiB.
        machine: QEMU's machine type.
        cpu: ``host-passthrough``, ``maximum`` or the name of a model.
        limits: on its use of the host.
        disks: further disks.
        card: its network card, if any.
        labels: the run's, by which leftovers are recognised.
        partition: the parent of the guest's control group; empty for libvirt's default.
        emulator: the QEMU program; empty for libvirt's choice.
    """

    name: str
    kind: str
    boot: Boot
    vcpus: int
    memory_mib: int
    machine: str
    cpu: str
    limits: Limits
    disks: tuple[DiskConfig, ...] = ()
    card: CardConfig | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    partition: str = ""
    emulator: str = ""


#: Work that a card can offload to its host (formatdomain, "Setting NIC driver-specific options").
_OFFLOADS = ("csum", "gso", "tso4", "tso6", "ecn", "ufo")
#: CPU modes, which are not names of models (formatdomain, "CPU model and topology").
_MODES = ("host-passthrough", "host-model", "maximum")


def domain_xml(config: GuestConfig) -> str:
    """The guest's definition for libvirt."""
    domain = ElementTree.Element("domain", type=config.kind)
    add(domain, "name", config.name)
    domain.append(metadata(config.labels))
    add(domain, "memory", str(config.memory_mib), unit="MiB")
    vcpu = add(domain, "vcpu", str(config.vcpus))
    if config.limits.cpuset:
        vcpu.set("cpuset", config.limits.cpuset)
    if config.partition:
        add(add(domain, "resource"), "partition", config.partition)
    _limits(domain, config)
    _boot(domain, config)
    features = add(domain, "features")
    add(features, "acpi")
    add(features, "apic")
    _cpu(domain, config.cpu)
    # A kernel that panics reboots, and a rebooted machine is no longer the one that was started.
    for event in ("on_poweroff", "on_reboot", "on_crash"):
        add(domain, event, "destroy")
    _devices(domain, config)
    return ElementTree.tostring(domain, encoding="unicode")


def _limits(domain: ElementTree.Element, config: GuestConfig) -> None:
    limits = config.limits
    if limits.cpu_shares is None and limits.cpus is None:
        return
    tune = add(domain, "cputune")
    if limits.cpu_shares is not None:
        add(tune, "shares", str(limits.cpu_shares))
    if limits.cpus is not None:
        # For the whole machine, including the hypervisor's own threads, as the name means for a container.
        add(tune, "global_period", str(PERIOD))
        add(tune, "global_quota", str(limits.quota))
    if limits.cpuset:
        add(tune, "emulatorpin", cpuset=limits.cpuset)


def _boot(domain: ElementTree.Element, config: GuestConfig) -> None:
    boot = config.boot
    os = add(domain, "os")
    add(os, "type", "hvm", arch="x86_64", machine=config.machine)
    if boot.kernel:
        add(os, "kernel", boot.kernel)
        add(os, "initrd", boot.initramfs)
        add(os, "cmdline", boot.parameters)


def _cpu(domain: ElementTree.Element, cpu: str) -> None:
    if cpu in _MODES:
        add(domain, "cpu", mode=cpu)
        return
    element = add(domain, "cpu", mode="custom", match="exact")
    add(element, "model", cpu, fallback="forbid")


def _devices(domain: ElementTree.Element, config: GuestConfig) -> None:
    devices = add(domain, "devices")
    if config.emulator:
        add(devices, "emulator", config.emulator)
    _disks(devices, config.boot, config.disks)
    if config.card is not None:
        _card(devices, config.card)
    serial = add(devices, "serial", type="pty")
    add(serial, "target", port="0")
    channel = add(devices, "channel", type="unix")
    add(channel, "target", type="virtio", name=AGENT_PORT)
    rng = add(devices, "rng", model="virtio")
    add(rng, "backend", "/dev/urandom", model="random")
    # Devices that libvirt would add by default, switched off.
    add(devices, "controller", type="usb", model="none")
    add(devices, "memballoon", model="none")


def _disks(devices: ElementTree.Element, boot: Boot, disks: tuple[DiskConfig, ...]) -> None:
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    if boot.disk:
        root = add(devices, "disk", type="file", device="disk")
        # The machine's own disk is discarded with it, so nothing needs to reach the host's disk.
        add(root, "driver", name="qemu", type="qcow2", cache="unsafe")
        add(root, "source", file=boot.disk)
        add(root, "target", dev=f"vd{next(letters)}", bus="virtio")
    for each in disks:
        disk = add(devices, "disk", type="block", device="disk")
        # Bypass the host's page cache, so that the guest measures the disk.
        add(disk, "driver", name="qemu", type="raw", cache="none", io="threads")
        add(disk, "source", dev=each.path)
        add(disk, "target", dev=f"vd{next(letters)}", bus="virtio")
        if each.tune:
            tune = add(disk, "iotune")
            for name, value in each.tune.items():
                add(tune, name, str(value))
        add(disk, "serial", each.serial)
    # Last, so that the other disks keep their names with or without it.
    if boot.boot_disk:
        disk = add(devices, "disk", type="file", device="disk")
        add(disk, "driver", name="qemu", type="raw", cache="unsafe")
        add(disk, "source", file=boot.boot_disk)
        add(disk, "target", dev=f"vd{next(letters)}", bus="virtio")
        add(disk, "readonly")
        add(disk, "boot", order="1")


def _card(devices: ElementTree.Element, card: CardConfig) -> None:
    interface = add(devices, "interface", type="bridge")
    add(interface, "source", bridge=card.bridge)
    if card.switch:
        add(interface, "virtualport", type=card.switch)
    add(interface, "mac", address=card.mac)
    add(interface, "model", type="virtio")
    driver = add(interface, "driver", name="vhost" if card.vhost else "qemu")
    if not card.offloads:
        add(driver, "host", **dict.fromkeys(_OFFLOADS, "off"))
    # No boot ROM: the firmware would read it, and nothing boots from this network.
    add(interface, "rom", enabled="no")


#: Seconds for the first answer of an agent that has opened its port: it comes soon or never.
_FIRST_ANSWER = 20.0


def boot(
    connection: Connection,
    config: GuestConfig,
    name: str,
    *,
    timeout: float,
    make: Callable[..., Guest],
    details: Mapping[str, str],
    opened: Callable[[], None],
) -> Guest:
    """Start a guest; nothing is left running when this raises.

    Args:
        connection: to the daemon.
        config: the guest.
        name: in messages and reports.
        timeout: seconds for the whole start.
        make: makes its target, given all but the last of `Guest`'s arguments.
        details: for the record.
        opened: called once the machine has opened its files, or its creation has failed.

    Raises:
        CannotStart: libvirt refuses, or the machine ended; with the end of its output.
        TimedOut: its agent was not ready within ``timeout``.
        CannotConnect: the daemon is gone.
    """
    libvirt = connection.libvirt
    domain = Domain(connection, config.name, name)
    description = domain_xml(config)
    # Created paused, so that no output is missed, and ended by the daemon if we are killed.
    flags = libvirt.VIR_DOMAIN_START_PAUSED | libvirt.VIR_DOMAIN_START_AUTODESTROY
    began = time.perf_counter()
    deadline = began + timeout
    try:
        try:
            domain.create(description, flags)
        finally:
            opened()
        domain.console = Console(connection, domain.handle, (KERNEL_LINE, INIT_LINE))
        domain.resume()
        marks = {"process": time.perf_counter()}
        _await_agent(domain, marks, deadline, timeout)
        agent = GuestAgent(connection, domain)
        _first_answer(agent)
        _add_console_marks(domain, marks)
        asked = {**_accelerator(domain, config), **_asked(domain, config)}
        return make(domain, agent, began, marks, {**details, **asked})
    except BaseException:
        domain.destroy()
        raise


def _await_agent(domain: Domain, marks: dict[str, float], deadline: float, timeout: float) -> None:
    watch = domain.watch
    there = watch.wait(deadline)
    if watch.agent is not None:
        marks["userspace"] = watch.agent
        return
    if watch.lost:
        raise CannotConnect(
            f"{domain.name} is gone: {domain.why_gone()}{domain.last_words()}", target=domain.name
        )
    _add_console_marks(domain, marks)
    phase = next((phase for phase in PHASES if phase not in marks), PHASES[-1])
    if there:
        raise CannotStart(
            f"{domain.name} ended in the phase {phase!r}: {domain.why_gone()}{domain.last_words()}",
            target=domain.name,
        )
    hint = (
        "; it runs, but its agent never connected: its image must contain qemu-guest-agent and start it"
        if phase == "userspace"
        else ""
    )
    raise TimedOut(
        f"{domain.name} was not ready within {timeout:g} s: it never left its phase {phase!r}{hint}"
        f"{domain.last_words()}",
        target=domain.name,
    )


def _first_answer(agent: GuestAgent) -> None:
    """Make sure that the agent answers, which may take a moment after it has opened its port.

    Raises:
        TargetError: it does not.
    """
    deadline = time.perf_counter() + _FIRST_ANSWER
    while True:
        try:
            agent.ask("guest-ping", timeout=5)
            return
        except (CannotConnect, TimedOut):
            if time.perf_counter() >= deadline:
                raise
        time.sleep(0.1)


def _add_console_marks(domain: Domain, marks: dict[str, float]) -> None:
    console = domain.console
    if console is None:
        return
    kernel, init = console.when(KERNEL_LINE), console.when(INIT_LINE)
    if kernel is not None:
        marks["firmware"] = kernel
    if init is not None:
        marks["kernel"] = init


def _accelerator(domain: Domain, config: GuestConfig) -> dict[str, str]:
    """The accelerator in use, as reported by QEMU (QMP, query-kvm).

    Raises:
        CannotStart: it is not the one requested.
    """
    import json

    import libvirt_qemu

    try:
        said = libvirt_qemu.qemuMonitorCommand(domain.handle, '{"execute": "query-kvm"}', 0)
    except domain.connection.libvirt.libvirtError as error:
        raise failed(error, "tell its accelerator", domain.name) from None
    try:
        enabled = json.loads(said)["return"]["enabled"]
    except (ValueError, LookupError, TypeError, RecursionError):
        enabled = None
    if not isinstance(enabled, bool):
        raise CannotStart(
            f"{domain.name}: QEMU's answer to query-kvm is invalid", target=domain.name
        )
    if enabled != (config.kind == "kvm"):
        raise CannotStart(
            f"{domain.name}: asked for the domain type {config.kind}, QEMU says that KVM is"
            f" {'on' if enabled else 'off'}",
            target=domain.name,
        )
    return {"accelerator": "kvm" if enabled else "tcg", "domain_type": config.kind}


def _asked(domain: Domain, config: GuestConfig) -> dict[str, str]:
    """The limits, as read back from the hypervisor.

    Raises:
        CannotStart: one is not as requested.
    """
    limits = config.limits
    found = _disk_caps(domain, config)
    # Only asked if one of its values was set: a user's daemon can pin machines but has no scheduler parameters.
    scheduler = {} if limits.cpu_shares is None and limits.quota is None else domain.scheduler()
    if limits.cpu_shares is not None:
        found["cpu_shares"] = domain.check(
            "cpu_shares", limits.cpu_shares, scheduler.get("cpu_shares")
        )
    if limits.quota is not None:
        found["cpu_quota"] = domain.check("cpu_quota", limits.quota, scheduler.get("global_quota"))
    if limits.cpuset is not None:
        found["cpuset"] = _pinned(domain, limits.cpuset)
    return found


def _disk_caps(domain: Domain, config: GuestConfig) -> dict[str, str]:
    """The caps of the further disks, as read back from QEMU; the first disk is the machine's own.

    Raises:
        CannotStart: one is not as requested.
    """
    found: dict[str, str] = {}
    for disk, letter in zip(config.disks, "bcdefghijklmnopqrstuvwxyz", strict=False):
        if not disk.tune:
            continue
        try:
            caps = domain.handle.blockIoTune(f"vd{letter}")
        except domain.connection.libvirt.libvirtError as error:
            raise failed(error, "tell the caps of its disks", domain.name) from None
        for name, value in disk.tune.items():
            found[f"{disk.serial}_{name}"] = domain.check(name, value, caps.get(name))
    return found


def _pinned(domain: Domain, cpuset: str) -> str:
    from pytest_vperf.targets.limits import cpus_of

    wanted = cpus_of(cpuset)
    libvirt = domain.connection.libvirt
    try:
        maps = [*domain.handle.vcpuPinInfo(), domain.handle.emulatorPinInfo()]
    except libvirt.libvirtError as error:
        raise TargetError(f"{domain.name}: its pinning cannot be read: {error}") from None
    for each in maps:
        found = {number for number, allowed in enumerate(each) if allowed}
        if found != wanted:
            raise CannotStart(
                f"{domain.name}: asked for cpuset {cpuset!r}, the hypervisor has {sorted(found)}",
                target=domain.name,
            )
    return cpuset
