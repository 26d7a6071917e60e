"""Starting a guest: the clock runs from the request until its agent is there, which libvirt pushes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pytest_vperf.targets.base import CannotConnect, CannotStart, TargetError, TimedOut
from pytest_vperf.targets.guest.agent import GuestAgent
from pytest_vperf.targets.guest.domain_xml import domain_xml
from pytest_vperf.targets.guest.guest import PHASES, Guest
from pytest_vperf.targets.kernel.lines import INIT_LINE, KERNEL_LINE
from pytest_vperf.targets.virt.console import Console
from pytest_vperf.targets.virt.domain import Domain
from pytest_vperf.targets.virt.failures import failed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_vperf.targets.guest.config import GuestConfig
    from pytest_vperf.targets.image import Rootfs
    from pytest_vperf.targets.virt.connection import Connection

#: Seconds for an agent that has opened its port to answer: it has, a moment later, or it never does.
_FIRST_ANSWER = 20.0


def boot(
    connection: Connection,
    config: GuestConfig,
    name: str,
    *,
    timeout: float,
    rootfs: Rootfs,
    details: Mapping[str, str],
    opened: Callable[[], None],
) -> Guest:
    """Start a guest; nothing is left running when this raises.

    Args:
        connection: to the daemon.
        config: the guest.
        name: in messages and reports.
        timeout: seconds for the whole start.
        rootfs: its image.
        details: for the record.
        opened: called as soon as the machine has opened its files, whether it then starts or not.

    Raises:
        CannotStart: libvirt refuses, or the machine ended; the message has its last words.
        TimedOut: its agent was not there within ``timeout``.
        CannotConnect: the daemon has gone.
    """
    libvirt = connection.libvirt
    domain = Domain(connection, config.name, name)
    description = domain_xml(config)
    # Made stopped, so that nothing it prints is missed; and ended by the daemon if we are killed.
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
        return Guest(domain, agent, began, marks, {**details, **asked}, rootfs)
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
        "; it runs, but its agent never came: qemu-guest-agent has to be in its image, and be started"
        if phase == "userspace"
        else ""
    )
    raise TimedOut(
        f"{domain.name} was not ready within {timeout:g} s: it never left its phase {phase!r}{hint}"
        f"{domain.last_words()}",
        target=domain.name,
    )


def _first_answer(agent: GuestAgent) -> None:
    """Make sure that the agent answers; one that has just opened its port may still be reading it for the first time.

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
    """Which accelerator runs, as QEMU itself says (QMP, query-kvm).

    Raises:
        CannotStart: it is another one than was asked for.
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
            f"{domain.name}: what QEMU answered to query-kvm makes no sense", target=domain.name
        )
    if enabled != (config.kind == "kvm"):
        raise CannotStart(
            f"{domain.name}: asked for the domain type {config.kind}, QEMU says that KVM is"
            f" {'on' if enabled else 'off'}",
            target=domain.name,
        )
    return {"accelerator": "kvm" if enabled else "tcg", "domain_type": config.kind}


def _asked(domain: Domain, config: GuestConfig) -> dict[str, str]:
    """The limits, as the hypervisor has them.

    Raises:
        CannotStart: one is not what was asked for.
    """
    limits = config.limits
    found = _disk_caps(domain, config)
    # Asked where one of its values was: an ordinary user's daemon pins machines, and has no scheduler's parameters.
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
    """The caps of disks, as QEMU has them. The first disk is the machine's own.

    Raises:
        CannotStart: one is not what was asked for.
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
