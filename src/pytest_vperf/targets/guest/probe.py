"""Whether guests work on a daemon's machine, with KVM or emulated: asked of libvirt, and then tried.

A ``/dev/kvm`` that is there proves nothing, and libvirt's word for it no more: under some hypervisors a guest kernel
never reaches its userspace on it. So a small machine without a disk is started, which has to get that far.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pytest_vperf.machine.preflight import Readiness
from pytest_vperf.targets.base import CannotConnect, TargetError
from pytest_vperf.targets.guest.config import Boot, GuestConfig
from pytest_vperf.targets.guest.domain_xml import domain_xml
from pytest_vperf.targets.guest.guests import TYPES
from pytest_vperf.targets.kernel.lines import INIT_LINE
from pytest_vperf.targets.kernel.root_initramfs import VIRTIO
from pytest_vperf.targets.limits import Limits
from pytest_vperf.targets.virt.console import Console
from pytest_vperf.targets.virt.domain import Domain
from pytest_vperf.targets.virt.failures import words

if TYPE_CHECKING:
    from pytest_vperf.targets.kernel.guest_kernel import GuestKernel
    from pytest_vperf.targets.virt.daemon import Daemon

#: Seconds for a kernel to get to its first process: about one with a processor's help; many where the daemon's host
#: is emulated itself.
TIME_LIMIT = 90.0
PARAMETERS = "console=ttyS0 earlyprintk=ttyS0 quiet panic=-1 reboot=t no_timer_check"

_KVM_REMEDY = "a host with /dev/kvm, or --lab=kvm for an emulated one"


def probe_kvm(daemon: Daemon, kernel: GuestKernel) -> Readiness:
    """Whether guests with KVM work there. Takes seconds; the answer holds as long as the daemon's host is up."""
    return probe(daemon, kernel, "kvm")


def probe(daemon: Daemon, kernel: GuestKernel, accelerator: str) -> Readiness:
    """Whether guests with an accelerator work there.

    Args:
        daemon: starts the machine.
        kernel: its kernel.
        accelerator: ``kvm`` or ``tcg``.

    Raises:
        CannotConnect: the daemon has gone: that is no answer.
    """
    name = f"guest {accelerator}"
    kind, cpu = TYPES[accelerator]
    connection = daemon.connection
    where = f"libvirt at {connection.shown}"
    try:
        connection.handle.getDomainCapabilities(None, "x86_64", None, kind)
    except connection.libvirt.libvirtError as error:
        if accelerator == "kvm":
            return Readiness(name, False, f"{where} has no KVM", _KVM_REMEDY)
        return Readiness(
            name, False, f"{where} has no QEMU: {words(error)}", "apt-get install qemu-system-x86"
        )
    domain = Domain(connection, daemon.new_name(), name)
    try:
        return _try(domain, daemon, kernel, Readiness(name, True, where), (kind, cpu))
    except CannotConnect:
        raise
    except TargetError as error:
        return Readiness(name, False, str(error))
    finally:
        domain.destroy()


def _try(
    domain: Domain,
    daemon: Daemon,
    kernel: GuestKernel,
    asked: Readiness,
    processor: tuple[str, str],
) -> Readiness:
    kind, cpu = processor
    boot = Boot(
        "", daemon.kernel(kernel), daemon.initramfs(kernel, VIRTIO), f"{PARAMETERS} root=/dev/none"
    )
    config = GuestConfig(
        name=domain.identity,
        kind=kind,
        boot=boot,
        vcpus=1,
        memory_mib=256,
        machine="q35",
        cpu=cpu,
        limits=Limits(),
        labels=daemon.run.labels,
    )
    connection = daemon.connection
    libvirt = connection.libvirt
    domain.create(
        domain_xml(config),
        libvirt.VIR_DOMAIN_START_PAUSED | libvirt.VIR_DOMAIN_START_AUTODESTROY,
    )
    console = domain.console = Console(connection, domain.handle, (INIT_LINE,))
    domain.resume()
    deadline = time.perf_counter() + TIME_LIMIT
    while console.when(INIT_LINE) is None and time.perf_counter() < deadline:
        if domain.watch.wait_end(time.perf_counter() + 0.05):
            console.settle(1.0)
            break
    if console.when(INIT_LINE) is not None:
        return Readiness(asked.name, True, f"{asked.why}: a guest kernel got to its userspace")
    why = domain.why_gone() if domain.watch.ended else f"not within {TIME_LIMIT:g} s"
    has = "KVM" if kind == "kvm" else "QEMU"
    return Readiness(
        asked.name,
        False,
        f"{asked.why} has {has}, but a guest kernel never reached its userspace ({why})",
        _KVM_REMEDY if kind == "kvm" else "",
    )
